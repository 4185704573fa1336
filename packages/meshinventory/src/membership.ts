import type { NodeInventory } from "@org/scale";

/** One node as this mesh dials it. Mesh specification §4. */
export interface Member {
  /** Where it is dialed: a seed as given, or a peer as gossiped. */
  readonly address: string;
  readonly seed: boolean;
  /** Ticks in a row without an answer. */
  readonly fails: number;
  /** The last answer. */
  readonly inventory?: NodeInventory | undefined;
  /**
   * Other gossiped spellings that turned out to be this node, with the ticks since. They are not dialed while this
   * member answers, but tried again after {@link ALIAS_TICKS}: the node there may have become another one.
   */
  readonly aliases?: ReadonlyMap<string, number> | undefined;
}

/** For so many ticks a spelling is taken for the node that it turned out to be. */
export const ALIAS_TICKS = 30;

/** What one member said in one tick. An inventory's `node` is its key. */
export type Answer =
  | { readonly ok: true; readonly inventory: NodeInventory; readonly peers: readonly string[] }
  | { readonly ok: false; readonly error: unknown };

/** The members after a tick, in their old order with the new ones behind. */
export interface Membership {
  readonly members: Map<string, Member>;
  readonly joined: readonly string[];
  readonly left: readonly string[];
}

/**
 * Applies one tick's answers. A member without an answer has failed. Peer lists count only of members that answered;
 * when nobody did, who is a peer is unknown and nobody leaves.
 */
export function applyAnswers(
  members: ReadonlyMap<string, Member>,
  answers: ReadonlyMap<string, Answer>,
  maxStale: number,
): Membership {
  const named = new Set<string>();
  let heard = false;
  for (const address of members.keys()) {
    const answer = answers.get(address);
    if (answer?.ok === true) {
      heard = true;
      for (const peer of answer.peers) {
        named.add(peer);
      }
    }
  }

  const next = new Map<string, Member>();
  const answered: Member[] = [];
  const left: string[] = [];
  for (const member of members.values()) {
    const answer = answers.get(member.address);
    if (answer?.ok === true) {
      const updated = afterAnswer(member, answer.inventory, named);
      next.set(member.address, updated);
      answered.push(updated);
      continue;
    }
    const fails = member.fails + 1;
    if (!member.seed && heard && !named.has(member.address) && fails > maxStale) {
      left.push(member.address);
    } else {
      next.set(member.address, { ...member, fails });
    }
  }

  for (const [kept, dropped] of duplicates(answered)) {
    const member = next.get(kept.address) ?? kept;
    const aliases = new Map(member.aliases);
    for (const { address, aliases: inherited } of dropped) {
      next.delete(address);
      left.push(address);
      aliases.set(address, 0);
      for (const [alias, ticks] of inherited ?? []) {
        aliases.set(alias, ticks);
      }
    }
    next.set(kept.address, { ...member, aliases });
  }

  const known = new Set<string>();
  for (const { address, inventory } of answered) {
    known.add(inventory?.node ?? address);
    for (const alias of next.get(address)?.aliases?.keys() ?? []) {
      known.add(alias);
    }
  }
  const joined = [...named].filter((address) => address !== "" && !next.has(address) && !known.has(address));
  for (const address of joined) {
    next.set(address, { address, seed: false, fails: 0 });
  }
  return { members: next, joined, left };
}

/** An alias holds for a while, as long as it is gossiped and the node keeps its key. */
function afterAnswer(member: Member, inventory: NodeInventory, named: ReadonlySet<string>): Member {
  const { address, seed, aliases } = member;
  const kept = new Map<string, number>();
  if (aliases !== undefined && member.inventory?.node === inventory.node) {
    for (const [alias, ticks] of aliases) {
      if (named.has(alias) && ticks < ALIAS_TICKS) {
        kept.set(alias, ticks + 1);
      }
    }
  }
  return { address, seed, fails: 0, inventory, ...(kept.size === 0 ? {} : { aliases: kept }) };
}

/**
 * Members that are one node: the one to keep with those to drop. Seeds are all kept; without a seed the one dialed at
 * the node's own key wins, else the first.
 */
function duplicates(answered: readonly Member[]): [kept: Member, dropped: readonly Member[]][] {
  const byKey = new Map<string, Member[]>();
  for (const member of answered) {
    const key = member.inventory?.node ?? member.address;
    const group = byKey.get(key);
    if (group === undefined) {
      byKey.set(key, [member]);
    } else {
      group.push(member);
    }
  }
  const found: [Member, readonly Member[]][] = [];
  for (const [key, group] of byKey) {
    const kept = group.find((one) => one.seed) ?? group.find((one) => one.address === key) ?? group[0];
    const dropped = group.filter((one) => one !== kept && !one.seed);
    if (kept !== undefined && dropped.length > 0) {
      found.push([kept, dropped]);
    }
  }
  return found;
}
