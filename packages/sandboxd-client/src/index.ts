/**
 * Typed client of one sandboxd node: claims, reads, verbs, captures and the raw relay to a guest port. It knows the wire
 * and nothing of a fleet: who to ask, and what to do after a failure, is the caller's business. Requests go over a shared
 * pool with fixed bounds. Only reads are repeated, once, when a node closes a kept connection under them. Every error
 * says whether the request can have reached the node.
 */
export { createNodePool } from "./pool.ts";
export type { NodePool, NodePoolOptions } from "./pool.ts";
export { createSandboxdClient } from "./client.ts";
export type { IndexFilter, SandboxdClient, SandboxdClientOptions, SandboxReading } from "./client.ts";
export type { CaptureCalls } from "./captures.ts";
export type { OperationCalls } from "./operations.ts";
export type { ClaimOutcome } from "./claim-outcome.ts";
export type { CallOptions, ClaimCallOptions } from "./requester.ts";
export { createNodePoller } from "./poller.ts";
export type { NodePoller, NodePollerOptions, PollCallOptions } from "./poller.ts";
export { ReplyBuffer } from "./reply-buffer.ts";
export { dialPort } from "./dial-port.ts";
export type { DialPortOptions } from "./dial-port.ts";
export { SandboxdError } from "./errors.ts";
export type { Delivery, SandboxdErrorCode, SandboxdErrorDetails } from "./errors.ts";
export { tokenFrom } from "./token-from.ts";
export { caFrom } from "./ca-from.ts";
