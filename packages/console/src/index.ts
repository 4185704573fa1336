/**
 * A read-only web page about a service: nodes, warm pools, the newest sandboxes, the latency of creates and the rate of
 * errors, live. It has a credential of its own, no asset from anywhere else, and nothing on it that lets anybody into a
 * sandbox.
 */
export { createConsole } from "./console.ts";
export type { Console, ConsoleOptions } from "./console.ts";
export { ConsoleError } from "./errors.ts";
export type { ConsoleErrorCode } from "./errors.ts";
export type { ConsoleStore } from "./fleet-view.ts";
export { Flags } from "./flags.ts";
export type { FlagOption } from "./flags.ts";
