import { timingSafeEqual } from "node:crypto";
import type { Duplex } from "node:stream";
import { isScaleError } from "@org/scale";
import type { Logger } from "@org/scale";
import type { Counters } from "./counters.ts";
import { DialGate } from "./dial-gate.ts";
import { EnvdProxyError, refusal, requestErrorCode } from "./errors.ts";
import { GuestRelay } from "./guest-relay.ts";
import { MAX_DIALS_PER_PORT } from "./limits.ts";
import type { Owner, OwnerResolver } from "./owner-resolver.ts";
import type { ProxiedStore } from "./proxied-store.ts";
import type { IdleRelay, RelayPool } from "./relay-pool.ts";
import type { RelaySlots } from "./relay-slots.ts";
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
  readonly pool: RelayPool;
  readonly slots: RelaySlots;
  readonly counters: Counters;
  /** How long a node may take to open a relay, in milliseconds; a paused sandbox wakes meanwhile. */
  readonly dialTimeoutMs: number;
  readonly logger?: Logger | undefined;
}

/** What a relay is wanted for. */
export interface RelayRequest {
  readonly route: Route;
  readonly credential: Credential;
  /** Never wakes a paused sandbox. */
  readonly passive: boolean;
  /** Not over a relay that carried another request before. */
  readonly fresh: boolean;
}

/** A relay for one request. Ends with `keep`, `discard` or the end of the relay itself. */
export interface Lease {
  /** Whether it carried a request before. */
  readonly reused: boolean;
  /** Whether it may carry another one. */
  readonly keepable: boolean;
  /** The relay, from now on the caller's to listen to; `undefined` when it closed while it was idle. */
  begin(): GuestRelay | undefined;
  /** Gives it back for the next request: it is quiet, and its guest keeps it open for at least `ms`. */
  keep(relay: GuestRelay, ms: number): void;
  /** Keeps no relay to this port any more: what its guest says can not be told apart. */
  distrust(): void;
  /** Gives it up before it was begun. */
  discard(): void;
}

/** Opens relays for admitted requests. */
export interface RelayDialer {
  /** A relay that waits for such a request, where nothing has to be asked or judged first. */
  reuse(request: RelayRequest): Lease | undefined;
  /**
   * A connection to the guest port. Rejects with the refusal to answer; abort destroys what was opened.
   */
  open(request: RelayRequest, signal: AbortSignal): Promise<Lease>;
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

/** What is remembered of an owner beside its relays. */
interface Standing {
  /** The first request to a paused sandbox; the others wait for it, and share the failure of its node. */
  waking: Promise<EnvdProxyError | undefined> | undefined;
  woken: boolean;
  /** Inventory listed it once. */
  listed: boolean;
}

/** Constant in time for tokens of one length, which is no secret. */
function sameBytes(known: Buffer, shown: Buffer): boolean {
  return known.length === shown.length && timingSafeEqual(known, shown);
}

/** Whether the credential opens this sandbox. Nothing does that has to be judged by its node. */
function isAdmitted({ accessToken }: Owner, credential: Credential): boolean {
  return (
    credential.kind !== "token" || (accessToken !== undefined && sameBytes(accessToken, Buffer.from(credential.token)))
  );
}

/** A relay that waited for the next request. */
class ReusedLease implements Lease {
  readonly reused = true;
  readonly keepable = true;
  readonly #idle: IdleRelay;
  readonly #pool: RelayPool;
  readonly #counters: Counters;

  constructor(idle: IdleRelay, pool: RelayPool, counters: Counters) {
    this.#idle = idle;
    this.#pool = pool;
    this.#counters = counters;
  }

  begin(): GuestRelay | undefined {
    const relay = this.#idle.begin();
    this.#counters.relaysReused += relay === undefined ? 0 : 1;
    return relay;
  }

  keep(relay: GuestRelay, ms: number): void {
    this.#pool.keep(this.#idle.owner, this.#idle.port, relay, ms);
  }

  distrust(): void {
    this.#pool.distrust(this.#idle.owner, this.#idle.port);
  }

  discard(): void {
    this.#idle.drop("left");
  }
}

/** Admission and relay of one request: finds the owner, checks the credential in constant time, dials. */
export function createRelayDialer(options: RelayDialerOptions): RelayDialer {
  const { store, resolver, pool, slots, counters, logger } = options;
  const standings = new WeakMap<Owner, Standing>();
  const gate = new DialGate(MAX_DIALS_PER_PORT);

  function standingOf(owner: Owner): Standing {
    let standing = standings.get(owner);
    if (standing === undefined) {
      standing = { waking: undefined, woken: !owner.paused, listed: false };
      standings.set(owner, standing);
    }
    return standing;
  }

  /**
   * Takes what inventory says of the sandbox now: it may have been paused, moved or ended behind our back. False when the
   * node does not list it any more.
   */
  function look(owner: Owner, standing: Standing): boolean {
    const now = store.standing?.(owner.node, owner.id);
    if (now === "paused") {
      pool.drop(owner);
      standing.woken = false;
    } else if (now === "unlisted" && standing.listed) {
      return false;
    }
    standing.listed ||= now === "running" || now === "paused";
    return true;
  }

  function admit(owner: Owner, credential: Credential): void {
    if (credential.kind === "token" && owner.accessToken === undefined) {
      if (options.derived) {
        throw refusal("node_failed", new Error("the node tells no sandbox tokens"));
      }
      // The node itself judges the token when the relay opens.
      return;
    }
    if (!isAdmitted(owner, credential)) {
      throw refusal("invalid_token");
    }
  }

  /** A probe is short, and says more of the sandbox than a limit does. */
  function slot(owner: Owner, passive: boolean): () => void {
    const full = slots.full(owner.id);
    const inTheWay = full === "sandbox" && passive ? undefined : full;
    if (inTheWay !== undefined && !pool.makeRoom(inTheWay === "sandbox" ? owner : undefined)) {
      throw refusal("too_many_relays");
    }
    return slots.take(owner.id);
  }

  /** The dial itself, bounded: a node that never answers must not keep a client for ever. */
  async function connect(owner: Owner, bearer: string, port: number, signal: AbortSignal): Promise<Duplex> {
    const bound = new AbortController();
    const leave = (): void => bound.abort();
    const timer = setTimeout(leave, options.dialTimeoutMs);
    signal.addEventListener("abort", leave, { once: true });
    if (signal.aborted) {
      leave();
    }
    try {
      return await store.dialGuestPort(owner.node, owner.id, bearer, port, { signal: bound.signal });
    } catch (error) {
      throw dialRefusal(error, bearer === "");
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", leave);
    }
  }

  async function dial(owner: Owner, bearer: string, port: number, signal: AbortSignal): Promise<Lease> {
    const free = slot(owner, bearer === "");
    const startedAt = performance.now();
    let relay: Duplex;
    try {
      relay = await connect(owner, bearer, port, signal);
    } catch (error) {
      free();
      if (!signal.aborted && !(error instanceof StaleOwner)) {
        counters.dialFailures.add(requestErrorCode(error));
      }
      throw error;
    }
    counters.onDial(performance.now() - startedAt);
    counters.relaysOpened += 1;
    counters.relaysOpen += 1;
    relay.once("close", () => {
      counters.relaysOpen -= 1;
      free();
    });
    // Whoever takes the relay over listens, too; until then a reset must not be an unhandled event.
    relay.on("error", () => undefined);
    if (signal.aborted) {
      relay.destroy();
    }
    const fresh = new GuestRelay(relay);
    return {
      reused: false,
      // Where the node judges tokens, each relay is judged anew. A passive one must not hold off the sandbox's sleep.
      keepable: bearer !== "" && bearer === owner.token,
      begin: () => fresh,
      keep: (quiet, ms) => pool.keep(owner, port, quiet, ms),
      distrust: () => pool.distrust(owner, port),
      discard: () => relay.destroy(),
    };
  }

  /** An idle relay, if there is one. */
  function idle(owner: Owner, port: number): Lease | undefined {
    const found = pool.take(owner, port);
    return found === undefined ? undefined : new ReusedLease(found, pool, counters);
  }

  /** Wakes the sandbox with the first relay; `undefined` when another request did. */
  async function wake(
    owner: Owner,
    standing: Standing,
    bearer: string,
    port: number,
    signal: AbortSignal,
  ): Promise<Lease | undefined> {
    for (let first = standing.waking; first !== undefined; first = standing.waking) {
      const failure = await first;
      if (failure !== undefined) {
        throw failure;
      }
      if (standing.woken) {
        return undefined;
      }
      // The first one left, or learned nothing of the wake: one of those who wait goes first now.
    }
    const { promise, resolve } = Promise.withResolvers<EnvdProxyError | undefined>();
    standing.waking = promise;
    let failure: EnvdProxyError | undefined;
    try {
      const lease = await dial(owner, bearer, port, signal);
      standing.woken = true;
      counters.wakes.add("woken");
      return lease;
    } catch (error) {
      const isAnswer = error instanceof EnvdProxyError && !signal.aborted;
      if (isAnswer && error.code === "port_closed") {
        // The port is not open, but its guest is awake.
        standing.woken = true;
      }
      failure = isAnswer && error.code === "node_failed" ? error : undefined;
      counters.wakes.add(signal.aborted ? "left" : standing.woken ? "woken" : "failed");
      throw error;
    } finally {
      standing.waking = undefined;
      resolve(failure);
    }
  }

  async function attempt(owner: Owner, request: RelayRequest, signal: AbortSignal): Promise<Lease> {
    const { credential, passive, fresh } = request;
    const { port } = request.route;
    admit(owner, credential);
    const standing = standingOf(owner);
    if (!look(owner, standing)) {
      throw new StaleOwner("the node does not list the sandbox any more");
    }
    let bearer = passive ? "" : (owner.token ?? "");
    if (owner.token === undefined && credential.kind === "token") {
      if (passive && (await resolver.refresh(owner)).paused) {
        throw refusal("paused");
      }
      bearer = credential.token;
    }
    if (bearer === "") {
      return dial(owner, bearer, port, signal);
    }
    if (!standing.woken) {
      const first = await wake(owner, standing, bearer, port, signal);
      if (first !== undefined) {
        return first;
      }
    }
    const reusable = !fresh && bearer === owner.token;
    const kept = reusable ? idle(owner, port) : undefined;
    if (kept !== undefined) {
      return kept;
    }
    const { leave, waited } = await gate.enter(`${owner.id} ${port}`, signal);
    try {
      if (signal.aborted) {
        // Nobody is left to be told.
        throw refusal("node_failed");
      }
      // Others may have come to their end meanwhile.
      const freed = reusable && waited ? idle(owner, port) : undefined;
      return freed ?? (await dial(owner, bearer, port, signal));
    } finally {
      leave();
    }
  }

  function forget(id: string, owner: Owner): void {
    resolver.evict(id, owner);
    pool.retire(owner);
  }

  return {
    reuse({ route, credential, passive, fresh }) {
      const owner = fresh || passive ? undefined : resolver.known(route.id);
      if (owner?.token === undefined || !isAdmitted(owner, credential)) {
        return undefined;
      }
      const standing = standingOf(owner);
      if (!standing.woken || !look(owner, standing)) {
        return undefined;
      }
      const lease = idle(owner, route.port);
      if (lease !== undefined) {
        counters.lookups.add("cached");
      }
      return lease;
    },
    async open(request, signal) {
      const { id, port } = request.route;
      try {
        let owner = await resolver.resolve(id);
        try {
          return await attempt(owner, request, signal);
        } catch (error) {
          if (!(error instanceof StaleOwner)) {
            throw error;
          }
        }
        // The sandbox ended or its node lost it. Only a second look tells "gone" from "wrong token".
        forget(id, owner);
        owner = await resolver.resolve(id);
        try {
          return await attempt(owner, request, signal);
        } catch (error) {
          if (!(error instanceof StaleOwner)) {
            throw error;
          }
          forget(id, owner);
          // A 404 for a sandbox that its node lists is the node's word for "not with this token". A 401 is about the
          // fleet's token and never the client's fault.
          const unauthorized = isScaleError(error.cause) && error.cause.status === 401;
          throw refusal(unauthorized || request.passive ? "node_failed" : "invalid_token", error.cause);
        }
      } catch (error) {
        if (!signal.aborted && requestErrorCode(error) === "node_failed") {
          const cause = error instanceof EnvdProxyError ? error.cause : error;
          logger?.error({ sandbox: id, port, err: cause }, "sandbox node failed");
        }
        throw error;
      }
    },
  };
}
