import { createNodePool, createSandboxdClient, type NodePool, type SandboxdClient } from "@org/sandboxd-client";
import type { FullPoolKey } from "@org/sandboxd-client/wire";
import type { DevNodeLogger } from "../logger.ts";
import type { Caller } from "./access.ts";
import { askPeer, isNodeAddress } from "./peer-call.ts";
import { keyText } from "./pool-key.ts";
import { mayChange, maySee } from "./roster.ts";

/** What a node knows of the others: what gossip would tell it, polled. */
export interface Peers {
  /** True when there is anybody to redirect to, reachable or not. */
  readonly meshed: boolean;
  /** Client addresses of the members that answer. */
  readonly addresses: readonly string[];
  /** At most two random members with ready guests of this key, the better stocked one first. */
  warmFor(key: FullPoolKey): readonly string[];
  /** At most two random members that hold a promoted template which this caller's claims may clone. */
  holdersOf(key: FullPoolKey, caller: Caller): readonly string[];
  /** Members that hold a promoted template which this caller may delete. */
  ownersOf(key: FullPoolKey, caller: Caller): readonly string[];
  /** Asks all members now; at most three that hold this checkpoint. */
  findCheckpoint(id: string): Promise<readonly string[]>;
  /** Tells all members, in the background and once, that a checkpoint was deleted. */
  forgetCheckpoint(id: string): void;
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
  /** Owners of promoted templates by key; `undefined` is the operator. */
  templates: ReadonlyMap<string, string | undefined>;
}

/** Failed polls after which a member counts as gone. */
const GONE_AFTER = 3;
/** Template holders that a redirect names. */
const MAX_HOLDERS = 2;
const CHECKPOINT_ID = /^ck_[0-9a-f]{16}$/;
/** Checkpoint holders that a redirect names. */
const MAX_CHECKPOINT_HOLDERS = 3;

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
      const advertised = info.advertise_addr ?? "";
      member.address = isNodeAddress(advertised) ? advertised : member.client.address;
      member.warm = new Map(
        info.draining === true ? [] : info.pools.map((entry) => [keyText(entry.key), entry.warm] as const),
      );
      member.templates = new Map(info.templates.map((entry) => [keyText(entry.key), entry.tenant] as const));
    } catch (error) {
      if (stop.signal.aborted) {
        return;
      }
      member.failures += 1;
      member.warm = new Map();
      member.templates = new Map();
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
          templates: new Map(),
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
  const addressesOf = (from: readonly Member[]): string[] => [
    ...new Set(from.flatMap((member) => (member.address === undefined ? [] : [member.address]))),
  ];
  const holders = (key: FullPoolKey, may: (owner: string | undefined) => boolean): Member[] => {
    const text = keyText(key);
    return others().filter((member) => member.templates.has(text) && may(member.templates.get(text)));
  };
  const draw = (from: Member[], count: number): Member[] => {
    const drawn: Member[] = [];
    while (drawn.length < count && from.length > 0) {
      drawn.push(...from.splice(Math.floor(options.random() * from.length), 1));
    }
    return drawn;
  };
  return {
    get meshed() {
      const self = options.self();
      return members.some((member) => member.client.address !== self);
    },
    get addresses() {
      return addressesOf(others());
    },
    warmFor: (key) => {
      const text = keyText(key);
      const stocked = others().filter((member) => (member.warm.get(text) ?? 0) > 0);
      const chosen = draw(stocked, 2);
      chosen.sort((a, b) => (b.warm.get(text) ?? 0) - (a.warm.get(text) ?? 0));
      return addressesOf(chosen);
    },
    holdersOf: (key, caller) =>
      addressesOf(
        draw(
          holders(key, (owner) => maySee(caller, owner)),
          MAX_HOLDERS,
        ),
      ),
    ownersOf: (key, caller) => addressesOf(holders(key, (owner) => mayChange(caller, owner))),
    findCheckpoint: async (id) => {
      // As part of a path, `..` would ask for something else.
      if (!CHECKPOINT_ID.test(id)) {
        return [];
      }
      const found: string[] = [];
      // Enough holders are an answer: the others are not waited for.
      const enough = Promise.withResolvers<void>();
      const asked = addressesOf(others()).map(async (address) => {
        const path = `/v1/checkpoints/${id}/blob`;
        const status = await askPeer(address, { method: "HEAD", path, signal: stop.signal });
        if (status === 200) {
          found.push(address);
        }
        if (found.length >= MAX_CHECKPOINT_HOLDERS) {
          enough.resolve();
        }
      });
      await Promise.race([Promise.all(asked), enough.promise]);
      return found.slice(0, MAX_CHECKPOINT_HOLDERS);
    },
    forgetCheckpoint: (id) => {
      const path = `/v1/checkpoints/${encodeURIComponent(id)}?no_forward=1`;
      for (const address of addressesOf(others())) {
        const call = askPeer(address, { method: "DELETE", path, token: options.token, signal: stop.signal });
        const run = call.then(() => undefined).finally(() => polls.delete(run));
        polls.add(run);
      }
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
