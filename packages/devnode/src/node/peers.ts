import { createNodePool, createSandboxdClient, type NodePool, type SandboxdClient } from "@org/sandboxd-client";
import type { FullPoolKey } from "@org/sandboxd-client/wire";
import type { DevNodeLogger } from "../logger.ts";
import { keyText } from "./pool-key.ts";

/** What a node knows of the others: what gossip would tell it, polled. */
export interface Peers {
  /** True when there is anybody to redirect to, reachable or not. */
  readonly meshed: boolean;
  /** Client addresses of the members that answer. */
  readonly addresses: readonly string[];
  /** At most two random members with ready guests of this key, the better stocked one first. */
  warmFor(key: FullPoolKey): readonly string[];
  /** Replaces the static list and polls it at once. */
  set(addresses: readonly string[]): void;
  close(): Promise<void>;
}

/** Options of {@link createPeers}. */
export interface PeersOptions {
  readonly addresses: readonly string[];
  readonly token: string | undefined;
  readonly pollMs: number;
  /** This node's client address: a list that names it, too, is fine. */
  readonly self: () => string | undefined;
  /** A number in [0, 1). */
  readonly random: () => number;
  readonly logger: DevNodeLogger;
}

interface Member {
  readonly client: SandboxdClient;
  polling: boolean;
  failures: number;
  /** Client address, once it answered. */
  address: string | undefined;
  /** Ready guests by key. */
  warm: ReadonlyMap<string, number>;
}

/** Failed polls after which a member counts as gone. */
const GONE_AFTER = 3;

/** Starts polling. */
export function createPeers(options: PeersOptions): Peers {
  const { logger } = options;
  const pool: NodePool = createNodePool({ connectTimeoutMs: 1000 });
  const stop = new AbortController();
  let members: readonly Member[] = [];
  const polls = new Set<Promise<void>>();

  const poll = async (member: Member): Promise<void> => {
    if (member.polling) {
      return;
    }
    member.polling = true;
    try {
      const info = await member.client.info({ signal: stop.signal });
      member.failures = 0;
      member.address = info.advertise_addr ?? member.client.address;
      member.warm = new Map(
        info.draining === true ? [] : info.pools.map((entry) => [keyText(entry.key), entry.warm] as const),
      );
    } catch (error) {
      if (stop.signal.aborted) {
        return;
      }
      member.failures += 1;
      member.warm = new Map();
      if (member.failures === GONE_AFTER && member.address !== undefined) {
        logger.warn({ peer: member.address, err: error }, "peer does not answer");
        member.address = undefined;
      }
    } finally {
      member.polling = false;
    }
  };
  const pollAll = (): void => {
    for (const member of members) {
      const run = poll(member).finally(() => polls.delete(run));
      polls.add(run);
    }
  };
  const set = (addresses: readonly string[]): void => {
    const known = new Map(members.map((member) => [member.client.address, member]));
    members = [...new Set(addresses)].map(
      (address) =>
        known.get(address) ?? {
          client: createSandboxdClient({ address, token: options.token, pool, requestTimeoutMs: 2000 }),
          polling: false,
          failures: 0,
          address: undefined,
          warm: new Map(),
        },
    );
    pollAll();
  };
  const timer = setInterval(pollAll, options.pollMs);
  timer.unref();
  set(options.addresses);

  const others = (): Member[] => {
    const self = options.self();
    return members.filter((member) => member.address !== undefined && member.address !== self);
  };
  return {
    get meshed() {
      const self = options.self();
      return members.some((member) => member.client.address !== self);
    },
    get addresses() {
      return [...new Set(others().flatMap((member) => (member.address === undefined ? [] : [member.address])))];
    },
    warmFor: (key) => {
      const text = keyText(key);
      const stocked = others().filter((member) => (member.warm.get(text) ?? 0) > 0);
      const chosen: Member[] = [];
      while (chosen.length < 2 && stocked.length > 0) {
        chosen.push(...stocked.splice(Math.floor(options.random() * stocked.length), 1));
      }
      chosen.sort((a, b) => (b.warm.get(text) ?? 0) - (a.warm.get(text) ?? 0));
      return chosen.flatMap((member) => (member.address === undefined ? [] : [member.address]));
    },
    set,
    close: async () => {
      clearInterval(timer);
      stop.abort();
      await Promise.allSettled(polls);
      await pool.destroy();
    },
  };
}
