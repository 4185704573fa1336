import type { IncomingMessage, ServerResponse } from "node:http";
import type { Context } from "hono";
import type { Access } from "./api-keys.ts";

/**
 * Set in the environment of requests that came through our own listener. Only then nobody stands between the handlers
 * and the socket, so that bodies are read from it and answers written to it without web streams in between.
 */
export const DIRECT: unique symbol = Symbol("@org/e2bcompat direct");

/** The two ends of a request that came through our own listener. */
export interface Direct {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  /** How long a request body may pause, in milliseconds. */
  readonly bodyIdleTimeoutMs: number;
  /** Whether the listener is draining, so that the connection is not to be kept. */
  readonly closing: () => boolean;
}

/** One authenticated request. */
export interface Call {
  readonly context: Context;
  readonly direct: Direct | undefined;
  readonly requestId: string;
  /** What the key opens. */
  readonly access: Access;
  /** The namespace of the key. */
  readonly namespace: string;
  /** Aborts when the client hangs up. */
  readonly signal: AbortSignal;
  /** For the log. */
  sandboxId: string | undefined;
}

/** The direct ends of a request, if it has them. */
export function directOf(context: Context): Direct | undefined {
  const env: unknown = context.env;
  return typeof env === "object" && env !== null && DIRECT in env ? (env[DIRECT] as Direct) : undefined;
}
