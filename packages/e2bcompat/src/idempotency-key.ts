import { createHmac } from "node:crypto";
import type { Call } from "./call.ts";
import { E2bError } from "./errors.ts";
import type { HeaderDeclaration } from "./operation.ts";

/** Of creates that are to happen once. */
export const IDEMPOTENCY_KEY: HeaderDeclaration = {
  name: "Idempotency-Key",
  about: "Requests with the same key are one create, and have one answer.",
  pattern: /^[\x21-\x7e]{1,255}$/,
};
const KEY_DIGITS = 24;
const BODY_DIGITS = 8;
/** `e2b-<key>-<body>-<five characters>`: unlike the name of a sandbox that was made without a key. */
const NAME = new RegExp(`^e2b-[0-9a-f]{${KEY_DIGITS}}-[0-9a-f]{${BODY_DIGITS}}-[a-z0-9]{5}$`);
const KEY_END = "e2b-".length + KEY_DIGITS;

/** Length of the names of sandboxes that were made with a key. */
export const KEYED_NAME_LENGTH: number = KEY_END + 1 + BODY_DIGITS + 1 + 5;

/** A request that is to be done once, however often it is sent. */
export interface KeyedRequest {
  /** The same for all requests with this key in this namespace. */
  readonly prefix: string;
  /** The same for equal requests. */
  readonly fingerprint: string;
  /** A name for the sandbox that tells both. */
  readonly name: (fresh: string) => string;
}

/** The two parts of a keyed sandbox's name; `undefined` for other names. */
export function partsOf(name: string): { readonly prefix: string; readonly fingerprint: string } | undefined {
  return NAME.test(name)
    ? { prefix: name.slice(0, KEY_END), fingerprint: name.slice(KEY_END + 1, KEY_END + 1 + BODY_DIGITS) }
    : undefined;
}

/**
 * Reads the `Idempotency-Key` of a request. Neither the key nor the body is kept, only digests: they stand in the name
 * of the sandbox, so that another process finds it. Throws `bad_request` for a key that is none.
 */
export function keyedRequest(call: Call, body: unknown, secret: string | undefined): KeyedRequest | undefined {
  const key = call.context.req.header(IDEMPOTENCY_KEY.name);
  if (key === undefined) {
    return undefined;
  }
  if (!IDEMPOTENCY_KEY.pattern.test(key)) {
    throw new E2bError("bad_request", "Idempotency-Key: want 1 to 255 printable ASCII characters without spaces");
  }
  // Bodies hold secrets, and names are seen by whoever may look at nodes.
  const digest = (what: string, text: string): string =>
    createHmac("sha256", secret ?? "")
      .update(`${what}\0${call.namespace}\0${text}`)
      .digest("hex");
  const prefix = `e2b-${digest("key", key).slice(0, KEY_DIGITS)}`;
  const fingerprint = digest("body", canonical(body)).slice(0, BODY_DIGITS);
  return { prefix, fingerprint, name: (fresh) => `${prefix}-${fingerprint}-${fresh.slice(-5)}` };
}

/** JSON in which the order of members does not count. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_name, member: unknown) =>
    typeof member === "object" && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
}
