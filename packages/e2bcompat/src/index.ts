/**
 * The E2B control-plane API as a Hono application over the ports of `@org/scale`. `createServer` gives routes to mount
 * in another application, a `fetch`, and a listener with limits and a drain; `Flags` is the command-line block that
 * every program with this API shares. Clients are told nothing of nodes but their keys, and no secret is ever logged.
 */
export { createServer } from "./server.ts";
export type { E2bServer } from "./server.ts";
export type { ServeOptions } from "./serve.ts";
export type { ServerOptions } from "./options.ts";
export { Flags } from "./flags.ts";
export type { LoadedFlags } from "./flags.ts";
export type { FlagOption } from "./flag-values.ts";
export type { BuildOptions, UploadOptions } from "./builds/build-options.ts";
export type { S3Credentials, S3StoreOptions } from "./builds/s3-store.ts";
export type { Access, ApiKey } from "./api-keys.ts";
export type { CorsOrigins } from "./cors.ts";
export type { KeyLimits } from "./key-limits.ts";
export type { AliasSize, TemplateAlias } from "./template-aliases.ts";
export { E2bError } from "./errors.ts";
export type { E2bErrorCode, RequestErrorCode, SetupErrorCode } from "./errors.ts";
