import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";

/** One question to another node whose answer is its status. */
export interface PeerCall {
  readonly method: "HEAD" | "DELETE";
  readonly path: string;
  /** Root token of the mesh. */
  readonly token?: string | undefined;
  readonly signal: AbortSignal;
}

/** For the whole answer: a peer that sends a byte now and then has not answered. */
const TIMEOUT_MS = 2000;

function originOf(address: string): string {
  return address.includes("://") ? address : `http://${address}`;
}

/** True for the two forms in which nodes are named: `host:port` and an http(s) origin. Node API §1.5. */
export function isNodeAddress(text: string): boolean {
  const origin = originOf(text);
  if (!/^[\x21-\x7e]{1,255}$/.test(text) || !/^https?:\/\/[^/?#@\\]+$/.test(origin) || !URL.canParse(origin)) {
    return false;
  }
  return new URL(origin).port !== "0";
}

/** Asks a node; resolves with the status, or with nothing when there is no answer in time. Never rejects. */
export function askPeer(address: string, call: PeerCall): Promise<number | undefined> {
  const origin = originOf(address);
  const ask = origin.startsWith("https:") ? requestHttps : requestHttp;
  return new Promise((resolve) => {
    const asked = ask(
      `${origin}${call.path}`,
      {
        method: call.method,
        agent: false,
        signal: call.signal,
        headers: call.token === undefined ? {} : { authorization: `Bearer ${call.token}` },
      },
      (response) => {
        response.resume();
        response.on("error", () => undefined);
        resolve(response.statusCode);
      },
    );
    const late = setTimeout(() => asked.destroy(), TIMEOUT_MS);
    asked.on("error", () => resolve(undefined));
    asked.on("close", () => {
      clearTimeout(late);
      resolve(undefined);
    });
    asked.end();
  });
}
