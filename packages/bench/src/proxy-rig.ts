import { requestText } from "./http-messages.ts";
import type { GuestAddresses, GuestsCalls } from "./processes/guests.ts";
import type { ProxyCalls } from "./processes/proxy.ts";
import { start } from "./remote.ts";
import type { Remote } from "./remote.ts";

/** The one sandbox that requests go to. The scripted node knows any id. */
const SANDBOX = "sb_00000000000000aa";
/** Its token, as the scripted node tells it. */
const TOKEN = "0123456789abcdef0123456789abcdef";
/** What `envd-proxy` starts with. */
const RELAY_IDLE_MS = 1000;

/** Headers that lead a request to a port of the sandbox. */
export const ROUTING: Readonly<Record<string, string>> = {
  "e2b-sandbox-id": SANDBOX,
  "e2b-sandbox-port": "49983",
  "x-access-token": TOKEN,
};

/** A node with its guests in one process and the data plane in another: this process only makes the load. */
export class ProxyRig implements AsyncDisposable {
  readonly guests: Remote<GuestsCalls>;
  readonly proxy: Remote<ProxyCalls>;
  readonly at: GuestAddresses;

  private constructor(guests: Remote<GuestsCalls>, proxy: Remote<ProxyCalls>, at: GuestAddresses) {
    this.guests = guests;
    this.proxy = proxy;
    this.at = at;
  }

  /** Starts both processes. */
  static async start(): Promise<ProxyRig> {
    const guests = start<GuestsCalls>(new URL("./processes/guests.ts", import.meta.url));
    const proxy = start<ProxyCalls>(new URL("./processes/proxy.ts", import.meta.url));
    return new ProxyRig(guests, proxy, await guests.call("serve", undefined));
  }

  /** Serves the data plane and tells where: with relays that are used again, or a fresh one for each request. */
  open(relays: "reused" | "fresh" = "reused"): Promise<string> {
    const relayIdleMs = relays === "fresh" ? 0 : RELAY_IDLE_MS;
    return this.proxy.call("open", { node: this.at.node, token: "bench", relayIdleMs });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.proxy[Symbol.asyncDispose]();
    await this.guests[Symbol.asyncDispose]();
  }
}

/** A request to the sandbox, as text. A guest that is asked directly does not mind the headers. */
export function guestRequest(method: string, path: string, body?: object): string {
  return requestText(method, path, { headers: ROUTING, body });
}
