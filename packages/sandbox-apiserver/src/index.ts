/**
 * The aggregated API of the group `agents.x-k8s.io` over a sandbox store: discovery, reads, watches and the verbs of
 * sandboxes, with delegated authentication and authorization.
 */
export type {
  ApiUser,
  Authenticator,
  Authentication,
  AuthorizationAttributes,
  Authorizer,
  Decision,
} from "./security.ts";
export { createApiServer } from "./create-api-server.ts";
export type { ApiEnv, ApiServer, ApiServerOptions, ServerVersion } from "./api-server.ts";
export { ApiServerError } from "./api-server-error.ts";
export type { ApiServerErrorCode } from "./api-server-error.ts";
export { createAuthenticator } from "./auth/authenticator.ts";
export type { AuthenticatorOptions } from "./auth/authenticator.ts";
export { createAuthorizer } from "./auth/authorizer.ts";
export type { AuthorizerOptions } from "./auth/authorizer.ts";
export { ClientTrust } from "./auth/client-trust.ts";
export type { ClientTrustOptions, RequestHeaderOptions } from "./auth/client-trust.ts";
export { ExtensionAuthentication } from "./auth/extension-authentication.ts";
export type { ExtensionAuthenticationOptions } from "./auth/extension-authentication.ts";
export { serveApi } from "./serving/serve-api.ts";
export type { ServeApiOptions } from "./serving/serve-api.ts";
export { createSandboxReads } from "./reads/index.ts";
export type { ReadRequest, SandboxReads, SandboxReadsOptions, SandboxResource } from "./reads/index.ts";
