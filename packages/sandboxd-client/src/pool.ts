import { Agent, type Dispatcher } from "undici";
import { PollConnections } from "./poll-connection.ts";

/** Options of {@link createNodePool}. */
export interface NodePoolOptions {
  /** Bound on connecting, TLS included, in milliseconds. @default 1000 */
  readonly connectTimeoutMs?: number | undefined;
  /** How long an idle connection is kept, in milliseconds. @default 90000 */
  readonly keepAliveMs?: number | undefined;
  /** PEM certificates that `https://` nodes are verified against, instead of the system's. */
  readonly ca?: string | undefined;
}

/**
 * Connections to a fleet's nodes, shared by any number of clients. Requests are never queued behind each other: each
 * takes an idle connection or opens one. Polling and claim routing want a pool each, so that a burst of polls, or hung
 * ones, cannot take connections from claims. No proxy environment is honoured.
 */
export interface NodePool extends AsyncDisposable {
  /** Carries every request but polls. */
  readonly dispatcher: Dispatcher;
  /** Carry the requests of pollers, see {@link createNodePoller}. */
  readonly polls: PollConnections;
  readonly ca: string | undefined;
  /** Ends polls, waits for other running requests, then closes every connection. */
  close(): Promise<void>;
  /** Ends running requests and closes every connection. */
  destroy(): Promise<void>;
}

/** Opens a pool; nothing is connected before the first request. Store specification §6. */
export function createNodePool(options: NodePoolOptions = {}): NodePool {
  const { connectTimeoutMs = 1000, keepAliveMs = 90_000, ca } = options;
  const agent = new Agent({
    // No `connections`: it would bound the requests per node, not the idle connections, and queue the rest.
    allowH2: false,
    pipelining: 1,
    keepAliveTimeout: keepAliveMs,
    keepAliveMaxTimeout: keepAliveMs,
    // One timer per request bounds all of it; see exchange.ts.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: { timeout: connectTimeoutMs, ...(ca === undefined ? {} : { ca }) },
  });
  const polls = new PollConnections({ connectTimeoutMs, keepAliveMs, ca });
  const destroy = async (): Promise<void> => {
    polls.destroy();
    await agent.destroy();
  };
  return {
    dispatcher: agent,
    polls,
    ca,
    async close() {
      polls.destroy();
      await agent.close();
    },
    destroy,
    [Symbol.asyncDispose]: destroy,
  };
}
