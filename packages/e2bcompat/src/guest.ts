import { request } from "node:http";
import { text } from "node:stream/consumers";
import type { Duplex } from "node:stream";
import { EnvdClientError, initGuest } from "@org/envd-client";
import type { DialGuest } from "@org/envd-client";
import type { Assignment, SandboxStore } from "@org/scale";
import { E2bError } from "./errors.ts";

/** Where the guest's daemon listens. */
export const ENVD_PORT = 49_983;

const INIT_TIMEOUT_MS = 5000;

/** The way out of a guest whose node relays for it. The request's own values stand over these. */
const RELAY_ENVIRONMENT: Readonly<Record<string, string>> = {
  http_proxy: "http://127.0.0.1:3128",
  https_proxy: "http://127.0.0.1:3128",
  no_proxy: "localhost,127.0.0.1,::1,169.254.169.254",
};

/** A fresh guest and what its creator wants it to be. */
export interface FreshGuest {
  readonly assignment: Assignment;
  /** Absent on nodes that give sandboxes no token. A secret. */
  readonly accessToken: string | undefined;
  /** Values are secrets. */
  readonly envVars: Readonly<Record<string, string>>;
  /** Built templates bring their own user, folder and variables. */
  readonly built: boolean;
  readonly timestampMs: number;
}

async function readEnvironment(dial: DialGuest, caller: AbortSignal): Promise<Record<string, string>> {
  const controller = new AbortController();
  const { signal } = controller;
  const stop = (): void => controller.abort();
  const timer = setTimeout(stop, INIT_TIMEOUT_MS);
  caller.addEventListener("abort", stop, { once: true });
  let connection: Duplex | undefined;
  try {
    connection = await dial({ signal });
    const socket = connection;
    socket.on("error", () => undefined);
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const get = request({
      path: "/envs",
      host: "localhost",
      headers: { connection: "close" },
      createConnection: () => socket,
      signal,
    });
    get.on("error", reject);
    get.on("response", (answer) => {
      if (answer.statusCode !== 200) {
        reject(new Error(`the guest answered /envs with ${answer.statusCode}`));
        return;
      }
      text(answer).then(resolve, reject);
    });
    get.end();
    const parsed: unknown = JSON.parse(await promise);
    const entries = typeof parsed === "object" && parsed !== null ? Object.entries(parsed) : [];
    return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === "string"));
  } finally {
    clearTimeout(timer);
    caller.removeEventListener("abort", stop);
    connection?.destroy();
  }
}

/**
 * Gives a fresh guest its access token, its variables and, unless its template brings them, its user and folder: one
 * `POST /init` through the node's passive relay. Throws `guest_failed`; after an abort the guest may have been prepared.
 */
export async function prepareGuest(
  store: Pick<SandboxStore, "dialGuestPort">,
  guest: FreshGuest,
  signal: AbortSignal,
): Promise<void> {
  const { assignment, accessToken, built } = guest;
  const dial: DialGuest = (options) => store.dialGuestPort(assignment.node, assignment.id, "", ENVD_PORT, options);
  const timestamp = new Date(guest.timestampMs).toISOString();
  const options = { signal, timeoutMs: INIT_TIMEOUT_MS };
  try {
    if (!built) {
      const envVars = assignment.netRoute === "relay" ? { ...RELAY_ENVIRONMENT, ...guest.envVars } : guest.envVars;
      const home = { defaultUser: "user", defaultWorkdir: "/home/user" };
      await initGuest(dial, { accessToken, envVars, ...home, timestamp }, options);
      return;
    }
    if (Object.keys(guest.envVars).length === 0) {
      await initGuest(dial, { accessToken, timestamp }, options);
      return;
    }
    // The daemon replaces its variables as a whole, so the template's own ones are sent again.
    const envVars = { ...(await readEnvironment(dial, signal)), ...guest.envVars };
    await initGuest(dial, { accessToken, envVars, timestamp }, options);
  } catch (error) {
    const refused = error instanceof EnvdClientError && error.code === "refused";
    const reason = refused ? "its daemon refused" : "its daemon did not answer";
    throw new E2bError("guest_failed", `the sandbox could not be prepared: ${reason}`, { cause: error });
  }
}
