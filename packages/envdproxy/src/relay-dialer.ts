import type { Duplex } from "node:stream";
import { isScaleError, sameSecret } from "@org/scale";
import type { Logger } from "@org/scale";
import { EnvdProxyError, refusal, requestErrorCode } from "./errors.ts";
import type { Owner, OwnerResolver } from "./owner-resolver.ts";
import type { ProxiedStore } from "./proxied-store.ts";
import type { Route } from "./route.ts";

/**
 * What a request shows to be let in: an access token, a file URL with a signature that the guest judges, or nothing on
 * a port that is open to anyone.
 */
export type Credential =
  | { readonly kind: "token"; readonly token: string }
  | { readonly kind: "signed" }
  | { readonly kind: "public" };

/** Options of {@link createRelayDialer}. */
export interface RelayDialerOptions {
  readonly store: ProxiedStore;
  readonly resolver: OwnerResolver;
  /** Whether access tokens are derived: then a node that tells no token can not be checked against. */
  readonly derived: boolean;
  readonly logger?: Logger | undefined;
}

/** Opens relays for admitted requests. */
export interface RelayDialer {
  /**
   * A connection to the guest port. A `passive` one never wakes a paused sandbox. Rejects with the refusal to answer;
   * abort destroys what was opened.
   */
  open(route: Route, credential: Credential, passive: boolean, signal: AbortSignal): Promise<Duplex>;
}

/** The node does not know the sandbox under this token: what we know of the sandbox is out of date. */
class StaleOwner extends Error {}

/** Maps a failed dial to its answer. */
function dialRefusal(error: unknown, passive: boolean): Error {
  const status = isScaleError(error) ? error.status : undefined;
  if (isScaleError(error, "not_found") || status === 404 || status === 401) {
    return new StaleOwner("stale owner", { cause: error });
  }
  if (status === 400) {
    return refusal("bad_port", error);
  }
  if (status === 409 && passive) {
    return refusal("paused", error);
  }
  return refusal(status === 502 ? "port_closed" : "node_failed", error);
}

/** Admission and relay of one request: finds the owner, checks the credential in constant time, dials. */
export function createRelayDialer(options: RelayDialerOptions): RelayDialer {
  const { store, resolver, logger } = options;
  // Requests to a sleeping sandbox wait for the first of them to wake it, and share the failure of its node.
  const waking = new WeakMap<Owner, Promise<EnvdProxyError | undefined>>();
  const woken = new WeakSet<Owner>();

  function admit(owner: Owner, credential: Credential): void {
    if (credential.kind !== "token") {
      return;
    }
    if (owner.accessToken === undefined) {
      if (options.derived) {
        throw refusal("node_failed", new Error("the node tells no sandbox tokens"));
      }
      // The node itself judges the token when the relay opens.
      return;
    }
    if (!sameSecret(owner.accessToken, credential.token)) {
      throw refusal("invalid_token");
    }
  }

  async function dial(owner: Owner, bearer: string, port: number, signal: AbortSignal): Promise<Duplex> {
    let relay: Duplex;
    try {
      relay = await store.dialGuestPort(owner.node, owner.id, bearer, port, { signal });
    } catch (error) {
      throw dialRefusal(error, bearer === "");
    }
    // Whoever takes the relay over listens, too; until then a reset must not be an unhandled event.
    relay.on("error", () => undefined);
    if (signal.aborted) {
      relay.destroy();
    }
    return relay;
  }

  async function wake(owner: Owner, bearer: string, port: number, signal: AbortSignal): Promise<Duplex> {
    for (let first = waking.get(owner); first !== undefined; first = waking.get(owner)) {
      const failure = await first;
      if (failure !== undefined) {
        throw failure;
      }
      if (woken.has(owner)) {
        return dial(owner, bearer, port, signal);
      }
      // The first one left, or learned nothing of the wake: one of those who wait goes first now.
    }
    const { promise, resolve } = Promise.withResolvers<EnvdProxyError | undefined>();
    waking.set(owner, promise);
    let failure: EnvdProxyError | undefined;
    try {
      const relay = await dial(owner, bearer, port, signal);
      woken.add(owner);
      return relay;
    } catch (error) {
      const isAnswer = error instanceof EnvdProxyError && !signal.aborted;
      if (isAnswer && error.code === "port_closed") {
        // The port is not open, but its guest is awake.
        woken.add(owner);
      }
      failure = isAnswer && error.code === "node_failed" ? error : undefined;
      throw error;
    } finally {
      waking.delete(owner);
      resolve(failure);
    }
  }

  async function attempt(owner: Owner, route: Route, credential: Credential, passive: boolean, signal: AbortSignal) {
    admit(owner, credential);
    let bearer = passive ? "" : (owner.token ?? "");
    if (owner.token === undefined && credential.kind === "token") {
      if (passive && (await resolver.refresh(owner)).paused) {
        throw refusal("paused");
      }
      bearer = credential.token;
    }
    return bearer !== "" && owner.paused && !woken.has(owner)
      ? wake(owner, bearer, route.port, signal)
      : dial(owner, bearer, route.port, signal);
  }

  return {
    async open(route, credential, passive, signal) {
      try {
        let owner = await resolver.resolve(route.id);
        try {
          return await attempt(owner, route, credential, passive, signal);
        } catch (error) {
          if (!(error instanceof StaleOwner)) {
            throw error;
          }
        }
        // The sandbox ended or its node lost it. Only a second look tells "gone" from "wrong token".
        resolver.evict(route.id, owner);
        owner = await resolver.resolve(route.id);
        try {
          return await attempt(owner, route, credential, passive, signal);
        } catch (error) {
          if (!(error instanceof StaleOwner)) {
            throw error;
          }
          resolver.evict(route.id, owner);
          // A 404 for a sandbox that its node lists is the node's word for "not with this token". A 401 is about the
          // fleet's token and never the client's fault.
          const unauthorized = isScaleError(error.cause) && error.cause.status === 401;
          throw refusal(unauthorized || passive ? "node_failed" : "invalid_token", error.cause);
        }
      } catch (error) {
        if (!signal.aborted && requestErrorCode(error) === "node_failed") {
          const cause = error instanceof EnvdProxyError ? error.cause : error;
          logger?.error({ sandbox: route.id, port: route.port, err: cause }, "sandbox node failed");
        }
        throw error;
      }
    },
  };
}
