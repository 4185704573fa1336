import type { IncomingMessage } from "node:http";
import type { Http2ServerRequest } from "node:http2";

/** Who sent a request (specs of `authentication.k8s.io/v1` `UserInfo`). */
export interface ApiUser {
  readonly name: string;
  readonly uid?: string | undefined;
  readonly groups: readonly string[];
  /** Keys in lower case. */
  readonly extra?: Readonly<Record<string, readonly string[]>> | undefined;
}

/** Outcome of an authentication. A credential that was shown and does not hold is `rejected`, never anonymous. */
export type Authentication = { readonly kind: "user"; readonly user: ApiUser } | { readonly kind: "rejected" };

/** Finds out who sent a request, by its connection and its raw header list. */
export interface Authenticator {
  /** @throws ApiStatusError 503 when a reviewer cannot be reached. */
  authenticate(
    request: IncomingMessage | Http2ServerRequest,
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<Authentication>;
}

/** What a request wants to do (`authorization.k8s.io/v1`). */
export type AuthorizationAttributes =
  | {
      readonly kind: "resource";
      readonly verb: string;
      readonly group: string;
      readonly version: string;
      readonly resource: string;
      readonly subresource?: string | undefined;
      readonly namespace?: string | undefined;
      readonly name?: string | undefined;
      /** Requirements of the selectors as the review carries them. */
      readonly fieldSelector?: readonly SelectorRequirement[] | undefined;
      readonly labelSelector?: readonly SelectorRequirement[] | undefined;
    }
  | { readonly kind: "path"; readonly verb: string; readonly path: string };

/** One requirement of a selector in an access review. */
export interface SelectorRequirement {
  readonly key: string;
  readonly operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
  readonly values?: readonly string[] | undefined;
}

/** Answer to an {@link AuthorizationAttributes}. `no_opinion` counts as a refusal. */
export type Decision = "allow" | "deny" | "no_opinion";

/** Decides whether a user may do something. */
export interface Authorizer {
  /** @throws ApiStatusError 503 when a reviewer cannot be reached. */
  authorize(
    user: ApiUser,
    attributes: AuthorizationAttributes,
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<Decision>;
}
