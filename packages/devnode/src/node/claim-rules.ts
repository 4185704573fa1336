import type { ClaimRequest, OnExpire, StringMap } from "@org/sandboxd-client/wire";
import { Refusal } from "./refusal.ts";

/** Lease of a claim that asks for none. */
const DEFAULT_LEASE_SECONDS = 300;
/** Longest lease; what asks for more gets this. */
const MAX_LEASE_SECONDS = 86_400;

const MAX_PAIRS = 16;
const MAX_KEY_BYTES = 128;
const MAX_VALUE_BYTES = 512;
const MAX_METADATA_BYTES = 4096;
const KEY = /^[\x20-\x7e]+$/;
/** Control characters, lone surrogates and what has no glyph at all. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Cn}]/u;

/** Lease in seconds that is granted for `asked`. */
export function grantLease(asked: number | undefined): number {
  return asked === undefined || asked <= 0 ? DEFAULT_LEASE_SECONDS : Math.min(asked, MAX_LEASE_SECONDS);
}

/** `undefined` keeps what is set. @throws Refusal 400 */
export function readOnExpire(value: string | undefined): OnExpire | undefined {
  if (value === undefined || value === "") {
    return undefined;
  }
  if (value !== "destroy" && value !== "archive") {
    throw new Refusal(400, `on_expire must be "destroy" or "archive", not ${JSON.stringify(value.slice(0, 64))}`);
  }
  return value;
}

/** Names of templates and checkpoints. Node API §1.3. */
const NAME = /^[a-zA-Z0-9][a-zA-Z0-9._:/-]{0,62}$/;

/** @throws Refusal 400 */
export function checkName(what: string, name: string): void {
  if (!NAME.test(name)) {
    throw new Refusal(400, `${what} must have 1 to 63 letters, digits or . _ : / - and begin with a letter or a digit`);
  }
}

/** Checks the bounds of node API §5.1, which labels share. @throws Refusal 400 naming the violated one */
export function checkMetadata(metadata: StringMap, what: "metadata" | "label" = "metadata"): void {
  const pairs = Object.entries(metadata);
  if (pairs.length > MAX_PAIRS) {
    throw new Refusal(400, `${what}: ${pairs.length} pairs, at most ${MAX_PAIRS} are allowed`);
  }
  for (const [key, value] of pairs) {
    if (key === "" || Buffer.byteLength(key) > MAX_KEY_BYTES) {
      throw new Refusal(400, `${what} keys have 1 to ${MAX_KEY_BYTES} bytes`);
    }
    if (!KEY.test(key) || key.includes("=") || key.includes("&")) {
      throw new Refusal(400, `${what} keys are printable ASCII without = and &`);
    }
    if (Buffer.byteLength(value) > MAX_VALUE_BYTES) {
      throw new Refusal(400, `${what} values have at most ${MAX_VALUE_BYTES} bytes`);
    }
    if (UNPRINTABLE.test(value)) {
      throw new Refusal(400, `${what} values are printable UTF-8`);
    }
  }
  if (Buffer.byteLength(JSON.stringify(metadata)) > MAX_METADATA_BYTES) {
    throw new Refusal(400, `${what}: more than ${MAX_METADATA_BYTES} bytes as JSON`);
  }
}

/** Refuses what this node cannot do, by name. @throws Refusal 400 */
export function refuseUnsupported(request: Pick<ClaimRequest, "volumes" | "volumes_attach_only" | "env">): void {
  if (request.volumes !== undefined && request.volumes.length > 0) {
    throw new Refusal(400, "invalid volume request: unknown or unavailable volume");
  }
  if (request.volumes_attach_only === true) {
    throw new Refusal(400, "invalid volume request: volumes_attach_only needs at least one volume");
  }
  if (request.env !== undefined && Object.keys(request.env).length > 0) {
    throw new Refusal(400, "env is not supported by this node");
  }
}
