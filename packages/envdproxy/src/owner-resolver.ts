import { claimIdFromPublic, matchesSandboxId, publicSandboxId } from "@org/sandbox-address";
import { guestAccessToken, isScaleError } from "@org/scale";
import type { Sandbox, SandboxRecord } from "@org/scale";
import type { LookupResult } from "./counters.ts";
import { refusal, requestErrorCode } from "./errors.ts";
import type { ProxiedStore } from "./proxied-store.ts";
import { TokenBucket } from "./token-bucket.ts";

/** Where a sandbox lives and what opens it. */
export interface Owner {
  readonly node: string;
  /** The node's own id. */
  readonly id: string;
  /** The sandbox's own token; absent on nodes that tell none. A secret. */
  readonly token: string | undefined;
  /** What clients present, as bytes to compare with; absent when `token` is. A secret. */
  readonly accessToken: Buffer | undefined;
  /** Whether it slept when it was read. */
  readonly paused: boolean;
}

/** Options of {@link createOwnerResolver}. Durations are milliseconds. */
export interface OwnerResolverOptions {
  readonly store: ProxiedStore;
  readonly secret?: string | undefined;
  /** Find the sandboxes of this namespace alone; empty finds all. @default "" */
  readonly namespace?: string | undefined;
  /** A clock that never goes back. */
  readonly now: () => number;
  readonly keepMs?: number;
  readonly maxOwners?: number;
  readonly asksPerSecond?: number;
  readonly askBurst?: number;
  readonly askTimeoutMs?: number;
  readonly readTimeoutMs?: number;
  /** Told how each look-up went. */
  readonly onLookup?: ((result: LookupResult) => void) | undefined;
  /** Told of each owner that must not be used any more. */
  readonly onForgotten?: ((owner: Owner) => void) | undefined;
}

/** Finds the owners of sandboxes and keeps them for a while. */
export interface OwnerResolver {
  /** The owner, if it can be told without asking anybody. */
  known(id: string): Owner | undefined;
  /** Rejects with `sandbox_gone`, or with `node_failed` when the owner does not answer. */
  resolve(id: string): Promise<Owner>;
  /** What the owner says now. Rejects like `resolve`. */
  refresh(owner: Owner): Promise<SandboxRecord>;
  /** Forgets an owner that turned out to be stale, unless a younger one took its place. */
  evict(id: string, owner: Owner): void;
  close(): void;
}

interface Kept {
  readonly owner: Owner;
  readonly expiresAt: number;
}

// Node ids are one path segment of a node's API; nothing else is worth asking for.
const PLAUSIBLE_ID = /^[A-Za-z0-9_-]{1,128}$/;

const OVER_BUDGET = new Error("too many look-ups that find nothing");

function resultOf(error: unknown): LookupResult {
  if (requestErrorCode(error) !== "sandbox_gone") {
    return "failed";
  }
  return error instanceof Error && error.cause === OVER_BUDGET ? "over_budget" : "gone";
}

/** Both spellings of an id share one entry. */
function keyOf(id: string): string {
  return claimIdFromPublic(id);
}

/** A map that forgets its oldest entries. */
function bounded<V>(map: Map<string, V>, max: number, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > max) {
    const oldest = map.keys().next();
    if (oldest.done !== true) {
      map.delete(oldest.value);
    }
  }
}

/**
 * Resolves owners through the store: inventory first, the nodes when inventory does not list the id yet, and then the
 * owning node for the sandbox's token. Look-ups that find nothing are paid from a budget, since each may ask every
 * node; one look-up runs per id at a time.
 */
export function createOwnerResolver(options: OwnerResolverOptions): OwnerResolver {
  const { store, secret, namespace = "", now, onLookup, onForgotten } = options;
  const keepMs = options.keepMs ?? 60_000;
  const maxOwners = options.maxOwners ?? 4096;
  // The store gives each node 500 ms; this bounds the rounds over a large fleet.
  const askTimeoutMs = options.askTimeoutMs ?? 2000;
  const readTimeoutMs = options.readTimeoutMs ?? 4000;
  const budget = new TokenBucket({ perSecond: options.asksPerSecond ?? 200, burst: options.askBurst ?? 400, now });
  const owners = new Map<string, Kept>();
  const released = new Map<string, true>();
  const running = new Map<string, Promise<Owner>>();

  const unsubscribe = store.onReleased((_node, id) => {
    for (const key of new Set([keyOf(id), keyOf(publicSandboxId(id))])) {
      forget(key);
      // Ids are never given twice: a look-up that is still on its way must not bring the sandbox back.
      bounded(released, maxOwners, key, true);
    }
  });

  function forget(key: string): void {
    const kept = owners.get(key);
    if (kept !== undefined) {
      owners.delete(key);
      onForgotten?.(kept.owner);
    }
  }

  /** Bounds a store call without keeping a timer for it afterwards. */
  async function within<T>(ms: number, call: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const controller = new AbortController();
    const timer = setTimeout(() => controller.abort(), ms);
    try {
      return await call(controller.signal);
    } finally {
      clearTimeout(timer);
    }
  }

  async function read(node: string, id: string): Promise<SandboxRecord> {
    try {
      return await within(readTimeoutMs, (signal) => store.read(node, id, { signal }));
    } catch (error) {
      throw refusal(isScaleError(error, "not_found") ? "sandbox_gone" : "node_failed", error);
    }
  }

  async function locate(id: string): Promise<Sandbox> {
    if (!budget.take()) {
      throw refusal("sandbox_gone", OVER_BUDGET);
    }
    try {
      const found = await within(askTimeoutMs, (signal) =>
        store.getByClaimId(namespace, claimIdFromPublic(id), (claimId) => matchesSandboxId(claimId, id), { signal }),
      );
      budget.refund();
      return found;
    } catch (error) {
      // "Gone" makes clients give a sandbox up: it takes every node's word. The one that was silent may hold it.
      const gone = isScaleError(error, "not_found") && error.unanswered === 0;
      throw refusal(gone ? "sandbox_gone" : "node_failed", error);
    }
  }

  function keep(id: string, node: string, claimId: string, record: SandboxRecord): Owner {
    const key = keyOf(id);
    if (released.has(key)) {
      throw refusal("sandbox_gone");
    }
    const { token } = record;
    const owner: Owner = {
      node,
      id: claimId,
      token,
      accessToken: token === undefined ? undefined : Buffer.from(guestAccessToken(token, secret)),
      paused: record.paused,
    };
    bounded(owners, maxOwners, key, { owner, expiresAt: now() + keepMs });
    return owner;
  }

  async function lookUp(id: string, stale: Owner | undefined): Promise<Owner> {
    if (stale !== undefined) {
      // The last known owner is one call to one node, and needs no budget.
      try {
        return keep(id, stale.node, stale.id, await read(stale.node, stale.id));
      } catch {
        forget(keyOf(id));
      }
    }
    const sandbox = await locate(id);
    return keep(id, sandbox.node, sandbox.id, await read(sandbox.node, sandbox.id));
  }

  async function counted(flight: Promise<Owner>): Promise<Owner> {
    try {
      const owner = await flight;
      onLookup?.("found");
      return owner;
    } catch (error) {
      onLookup?.(resultOf(error));
      throw error;
    }
  }

  return {
    known(id) {
      const kept = owners.get(keyOf(id));
      return kept !== undefined && now() < kept.expiresAt ? kept.owner : undefined;
    },
    async resolve(id) {
      const key = keyOf(id);
      if (!PLAUSIBLE_ID.test(id) || released.has(key)) {
        throw refusal("sandbox_gone");
      }
      const kept = owners.get(key);
      if (kept !== undefined && now() < kept.expiresAt) {
        onLookup?.("cached");
        return kept.owner;
      }
      let flight = running.get(key);
      if (flight === undefined) {
        flight = counted(lookUp(id, kept?.owner)).finally(() => running.delete(key));
        running.set(key, flight);
      }
      return flight;
    },
    async refresh(owner) {
      return read(owner.node, owner.id);
    },
    evict(id, owner) {
      const key = keyOf(id);
      if (owners.get(key)?.owner === owner) {
        forget(key);
      }
    },
    close() {
      unsubscribe();
      owners.clear();
    },
  };
}
