import { createHash } from "node:crypto";
import { EnvdClientError, initGuest, readGuestJson } from "@org/envd-client";
import type { DialGuest, InitBody } from "@org/envd-client";
import type { Assignment, SandboxStore } from "@org/scale";
import { dialDaemon } from "./daemon.ts";
import { E2bError } from "./errors.ts";

/** Time for one call of the daemon. */
const CALL_TIMEOUT_MS = 5000;
/** Variables are bounded by the request that set them. */
const MAX_VARIABLES_BYTES = 2 * 1024 * 1024;

/** The way out of a guest whose node relays for it. The request's own values stand over these. */
export const RELAY_ENVIRONMENT: Readonly<Record<string, string>> = {
  http_proxy: "http://127.0.0.1:3128",
  https_proxy: "http://127.0.0.1:3128",
  no_proxy: "localhost,127.0.0.1,::1,169.254.169.254",
};

const HOME: InitBody = { defaultUser: "user", defaultWorkdir: "/home/user" };

/** A fresh guest and what its creator wants it to be. */
export interface FreshGuest {
  readonly assignment: Pick<Assignment, "node" | "id" | "netRoute">;
  /** Absent on nodes that give sandboxes no token. A secret. */
  readonly accessToken: string | undefined;
  /** Values are secrets. */
  readonly envVars: Readonly<Record<string, string>>;
  /** Its template was built: it brings its own user and folder. */
  readonly built: boolean;
  /** It may come with a daemon that runs already and was given the token of the sandbox it was copied from. */
  readonly copied: boolean;
  /** It brings variables of its own, which `envVars` come on top of. */
  readonly keepsVariables: boolean;
  readonly timestampMs: number;
}

/**
 * The variables that a daemon starts commands with.
 * @throws EnvdClientError
 */
export async function readVariables(
  dial: DialGuest,
  accessToken: string | undefined,
  signal: AbortSignal,
): Promise<Readonly<Record<string, string>>> {
  const bounds = { timeoutMs: CALL_TIMEOUT_MS, maxBytes: MAX_VARIABLES_BYTES };
  const document = await readGuestJson(dial, "/envs", { accessToken, signal, ...bounds });
  const entries = typeof document === "object" && document !== null ? Object.entries(document) : [];
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === "string"));
}

/**
 * Lets the daemon of a copied guest believe the new token: its own is another sandbox's, and only the node can tell it
 * of another one.
 */
async function announceToken(
  store: Pick<SandboxStore, "setInstanceMetadata">,
  { node, id }: FreshGuest["assignment"],
  accessToken: string,
): Promise<void> {
  const accessTokenHash = createHash("sha512").update(accessToken).digest("hex");
  await store.setInstanceMetadata(node, id, Buffer.from(JSON.stringify({ accessTokenHash })));
}

async function initialise(dial: DialGuest, guest: FreshGuest, signal: AbortSignal): Promise<void> {
  const { accessToken, built, copied, keepsVariables } = guest;
  const base: InitBody = { accessToken, ...(built ? {} : HOME) };
  const at = (laterMs: number): InitBody => ({ timestamp: new Date(guest.timestampMs + laterMs).toISOString() });
  const options = { signal, timeoutMs: CALL_TIMEOUT_MS };
  if (!keepsVariables) {
    const relay = guest.assignment.netRoute === "relay" ? RELAY_ENVIRONMENT : {};
    await initGuest(dial, { ...base, envVars: { ...relay, ...guest.envVars }, ...at(0) }, options);
    return;
  }
  const adds = Object.keys(guest.envVars).length > 0;
  // A copied daemon shows its variables to nobody before it has its new token.
  if (copied || !adds) {
    await initGuest(dial, { ...base, ...at(0) }, options);
  }
  if (adds) {
    // The daemon replaces its variables as a whole, so its own ones are sent again.
    const own = await readVariables(dial, copied ? accessToken : undefined, signal);
    await initGuest(dial, { ...base, envVars: { ...own, ...guest.envVars }, ...at(1) }, options);
  }
}

/**
 * Gives a fresh guest its access token, its variables and, unless its template brings them, its user and folder: one
 * `POST /init` through the node's passive relay, or two. Throws `guest_failed`; after an abort the guest may have been
 * prepared.
 */
export async function prepareGuest(
  store: Pick<SandboxStore, "dialGuestPort" | "setInstanceMetadata">,
  guest: FreshGuest,
  signal: AbortSignal,
): Promise<void> {
  const { assignment, accessToken } = guest;
  try {
    if (guest.copied && accessToken !== undefined) {
      await announceToken(store, assignment, accessToken);
    }
    await initialise(dialDaemon(store, assignment.node, assignment.id), guest, signal);
  } catch (error) {
    const answered = !(error instanceof EnvdClientError);
    const refused = answered || error.code === "refused";
    const who = answered ? "its node" : "its daemon";
    const reason = refused ? `${who} refused` : `${who} did not answer`;
    throw new E2bError("guest_failed", `the sandbox could not be prepared: ${reason}`, { cause: error });
  }
}
