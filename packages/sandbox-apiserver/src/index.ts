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
