import type { NodeInventory } from "@org/scale";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ALIAS_TICKS, applyAnswers, type Answer, type Member } from "./membership.ts";
import { buildSnapshot, emptySnapshot, succeed } from "./snapshot.ts";

function inventory(node: string, asOfMs = 0): NodeInventory {
  return { node, address: node, pools: [], templates: [], entries: [], asOfMs };
}

function says(key: string, peers: readonly string[] = []): Answer {
  return { ok: true, inventory: inventory(key), peers };
}

const silent: Answer = { ok: false, error: new Error("silent") };

function members(...list: readonly (Partial<Member> & { readonly address: string })[]): Map<string, Member> {
  return new Map(list.map((member) => [member.address, { seed: false, fails: 0, ...member }]));
}

function apply(before: Map<string, Member>, answers: Record<string, Answer>) {
  const result = applyAnswers(before, new Map(Object.entries(answers)), 3);
  return { ...result, addresses: [...result.members.keys()] };
}

describe("duplicates of one key", () => {
  it.each([
    [
      "two seeds are both kept",
      [
        { address: "s1", seed: true },
        { address: "s2", seed: true },
      ],
      ["s1", "s2"],
    ],
    ["a seed wins over a peer", [{ address: "k" }, { address: "s1", seed: true }], ["s1"]],
    ["the peer dialed at the key wins", [{ address: "p1" }, { address: "k" }], ["k"]],
    ["the first peer wins otherwise", [{ address: "p1" }, { address: "p2" }, { address: "p3" }], ["p1"]],
    [
      "seeds win over all peers",
      [{ address: "k" }, { address: "s1", seed: true }, { address: "p1" }, { address: "s2", seed: true }],
      ["s1", "s2"],
    ],
  ])("%s", (_name, list, expected) => {
    const answers = Object.fromEntries(list.map(({ address }) => [address, says("k")]));
    expect(apply(members(...list), answers).addresses).toEqual(expected);
  });

  it("count only among members that answered this tick", () => {
    const before = members({ address: "s1", seed: true, inventory: inventory("k") }, { address: "k" });
    const { addresses, joined } = apply(before, { s1: silent, k: says("k", ["s1"]) });
    expect(addresses).toEqual(["s1", "k"]);
    expect(joined).toEqual([]);
  });

  it("do not come back while they are gossiped, and do once the kept member is silent", () => {
    const first = apply(members({ address: "k" }, { address: "old" }), {
      k: says("k", ["old", "k"]),
      old: says("k"),
    });
    expect(first.left).toEqual(["old"]);
    const second = apply(first.members, { k: says("k", ["old"]) });
    expect(second.joined).toEqual([]);
    const third = apply(members(...second.members.values(), { address: "x" }), {
      k: silent,
      x: says("x", ["old", "k"]),
    });
    expect(third.joined).toEqual(["old"]);
  });

  it("are tried again after a while: another node may have taken their address", () => {
    let now = apply(members({ address: "k" }, { address: "p" }), { k: says("k", ["p"]), p: says("k") });
    expect(now.addresses).toEqual(["k"]);
    for (let tick = 1; tick <= ALIAS_TICKS; tick += 1) {
      now = apply(now.members, { k: says("k", ["p"]) });
      expect(now.addresses).toEqual(["k"]);
    }
    now = apply(now.members, { k: says("k", ["p"]) });
    expect(now.joined).toEqual(["p"]);
    expect(apply(now.members, { k: says("k", ["p"]), p: says("p") }).addresses).toEqual(["k", "p"]);
    expect(apply(now.members, { k: says("k", ["p"]), p: says("k") }).addresses).toEqual(["k"]);
  });

  it("are forgotten when gossip forgets them, or the node takes another key", () => {
    const start = members({ address: "k", inventory: inventory("k"), aliases: new Map([["old", 0]]) });
    const forgotten = apply(start, { k: says("k", []) });
    expect(apply(forgotten.members, { k: says("k", ["old"]) }).joined).toEqual(["old"]);
    expect(apply(start, { k: says("k2", ["old"]) }).joined).toEqual(["old"]);
  });
});

describe("new peers", () => {
  it("join unless they are members, keys of members that answered, or nothing", () => {
    const before = members({ address: "s", seed: true }, { address: "p", fails: 2 });
    const { joined, members: after } = apply(before, { s: says("k", ["p", "k", "", "n", "n"]), p: silent });
    expect(joined).toEqual(["n"]);
    expect(after.get("n")).toEqual({ address: "n", seed: false, fails: 0 });
  });
});

describe("silent members", () => {
  it("leave only when they are unnamed peers past the grace and somebody was heard", () => {
    const before = members(
      { address: "s", seed: true, fails: 9 },
      { address: "p", fails: 3 },
      { address: "q", fails: 2 },
    );
    expect(apply(before, { s: silent, p: silent, q: silent }).left).toEqual([]);
    expect(apply(members(...before.values(), { address: "x" }), { x: says("x", []) }).left).toEqual(["p"]);
    expect(apply(members(...before.values(), { address: "x" }), { x: says("x", ["p"]) }).left).toEqual([]);
  });

  it("include those that gave no answer at all", () => {
    expect(apply(members({ address: "p" }), {}).members.get("p")?.fails).toBe(1);
  });
});

it("no tick loses a seed, doubles an address or counts wrongly, and the old members stay as they were", () => {
  const address = fc.constantFrom("a", "b", "c", "d", "e");
  const answer = fc.oneof(
    fc.constant(silent),
    fc.record({
      ok: fc.constant(true as const),
      inventory: address.map((key) => inventory(key)),
      peers: fc.array(address),
    }),
  );
  const tick = fc.dictionary(address, answer);
  fc.assert(
    fc.property(
      fc.uniqueArray(address, { minLength: 1, maxLength: 2 }),
      fc.array(tick, { maxLength: 12 }),
      (seeds, run) => {
        let current = members(...seeds.map((seed) => ({ address: seed, seed: true })));
        for (const answers of run) {
          const frozen = structuredClone([...current.values()]);
          const next = apply(current, answers);
          expect([...current.values()]).toEqual(frozen);
          for (const seed of seeds) {
            expect(next.members.get(seed)?.seed).toBe(true);
          }
          for (const [at, member] of next.members) {
            expect(member.address).toBe(at);
            const before = current.get(at);
            const good = before !== undefined && answers[at]?.ok === true;
            expect(member.fails).toBe(before === undefined || good ? 0 : before.fails + 1);
            expect(before === undefined).toBe(next.joined.includes(at));
          }
          for (const gone of next.left) {
            expect(next.members.has(gone)).toBe(next.joined.includes(gone));
          }
          current = next.members;
        }
      },
    ),
  );
});

describe("a snapshot of members", () => {
  it("takes the member with the fewest failed ticks per key, the first on a tie, and none past the grace", () => {
    const list = members(
      { address: "s1", seed: true, fails: 2, inventory: inventory("k", 1) },
      { address: "p", fails: 1, inventory: inventory("k", 2) },
      { address: "q", fails: 1, inventory: inventory("k", 3) },
      { address: "r", fails: 4, inventory: inventory("gone", 4) },
      { address: "t", fails: 3, inventory: inventory("Z", 5) },
      { address: "u" },
    );
    const snapshot = buildSnapshot(list.values(), 3, 7);
    expect(snapshot.nodes).toEqual(["Z", "k"]);
    expect(snapshot.byKey.get("k")?.asOfMs).toBe(2);
    expect(snapshot.generation).toBe(7);
    expect(snapshot.capacities.map((one) => one.node)).toEqual(["Z", "k"]);
    expect(snapshot.capacities[1]).toBe(snapshot.capacityByKey.get("k"));
  });

  it("sorts nodes by code units", () => {
    const list = members(
      ...["b:1", "a:9", "a:10", "B:1", "ä:1", "\u{1f600}", "\uffff"].map((address) => ({
        address,
        inventory: inventory(address),
      })),
    );
    expect(buildSnapshot(list.values(), 3, 0).nodes).toEqual([
      "B:1",
      "a:10",
      "a:9",
      "b:1",
      "ä:1",
      "\u{1f600}",
      "\uffff",
    ]);
  });

  it("that says the same keeps the generation", () => {
    const one = inventory("k", 1);
    const first = succeed(emptySnapshot, buildSnapshot(members({ address: "k", inventory: one }).values(), 3, 0));
    expect(first.generation).toBe(1);
    const again = buildSnapshot(members({ address: "k", inventory: { ...one, asOfMs: 2 } }).values(), 3, 0);
    const second = succeed(first, again);
    expect(second.generation).toBe(1);
    expect(second.byKey.get("k")?.asOfMs).toBe(2);
    const changed = buildSnapshot(members({ address: "k", inventory: { ...one, entries: [] } }).values(), 3, 0);
    expect(succeed(second, changed).generation).toBe(2);
  });
});
