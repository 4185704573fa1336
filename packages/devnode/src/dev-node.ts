import { randomBytes } from "node:crypto";
import type { FullPoolKey, PoolInfo } from "@org/sandboxd-client/wire";
import { DevNodeError } from "./errors.ts";
import { createEgressPolicy } from "./host/egress-gate.ts";
import { createGuestHost, type FreezerKind } from "./host/guest-host.ts";
import type { Isolation } from "./host/launch.ts";
import type { Guest } from "./host/guest.ts";
import { listen } from "./http/server.ts";
import { createAccess } from "./node/access.ts";
import { createNode } from "./node/node.ts";
import { createPeers } from "./node/peers.ts";
import { createPools, type StartOptions } from "./node/pools.ts";
import { Refusal } from "./node/refusal.ts";
import { isLoopback, resolveOptions, type DevNodeOptions } from "./options.ts";

/** A running node. */
export interface DevNode extends AsyncDisposable {
  /** Client address: what `owner_addr`, `advertise_addr`, `peers` and `redirect` call this node. */
  readonly address: string;
  /** What really keeps guests apart. */
  readonly isolation: Isolation;
  /** What really freezes guests. */
  readonly freezer: FreezerKind;
  /** Whether a guest's `root` and `user` are different users. */
  readonly separateUsers: boolean;
  /** Replaces the peers; they are asked at once. */
  setPeers(addresses: readonly string[]): void;
  /** Resolves when every pool is filled to its target. Rejects with the signal's reason on abort. */
  warmed(options?: WarmedOptions): Promise<void>;
  /** Ends every guest and removes its files; a second call waits for the first. */
  close(): Promise<void>;
}

/** Options of {@link DevNode.warmed}. */
export interface WarmedOptions {
  readonly signal?: AbortSignal | undefined;
  /**
   * How many ready guests of a pool are enough; more than its target are never waited for.
   * @default the target
   */
  readonly enough?: ((pool: { readonly template: string; readonly net: string }) => number) | undefined;
}

/** Longest wait for requests that run when the node closes. */
const CLOSE_GRACE_MS = 5000;
const WARM_POLL_MS = 10;

/**
 * Starts a node that speaks sandboxd's HTTP API (node API §13) and whose guests are isolated process trees. Resolves
 * when it listens and one guest has proven the isolation; pools fill afterwards.
 *
 * @throws DevNodeError `invalid_option`, `no_isolation`, `listen_failed`, `state_folder`, `guest_start_failed`; nothing
 * is left running then
 */
export async function startDevNode(options: DevNodeOptions): Promise<DevNode> {
  const resolved = resolveOptions(options);
  const { logger, now } = resolved;
  let address = resolved.advertise;
  const refused = (): { host: string; port: number }[] => {
    const own = address === undefined ? [] : [hostAndPort(address)];
    return [...own, ...resolved.egressRefused];
  };
  const host = await createGuestHost({
    stateDir: resolved.stateDir,
    isolation: resolved.isolation,
    egress: createEgressPolicy({ refused }),
    cgroups: resolved.freezers.filter((kind) => kind !== "signals"),
    guestBundle: resolved.guestBundle,
    logger,
  });
  const cleanups: (() => Promise<void>)[] = [() => host.close()];
  try {
    if (host.isolation === "process") {
      if (!isLoopback(resolved.host)) {
        throw new DevNodeError(
          "no_isolation",
          "nothing on this machine isolates guests; without isolation a node listens on loopback only",
        );
      }
      logger.warn(
        { isolation: host.isolation },
        "GUESTS ARE NOT ISOLATED: they run as your own processes and can read and change everything you can",
      );
    }
    const start = (key: FullPoolKey, how: StartOptions): Promise<Guest> =>
      host.start({
        id: `sb_${randomBytes(8).toString("hex")}`,
        template: key.template,
        egressLane: key.net === "egress",
        base: resolved.templates.get(key.template),
        ...how,
      });
    const pools = createPools({
      // A pool of a template that was promoted before is filled with clones of it.
      start: (key, how) => {
        const promoted = how.capture === undefined ? node.poolTemplate(key)?.capture : undefined;
        return promoted === undefined ? start(key, how) : promoted.use(() => start(key, { ...how, capture: promoted }));
      },
      refillDelayMs: resolved.refillDelayMs,
      startConcurrency: resolved.startConcurrency,
      logger,
      now,
    });
    const peers = createPeers({
      addresses: [],
      token: resolved.token,
      pollMs: resolved.peerPollMs,
      self: () => address,
      random: resolved.random,
      logger,
    });
    cleanups.push(() => peers.close());
    const node = createNode({
      pools,
      peers,
      captures: host.captures,
      trees: host.trees,
      address: () => address,
      egressLane: resolved.egress,
      egressRoute: host.isolation === "process" ? "direct" : "relay",
      maxClaims: resolved.maxClaims,
      tenants: resolved.tenants,
      refuseUnpooled: resolved.refuseUnpooled,
      reapIntervalMs: resolved.reapIntervalMs,
      now,
      logger,
    });
    cleanups.push(() => node.close());
    const server = await listen(
      { host: resolved.host, port: resolved.port },
      {
        node,
        access: createAccess(resolved.token, resolved.tenants),
        address: () => address,
        faults: resolved.faults,
        logger,
      },
    );
    cleanups.push(() => server.close(CLOSE_GRACE_MS));
    const bound = server.host.includes(":") ? `[${server.host}]:${server.port}` : `${server.host}:${server.port}`;
    const advertised = (address ??= bound);
    peers.set(resolved.peers);
    await node.configurePools(resolved.pools);
    let closing: Promise<void> | undefined;
    const close = (): Promise<void> => (closing ??= runAll(cleanups));
    return {
      address: advertised,
      isolation: host.isolation,
      freezer: host.freezer,
      separateUsers: host.separateUsers,
      setPeers: (addresses) => peers.set(addresses),
      warmed: async ({ signal, enough } = {}) => {
        const isCold = ({ key, warm, target }: PoolInfo): boolean => warm < Math.min(target, enough?.(key) ?? target);
        while (pools.snapshot().some(isCold)) {
          signal?.throwIfAborted();
          const { parked } = pools;
          if (parked !== undefined) {
            throw new DevNodeError("guest_start_failed", parked);
          }
          await new Promise((resolve) => setTimeout(resolve, WARM_POLL_MS));
        }
      },
      close,
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await runAll(cleanups);
    if (error instanceof Refusal) {
      throw new DevNodeError("invalid_option", `option pools: ${error.message}`, { cause: error });
    }
    throw error;
  }
}

/** Last opened, first closed; one failure does not keep the others from closing. */
async function runAll(cleanups: readonly (() => Promise<void>)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const cleanup of cleanups.toReversed()) {
    try {
      await cleanup();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) {
    throw new DevNodeError("state_folder", "the node did not close cleanly", { cause: failures[0] });
  }
}

function hostAndPort(address: string): { host: string; port: number } {
  const url = new URL(address.includes("://") ? address : `http://${address}`);
  const port = url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
  return { host: url.hostname.replace(/^\[|\]$/g, ""), port };
}
