import { createHash, timingSafeEqual } from "node:crypto";
import type { Sandbox } from "./sandbox.ts";
import { Refusal } from "./refusal.ts";

/** A tenant of a node. */
export interface Tenant {
  readonly name: string;
  /** A secret. */
  readonly token: string;
  /**
   * Live claims this tenant may hold on this node; 0 for no limit.
   * @default 0
   */
  readonly maxClaims?: number | undefined;
}

/** Who asks, on routes that take the node's own tokens. */
export type Caller = { readonly kind: "root" } | { readonly kind: "tenant"; readonly tenant: Tenant };

/** Owner of what this caller makes; the operator owns without a name. */
export function ownerOf(caller: Caller): string | undefined {
  return caller.kind === "tenant" ? caller.tenant.name : undefined;
}

/** Who asks, on the routes of one sandbox. */
export type SandboxCaller = "root" | "sandbox";

/** The gates of node API §2. */
export interface Access {
  /** There is a root token, and with it the operator credential. */
  readonly guarded: boolean;
  /** @throws Refusal 401 */
  token(authorization: string | undefined): Caller;
  /** @throws Refusal 401, 403 */
  root(authorization: string | undefined): void;
  /**
   * Whether a caller that passed {@link Access.token} may act on this sandbox with the token of its request's body: the
   * sandbox's own, or none for the operator.
   */
  owns(caller: Caller, sandbox: Sandbox, bodyToken: string | undefined): boolean;
  /** Who the bearer is to this sandbox; `undefined` for a stranger. @throws Refusal 401 without a bearer */
  sandbox(authorization: string | undefined, sandbox: Sandbox | undefined): SandboxCaller | undefined;
}

/** Digests have one length, so comparing them tells nothing about the secrets. */
export function digest(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}

function bearer(authorization: string | undefined): string | undefined {
  const token = authorization?.startsWith("Bearer ") === true ? authorization.slice(7) : undefined;
  return token === "" ? undefined : token;
}

/** Makes the gates. Without a token and without tenants the node is open. */
export function createAccess(token: string | undefined, tenants: readonly Tenant[]): Access {
  const root = token === undefined ? undefined : digest(token);
  const known = tenants.map((tenant) => ({ tenant, digest: digest(tenant.token) }));
  const open = root === undefined && known.length === 0;
  const isRoot = (presented: Buffer): boolean => root !== undefined && timingSafeEqual(presented, root);
  const gate = (authorization: string | undefined): Caller => {
    if (open) {
      return { kind: "root" };
    }
    const presented = bearer(authorization);
    if (presented !== undefined) {
      const hash = digest(presented);
      if (isRoot(hash)) {
        return { kind: "root" };
      }
      let found: Tenant | undefined;
      for (const entry of known) {
        if (timingSafeEqual(hash, entry.digest)) {
          found = entry.tenant;
        }
      }
      if (found !== undefined) {
        return { kind: "tenant", tenant: found };
      }
    }
    throw new Refusal(401, "invalid api token");
  };
  return {
    guarded: root !== undefined,
    token: gate,
    root: (authorization) => {
      if (gate(authorization).kind !== "root") {
        throw new Refusal(403, "operator token required");
      }
    },
    owns: (caller, sandbox, bodyToken) =>
      bodyToken === undefined || bodyToken === ""
        ? caller.kind === "root" && root !== undefined
        : timingSafeEqual(digest(bodyToken), sandbox.facts.tokenDigest),
    sandbox: (authorization, sandbox) => {
      const presented = bearer(authorization);
      if (presented === undefined) {
        throw new Refusal(401, "missing bearer token");
      }
      const hash = digest(presented);
      if (isRoot(hash)) {
        return "root";
      }
      return sandbox !== undefined && timingSafeEqual(hash, sandbox.facts.tokenDigest) ? "sandbox" : undefined;
    },
  };
}
