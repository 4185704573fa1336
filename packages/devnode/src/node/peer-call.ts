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

const TIMEOUT_MS = 2000;

/** Asks a node; resolves with the status, or with nothing when there is no answer in time. Never rejects. */
export function askPeer(address: string, call: PeerCall): Promise<number | undefined> {
  const origin = address.includes("://") ? address : `http://${address}`;
  const ask = origin.startsWith("https:") ? requestHttps : requestHttp;
  return new Promise((resolve) => {
    const asked = ask(
      new URL(call.path, origin),
      {
        method: call.method,
        agent: false,
        timeout: TIMEOUT_MS,
        signal: call.signal,
        headers: call.token === undefined ? {} : { authorization: `Bearer ${call.token}` },
      },
      (response) => {
        response.resume();
        response.on("error", () => undefined);
        resolve(response.statusCode);
      },
    );
    asked.on("timeout", () => asked.destroy());
    asked.on("error", () => resolve(undefined));
    asked.on("close", () => resolve(undefined));
    asked.end();
  });
}
