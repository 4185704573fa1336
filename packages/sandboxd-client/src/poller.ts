import { bearer, parseNodeAddress } from "./address.ts";
import type { NodePool } from "./pool.ts";
import type { ReplyBuffer } from "./reply-buffer.ts";

/** Options of {@link createNodePoller}. */
export interface NodePollerOptions {
  /** `host:port` or an origin. */
  readonly address: string;
  /** The fleet's root token; absent or empty sends no `Authorization`. */
  readonly token?: string | undefined;
  readonly pool: NodePool;
  /** Bound of one request from the call to the last byte of its reply, in milliseconds. @default 10000 */
  readonly requestTimeoutMs?: number | undefined;
}

/** Options of one poll. */
export interface PollCallOptions {
  /** Where the body goes. The resolved buffer is a view of it, good until it is filled again. */
  readonly into: ReplyBuffer;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The two reads of a node that are made over and over, as bodies: a poller compares them with the last ones before it
 * parses anything. Every rejection is a `SandboxdError`.
 */
export interface NodePoller {
  /** Body of `GET /v1/info`. */
  info(options: PollCallOptions): Promise<Buffer>;
  /** Body of `GET /v1/sandboxes`. */
  sandboxes(options: PollCallOptions): Promise<Buffer>;
}

/**
 * Makes the poller of one node. No I/O happens before the first call.
 * @throws SandboxdError `bad_request` for an address or a token that cannot be used.
 */
export function createNodePoller(options: NodePollerOptions): NodePoller {
  const { pool, token = "", requestTimeoutMs = 10_000 } = options;
  const address = parseNodeAddress(options.address);
  const authorization = bearer(token);
  const get = (path: string, { into, signal }: PollCallOptions): Promise<Buffer> => {
    const label = `GET ${path} at ${address.text}`;
    return pool.polls.get(address, { path, authorization, label, timeoutMs: requestTimeoutMs, into, signal });
  };
  return {
    info: (call) => get("/v1/info", call),
    sandboxes: (call) => get("/v1/sandboxes", call),
  };
}
