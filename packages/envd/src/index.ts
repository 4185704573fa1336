/**
 * The daemon inside a guest that the E2B SDKs talk to: commands and terminals (`process.Process`), directories
 * (`filesystem.Filesystem`), file transfer (`/files`) and its few plain routes, as a request listener for `node:http`.
 *
 * Connect calls are served here rather than by a framework, because a command must outlive its caller, slow readers must
 * hold up the command, and a fresh guest must answer its first call at once.
 */
export { createEnvd, type Envd } from "./envd.ts";
export { EnvdError, type EnvdErrorCode, type EnvdErrorDetails } from "./errors.ts";
export type { PathMapping } from "./guest/paths.ts";
export { createEnvdServer } from "./http/server.ts";
export type { GuestMetrics, MetricsSource } from "./metrics.ts";
export type { EnvdLogger, EnvdOptions } from "./options.ts";
export type { FfiModule, LoadFfi } from "./system/libc.ts";
export type { LoadPty, PtyModule, PtySocket, PtyTerminal } from "./process/pty-module.ts";
