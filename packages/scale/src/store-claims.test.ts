import { describe, expect, it, vi } from "vitest";
import type { PoolKey } from "./domain.ts";
import { isScaleError } from "./errors.ts";
import type { Logger, NodeClaimReply, NodeClient, NodeFailure, SandboxStore } from "./ports.ts";
import { pickPowerOfTwo, RoutingTable, templateCandidates, warmCandidates } from "./routing-table.ts";
import { createStore } from "./store.ts";
import type { StoreOptions } from "./store.ts";
import type { StaticNode } from "./testing/index.ts";
import { answers, fails, redirects, ScriptedNodes, StaticInventorySource, staysSilent } from "./testing/index.ts";

const POOL: PoolKey = { template: "rt:24.04", net: "none", size: "small" };
const FULL: NodeFailure = { kind: "status", status: 429, nodeMessage: "node claim quota reached" };
const TIMED_OUT: NodeFailure = { kind: "uncertain", detail: "no complete reply" };

interface Line {
  readonly level: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

function recordingLogger(): Logger & { readonly lines: Line[] } {
  const lines: Line[] = [];
  const at = (level: string) => (fields: object, message: string) => {
    lines.push({ level, fields: { ...fields }, message });
  };
  return { lines, debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

/** Uniform numbers that are the same in each run. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return state / 2 ** 32;
  };
}

interface Fleet {
  readonly source: StaticInventorySource;
  readonly nodes: ScriptedNodes;
  readonly logger: ReturnType<typeof recordingLogger>;
  readonly store: SandboxStore;
  /** Claims in the order the nodes saw them, `(true)` for those that must not be redirected. */
  readonly claims: () => string[];
}

/** Nodes whose keys are their warm counts' names; addresses are the keys with a port. */
function fleet(warm: Readonly<Record<string, number>>, options: StoreOptions = {}): Fleet {
  const source = new StaticInventorySource(
    Object.entries(warm).map(([node, count]): StaticNode => ({
      node,
      address: `${node}:7777`,
      pools: [{ ...POOL, warm: count, target: count }],
    })),
  );
  return around(source, options);
}

function around(source: StaticInventorySource, options: StoreOptions = {}): Fleet {
  const nodes = new ScriptedNodes();
  const logger = recordingLogger();
  return {
    source,
    nodes,
    logger,
    store: createStore(source, { clients: nodes, logger, random: seeded(1), ...options }),
    claims: () =>
      nodes.calls
        .filter((call) => call.verb === "claim")
        .map((call) => `${call.address.split(":")[0]}(${call.claim?.noRedirect === true})`),
  };
}

/** Draws the candidates at these indexes: each pick takes two numbers. */
function drawing(count: number, ...indexes: readonly number[]): () => number {
  const numbers = indexes.flatMap((index) => [index / count, index / count]);
  return () => numbers.shift() ?? 0;
}

const noCapacity = { name: "ScaleError", code: "no_warm_capacity" };

describe("a claim", () => {
  it("C1: goes to the warm node with its options and returns what the owner granted", async () => {
    const { nodes, store, source, logger } = fleet({ a: 1 });
    const deadline = new Date("2030-01-01T00:00:00Z");
    nodes.node("a:7777").script("claim", () => ({
      kind: "delivered",
      id: "sb_00000000000000aa",
      token: "secret",
      deadline,
      ownerAddress: "owner:7777",
      netRoute: "relay",
    }));
    const readCapacities = vi.spyOn(source, "nodeCapacities");

    const assignment = await store.claim("ns", "s1", POOL, { ttlSeconds: 600 });

    expect(assignment).toStrictEqual({
      id: "sb_00000000000000aa",
      node: "a",
      address: "owner:7777",
      token: "secret",
      deadline,
      netRoute: "relay",
      fromCheckpoint: undefined,
      claimRef: "ns/s1",
    });
    expect(nodes.calls).toHaveLength(1);
    expect(nodes.calls[0]?.address).toBe("a:7777");
    expect(nodes.calls[0]?.claim).toMatchObject({ pool: POOL, ttlSeconds: 600, claimRef: "ns/s1" });
    expect(nodes.calls[0]?.claim?.noEgress).toBeUndefined();
    expect(nodes.calls[0]?.claim?.requirePromoted).toBeUndefined();
    expect(readCapacities).toHaveBeenCalledTimes(1);
    expect(logger.lines).toStrictEqual([]);
  });

  it("C1: takes the dialled address for the owner of a node that advertises none", async () => {
    const { nodes, store } = fleet({ a: 1 });
    nodes.node("a:7777").script("claim", () => ({ kind: "delivered", id: "sb_1", token: "t" }));
    await expect(store.claim("ns", "s", POOL)).resolves.toMatchObject({ address: "a:7777" });
  });

  it("C2: passes metadata, the end of the lease and the closed way out", async () => {
    const { nodes, store } = fleet({ a: 1 });
    await store.claim("ns", "s", POOL, { noEgress: true, metadata: { k: "v" }, onExpire: "archive" });
    expect(nodes.calls[0]?.claim).toMatchObject({ noEgress: true, metadata: { k: "v" }, onExpire: "archive" });
  });

  it("C3: asks nobody when no node is warm", async () => {
    const { nodes, store } = fleet({ a: 0, b: 0 });
    await expect(store.claim("ns", "s", POOL)).rejects.toMatchObject(noCapacity);
    expect(nodes.calls).toStrictEqual([]);
  });

  it.each([
    ["none and small", { net: "none", size: "small" }, true],
    ["nothing", {}, true],
    ["empty texts", { net: "", size: "" }, true],
    ["another lane", { net: "egress", size: "small" }, false],
    ["another size", { net: "none", size: "large" }, false],
    ["another template", { template: "rt:24.04 " }, false],
  ])("C4: a pool without lane and size serves a claim for %s: %s", async (_case, asked, served) => {
    const source = new StaticInventorySource([{ node: "a", pools: [{ template: "rt:24.04", warm: 1, target: 1 }] }]);
    const { store } = around(source);
    const claim = store.claim("ns", "s", { template: "rt:24.04", ...asked });
    await (served
      ? expect(claim).resolves.toMatchObject({ node: "a" })
      : expect(claim).rejects.toMatchObject(noCapacity));
  });

  it.each([
    ["C5", "is full", FULL],
    ["C9", "answers 503", { kind: "status", status: 503 }],
    ["C9", "fails to provision", { kind: "status", status: 500 }],
    ["C9", "cannot be reached", { kind: "unsent" }],
  ] as const)("%s: is short of capacity when the only node %s", async (_row, _case, failure) => {
    const { nodes, store } = fleet({ a: 5 });
    nodes.node("a:7777").always("claim", fails(failure));
    await expect(store.claim("ns", "s", POOL)).rejects.toMatchObject(noCapacity);
    expect(nodes.calls).toHaveLength(1);
  });

  it("C5: is short of capacity when the only node answers with neither a sandbox nor a redirect", async () => {
    const { nodes, store } = fleet({ a: 5 });
    nodes.node("a:7777").always("claim", () => ({ kind: "empty" }));
    await expect(store.claim("ns", "s", POOL)).rejects.toMatchObject(noCapacity);
  });

  it("C6: always ends on the warm node beside a full one that looks warm", async () => {
    const { nodes, store } = fleet({ stale: 50, warm: 5 });
    nodes.node("stale:7777").always("claim", fails(FULL));
    for (let count = 0; count < 40; count += 1) {
      await expect(store.claim("ns", `s${count}`, POOL)).resolves.toMatchObject({ node: "warm" });
    }
  });

  it.each([
    ["refuses connections", { kind: "unsent", detail: "connect ECONNREFUSED" }],
    ["does not take a connection in time", { kind: "unsent", detail: "Connect Timeout Error" }],
    ["answers 500", { kind: "status", status: 500 }],
  ] as const)("C7: takes the other node, every time, when the best one %s", async (_case, failure) => {
    const { nodes, store } = fleet({ best: 90, other: 1 });
    nodes.node("best:7777").always("claim", fails(failure));
    for (let count = 0; count < 20; count += 1) {
      await expect(store.claim("ns", `s${count}`, POOL)).resolves.toMatchObject({ node: "other" });
    }
  });

  it("C8: is not tried elsewhere when it may have been delivered", async () => {
    const { nodes, store } = fleet({ a: 5, b: 5 });
    nodes.node("a:7777").always("claim", fails(TIMED_OUT));
    nodes.node("b:7777").always("claim", fails(TIMED_OUT));
    const claim = store.claim("ns", "s", POOL);
    await expect(claim).rejects.toMatchObject({
      code: "claim_failed",
      message: expect.stringContaining("no complete reply"),
    });
    expect(nodes.calls).toHaveLength(1);
  });

  it("C8: is not tried elsewhere when a client ends it by itself", async () => {
    const { nodes, store } = fleet({ a: 5, b: 5 });
    nodes.node("a:7777").always("claim", fails({ kind: "aborted" }));
    nodes.node("b:7777").always("claim", fails({ kind: "aborted" }));
    const signal = new AbortController().signal;
    await expect(store.claim("ns", "s", POOL, { signal })).rejects.toMatchObject({ code: "claim_failed" });
    expect(nodes.calls).toHaveLength(1);
  });

  it.each([400, 401, 403, 404, 409, 422])(
    "fails at once with the node's words when it is refused with %i",
    async (status) => {
      const { nodes, store } = fleet({ a: 5, b: 5 });
      nodes.node("a:7777").always("claim", answers(status, "the node's reason"));
      nodes.node("b:7777").always("claim", answers(status, "the node's reason"));
      await expect(store.claim("ns", "s", POOL)).rejects.toMatchObject({
        code: "claim_refused",
        status,
        nodeMessage: "the node's reason",
        message: expect.stringMatching(/on node "[ab]": the node's reason/),
      });
      expect(nodes.calls).toHaveLength(1);
    },
  );

  it("C10: asks each of two full nodes once", async () => {
    const { nodes, store, claims, logger } = fleet({ a: 5, b: 5 });
    nodes.node("a:7777").always("claim", fails(FULL));
    nodes.node("b:7777").always("claim", fails(FULL));
    await expect(store.claim("ns", "s", POOL)).rejects.toMatchObject(noCapacity);
    expect(claims().sort()).toStrictEqual(["a(false)", "b(false)"]);
    expect(logger.lines.map(({ level, message }) => `${level} ${message}`)).toStrictEqual([
      expect.stringMatching(
        /^debug node delivered nothing for the claim; trying another node node=[ab] err=.* remaining=1$/,
      ),
      expect.stringMatching(/remaining=0$/),
    ]);
    expect(logger.lines[0]?.fields).toMatchObject({ func: "scale.Claim", remaining: 1 });
  });
});

describe("sampling", () => {
  const candidates = (counts: readonly number[]) =>
    warmCandidates(
      counts.map((warm, at) => ({
        node: String(at),
        address: `n${at}`,
        pools: [{ ...POOL, warm, target: warm }],
        templates: [],
      })),
      POOL,
    );

  it("C11: reaches every one of four equal nodes", () => {
    const random = seeded(7);
    const four = candidates([3, 3, 3, 3]);
    const picked = new Set(Array.from({ length: 200 }, () => pickPowerOfTwo(four, random)?.node.node));
    expect(picked.size).toBe(4);
  });

  it("C12: prefers the warmer of two in about three of four draws", () => {
    const random = seeded(11);
    const two = candidates([100, 1]);
    const warmer = Array.from({ length: 200 }, () => pickPowerOfTwo(two, random)).filter(
      (candidate) => candidate?.warm === 100,
    );
    expect(warmer.length).toBeGreaterThan(130);
    expect(warmer.length).toBeLessThan(180);
  });

  it.each([
    ["the second only when it is strictly warmer", [1, 2], [0, 0.5], "1"],
    ["the first of equals", [2, 2], [0.5, 0], "1"],
    ["the first when it is warmer", [2, 1], [0, 0.5], "0"],
    ["the last for a number that is out of range", [1, 1], [1, 1], "1"],
  ] as const)("takes %s", (_case, counts, numbers, node) => {
    const draws = [...numbers];
    expect(pickPowerOfTwo(candidates(counts), () => draws.shift() ?? 0)?.node.node).toBe(node);
  });

  it("C18: counts pool entries, not nodes, and leaves out what is cold or has no address", () => {
    const pool = { ...POOL, warm: 2, target: 2 };
    const source = new StaticInventorySource([
      { node: "two", address: "two:1", pools: [pool, { template: POOL.template, warm: 1, target: 1 }] },
      { node: "one", address: "one:1", pools: [pool] },
      { node: "cold", address: "cold:1", pools: [{ ...pool, warm: 0 }] },
      {
        node: "odd",
        address: "odd:1",
        pools: [
          { ...pool, warm: Number.NaN },
          { ...pool, warm: -3 },
        ],
      },
      { node: "homeless", address: "", pools: [pool] },
      { node: "cut-off", address: "cut-off:1", pools: [pool] },
    ]);
    source.partition("cut-off");
    const table = new RoutingTable(source.nodeCapacities());
    expect(table.warm(POOL).map((candidate) => candidate.node.node)).toStrictEqual(["one", "two", "two"]);
    expect(table.nodeAt("cut-off:1")).toBeUndefined();
    expect(table.nodeAt("")).toBeUndefined();
    expect(table.nodeAt("cold:1")?.node).toBe("cold");
  });

  it("C18: lets no node push itself forward by listing a pool more often than its key can be written", () => {
    const spellings = ["none", ""].flatMap((net) => ["small", ""].map((size) => ({ ...POOL, net, size })));
    const pools = spellings.map((key) => ({ ...key, warm: 2, target: 2 }));
    const [many, four, one] = [1000, 1, 0].map((times, at) => ({
      node: `n${at}`,
      address: `n${at}:1`,
      pools: times === 0 ? pools.slice(3) : Array.from({ length: times }, () => pools).flat(),
      templates: [],
    }));
    const picked = warmCandidates(
      [many, four, one].filter((node) => node !== undefined),
      POOL,
    );
    const times = Object.groupBy(picked, (candidate) => candidate.node.node);
    expect(Object.entries(times).map(([node, found]) => `${node} ${found?.length}`)).toStrictEqual([
      "n0 4",
      "n1 4",
      "n2 1",
    ]);
  });

  it("works candidates out once per generation and key", async () => {
    const { source, store } = fleet({ a: 5 });
    const read = vi.spyOn(source, "nodeCapacities");
    await store.claim("ns", "s1", POOL);
    await store.claim("ns", "s2", POOL);
    expect(read).toHaveBeenCalledTimes(1);
    source.put({ node: "b", address: "b:7777", pools: [{ ...POOL, warm: 9, target: 9 }] });
    source.remove("a");
    await expect(store.claim("ns", "s3", POOL)).resolves.toMatchObject({ node: "b" });
    expect(read).toHaveBeenCalledTimes(2);
  });

  it("remembers a bounded number of keys", () => {
    const nodes = [{ node: "a", address: "a:1", pools: [{ ...POOL, warm: 1, target: 1 }], templates: [] }];
    const table = new RoutingTable(nodes);
    for (let at = 0; at < 5000; at += 1) {
      expect(table.warm({ template: `t${at}` })).toStrictEqual([]);
    }
    expect(table.warm(POOL)).toHaveLength(1);
  });
});

describe("a redirect", () => {
  it("C13: is followed once, to a node that inventory holds for cold", async () => {
    const { source, nodes, store, claims, logger } = fleet({ a: 5, b: 0 });
    nodes.node("a:7777").script("claim", redirects(["b:7777"]));

    const assignment = await store.claim("ns", "s1", POOL, { metadata: { k: "v" }, ttlSeconds: 60 });

    expect(claims()).toStrictEqual(["a(false)", "b(true)"]);
    expect(assignment.node).toBe("b");
    expect(nodes.calls[1]?.claim).toStrictEqual({
      ...nodes.calls[0]?.claim,
      noRedirect: true,
      requirePromoted: undefined,
    });
    expect(logger.lines).toStrictEqual([
      {
        level: "debug",
        fields: { func: "scale.claimRedirected", from: "a", node: "b", id: assignment.id },
        message: `claim followed a redirect from=a node=b id=${assignment.id}`,
      },
    ]);
    await expect(store.get("ns", "s1")).resolves.toMatchObject({ node: "b", id: assignment.id });
    await expect(store.getByClaimId("ns", assignment.id, (id) => id === assignment.id)).resolves.toMatchObject({
      node: "b",
    });

    // Views that are younger than the claim and do not list it leave only the index, which leads to b alone.
    source.put({ node: "a", address: "a:7777" });
    source.put({ node: "b", address: "b:7777" });
    nodes.calls.length = 0;
    await store.get("ns", "s1");
    await store.getByClaimId("ns", assignment.id, (id) => id === assignment.id);
    expect(nodes.calls.map((call) => `${call.address} ${call.verb}`)).toStrictEqual([
      "b:7777 sandboxesByRef",
      "b:7777 sandbox",
    ]);
  });

  it("C14: is not followed twice, nor to an address that no inventory advertises", async () => {
    const random = drawing(2, 0, 0);
    const { nodes, store, claims, logger } = fleet({ a: 5, b: 0, c: 1 }, { random });
    nodes.node("a:7777").always("claim", redirects(["unknown:7777", "b:7777"]));
    nodes.node("b:7777").always("claim", redirects(["a:7777"]));

    await expect(store.claim("ns", "s", POOL)).resolves.toMatchObject({ node: "c" });

    expect(claims()).toStrictEqual(["a(false)", "b(true)", "c(false)"]);
    expect(logger.lines.map((line) => line.message)).toStrictEqual([
      "redirect target is no known node; skipping from=a target=unknown:7777",
      "redirect target delivered nothing; skipping from=a node=b err=redirected again",
      expect.stringMatching(/^node delivered nothing for the claim; .* remaining=1$/),
    ]);
  });

  it("C15: drops its targets with the node that named them", async () => {
    const { nodes, store, claims } = fleet({ a: 5, b: 5 }, { random: drawing(2, 0) });
    nodes.node("a:7777").always("claim", redirects(["b:7777"]));
    nodes.node("b:7777").always("claim", fails(FULL));
    await expect(store.claim("ns", "s", POOL)).rejects.toMatchObject(noCapacity);
    expect(claims()).toStrictEqual(["a(false)", "b(true)"]);
  });

  it("C15: is short of capacity as well when the target was sampled first", async () => {
    const { nodes, store, claims } = fleet({ a: 5, b: 5 }, { random: drawing(2, 1) });
    nodes.node("a:7777").always("claim", redirects(["b:7777"]));
    nodes.node("b:7777").always("claim", fails(FULL));
    await expect(store.claim("ns", "s", POOL)).rejects.toMatchObject(noCapacity);
    expect(claims()).toStrictEqual(["b(false)", "a(false)", "b(true)"]);
  });

  it.each([
    ["times out", TIMED_OUT, "claim_failed"],
    ["refuses", { kind: "status", status: 409, nodeMessage: "no egress" }, "claim_refused"],
    ["knows no template", { kind: "status", status: 404 }, "claim_refused"],
  ] as const)("C16: ends the claim when a target %s", async (_case, failure, code) => {
    const { nodes, store, claims } = fleet({ a: 5, b: 0, c: 0 });
    nodes.node("a:7777").always("claim", redirects(["b:7777", "c:7777"]));
    nodes.node("b:7777").always("claim", fails(failure));
    await expect(store.claim("ns", "s", POOL)).rejects.toMatchObject({
      code,
      node: "b",
      message: expect.stringContaining('on node "b"'),
    });
    expect(claims()).toStrictEqual(["a(false)", "b(true)"]);
  });

  it("C17: asks all its targets in order while they are full", async () => {
    const { nodes, store, claims } = fleet({ a: 5, b: 0, c: 0 });
    nodes.node("a:7777").always("claim", redirects(["b:7777", "c:7777"]));
    nodes.node("b:7777").always("claim", fails(FULL));
    nodes.node("c:7777").always("claim", fails({ kind: "unsent" }));
    await expect(store.claim("ns", "s", POOL)).rejects.toMatchObject(noCapacity);
    expect(claims()).toStrictEqual(["a(false)", "b(true)", "c(true)"]);
  });

  it("copies the demand for a promoted template, which does not make a 404 retryable", async () => {
    const { nodes, store } = fleet({ a: 5, b: 0 });
    nodes.node("a:7777").always("claim", redirects(["b:7777"], true));
    nodes.node("b:7777").script("claim", answers(404, "unknown template"));
    await expect(store.claim("ns", "s", POOL)).rejects.toMatchObject({ code: "claim_refused", status: 404 });
    expect(nodes.calls[1]?.claim).toMatchObject({ requirePromoted: true, noRedirect: true });
  });
});

describe("a promoted template", () => {
  const template = (node: string, size = "small"): StaticNode => ({
    node,
    address: `${node}:7777`,
    templates: [{ template: "mine", net: "none", size, contentDigest: "sha256:0", tenant: "" }],
  });

  it("C19: serves a key without a pool, only when it is asked for", async () => {
    const { nodes, store } = around(
      new StaticInventorySource([
        template("holder"),
        { node: "pooled", address: "pooled:7777", pools: [{ ...POOL, warm: 1, target: 1 }] },
      ]),
    );
    await expect(store.claim("ns", "s", { template: "mine" }, { promoted: true })).resolves.toMatchObject({
      node: "holder",
    });
    await expect(store.claim("ns", "s", POOL, { promoted: true })).resolves.toMatchObject({ node: "pooled" });
    await expect(store.claim("ns", "s", { template: "mine" })).rejects.toMatchObject(noCapacity);
    await expect(store.claim("ns", "s", { template: "mine", size: "large" }, { promoted: true })).rejects.toMatchObject(
      noCapacity,
    );
    expect(nodes.calls.map((call) => call.claim?.requirePromoted)).toStrictEqual([true, undefined]);
  });

  it("asks the holders that the caller knows of, whatever inventory shows", async () => {
    const bare = (node: string): StaticNode => ({ node, address: `${node}:7777` });
    const source = new StaticInventorySource([template("stale"), bare("fresh"), { node: "mute", address: "" }]);
    const { nodes, store } = around(source);
    const claim = (promotedOn: readonly string[]): Promise<unknown> =>
      store.claim("ns", "s", { template: "mine" }, { promoted: true, promotedOn });
    await expect(claim(["fresh", "unknown", "mute"])).resolves.toMatchObject({ node: "fresh" });
    await expect(claim(["unknown", "mute"])).rejects.toMatchObject(noCapacity);
    await expect(claim([])).rejects.toMatchObject(noCapacity);
    const unasked = store.claim("ns", "s", { template: "mine" }, { promotedOn: ["fresh"] });
    await expect(unasked).rejects.toMatchObject(noCapacity);
    expect(nodes.calls.map((call) => [call.address, call.claim?.requirePromoted])).toStrictEqual([
      ["fresh:7777", true],
    ]);
  });

  it("C20: moves on from advertisers that have lost it", async () => {
    const { nodes, store } = around(new StaticInventorySource([template("a"), template("b")]));
    nodes.node("a:7777").always("claim", answers(404, "unknown template"));
    for (let count = 0; count < 10; count += 1) {
      await expect(store.claim("ns", "s", { template: "mine" }, { promoted: true })).resolves.toMatchObject({
        node: "b",
      });
    }
    nodes.node("b:7777").always("claim", answers(404, "unknown template"));
    await expect(store.claim("ns", "s", { template: "mine" }, { promoted: true })).rejects.toMatchObject(noCapacity);
  });

  it("C20: moves on past the other targets of a redirect whose first target has lost it", async () => {
    const source = new StaticInventorySource([template("a"), template("b"), template("c"), template("d")]);
    const { nodes, store, claims } = around(source, { random: drawing(4, 0, 0) });
    nodes.node("a:7777").always("claim", redirects(["b:7777", "c:7777"], true));
    nodes.node("b:7777").always("claim", answers(404, "unknown template"));
    await expect(store.claim("ns", "s", { template: "mine" }, { promoted: true })).resolves.toMatchObject({
      node: "d",
    });
    expect(claims()).toStrictEqual(["a(false)", "b(true)", "d(false)"]);
  });

  it("C19: is demanded of a redirect's targets as well, whatever the redirect says", async () => {
    const source = new StaticInventorySource([template("a"), { node: "b", address: "b:7777" }]);
    const { nodes, store } = around(source);
    nodes.node("a:7777").script("claim", redirects(["b:7777"], false));
    await expect(store.claim("ns", "s", { template: "mine" }, { promoted: true })).resolves.toMatchObject({
      node: "b",
    });
    expect(nodes.calls.map((call) => call.claim?.requirePromoted)).toStrictEqual([true, true]);
    expect(nodes.calls[1]?.claim).toStrictEqual({ ...nodes.calls[0]?.claim, noRedirect: true });
  });

  it("C20: is not what a warm pool's 404 is about, although it was allowed", async () => {
    const { nodes, store } = fleet({ a: 5, b: 5 });
    nodes.node("a:7777").always("claim", answers(404, "unknown"));
    nodes.node("b:7777").always("claim", answers(404, "unknown"));
    await expect(store.claim("ns", "s", POOL, { promoted: true })).rejects.toMatchObject({
      code: "claim_refused",
      status: 404,
    });
    expect(nodes.calls).toHaveLength(1);
  });

  it("does not stand in for warm nodes that failed", async () => {
    const { nodes, store } = around(
      new StaticInventorySource([
        { ...template("holder"), templates: [{ ...POOL, contentDigest: "", tenant: "" }] },
        { node: "pooled", address: "pooled:7777", pools: [{ ...POOL, warm: 1, target: 1 }] },
      ]),
    );
    nodes.node("pooled:7777").always("claim", fails(FULL));
    await expect(store.claim("ns", "s", POOL, { promoted: true })).rejects.toMatchObject(noCapacity);
    expect(nodes.calls).toHaveLength(1);
  });

  it("is held once per node, however many entries match", () => {
    const held = { template: "mine", contentDigest: "", tenant: "" };
    const nodes = [
      { node: "a", address: "a:1", pools: [], templates: [held, { ...held, size: "small" }] },
      { node: "b", address: "", pools: [], templates: [held] },
    ];
    expect(templateCandidates(nodes, { template: "mine" }).map((candidate) => candidate.node.node)).toStrictEqual([
      "a",
    ]);
  });
});

describe("without node clients", () => {
  it("C21: claims and releases fail as not configured, not as short of capacity", async () => {
    const store = createStore(new StaticInventorySource([{ node: "a" }]));
    await expect(store.claim("ns", "s", POOL)).rejects.toMatchObject({ code: "routing_disabled" });
    await expect(store.release("a", "sb_1")).rejects.toMatchObject({ code: "routing_disabled" });
  });
});

describe("input that can never succeed", () => {
  it.each([
    ["no namespace", "", "s", POOL, {}],
    ["a namespace with a slash", "a/b", "s", POOL, {}],
    ["no name", "ns", "", POOL, {}],
    ["no template", "ns", "s", { template: "" }, {}],
    ["a negative lease", "ns", "s", POOL, { ttlSeconds: -1 }],
    ["a lease of half seconds", "ns", "s", POOL, { ttlSeconds: 1.5 }],
    ["a lease that is no number", "ns", "s", POOL, { ttlSeconds: Number.NaN }],
  ] as const)("refuses a claim with %s before any call", async (_case, namespace, name, pool, options) => {
    const { nodes, store } = fleet({ a: 1 });
    await expect(store.claim(namespace, name, pool, options)).rejects.toMatchObject({ code: "bad_request" });
    expect(nodes.calls).toStrictEqual([]);
  });

  it.each([{ liveTimeoutMs: 0 }, { liveTimeoutMs: Number.NaN }, { concurrency: 0 }, { concurrency: 1.5 }])(
    "refuses the options %j",
    (options) => {
      expect(() => createStore(new StaticInventorySource(), options)).toThrow(TypeError);
    },
  );
});

describe("a caller that leaves", () => {
  /** A claim that is answered when the test says so. */
  function held(): { step: () => Promise<unknown>; answer: (value: unknown) => void; fail: (error: unknown) => void } {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    return { step: () => promise, answer: resolve, fail: reject };
  }

  it("is released at once, and so is the sandbox that was delivered after all", async () => {
    const { nodes, store, logger } = fleet({ a: 5 });
    const late = held();
    nodes.node("a:7777").script("claim", late.step);
    const caller = new AbortController();
    const claim = store.claim("ns", "s", POOL, { signal: caller.signal });
    await vi.waitFor(() => expect(nodes.calls).toHaveLength(1));

    caller.abort(new Error("gone"));
    await expect(claim).rejects.toMatchObject({ code: "aborted", cause: new Error("gone") });
    let settled = false;
    const settling = store.settled().finally(() => {
      settled = true;
    });
    await Promise.resolve();
    expect(settled).toBe(false);

    late.answer({ kind: "delivered", id: "sb_00000000000000ff", token: "t" });
    await settling;

    const release = nodes.calls.find((call) => call.verb === "release");
    expect(release).toMatchObject({ address: "a:7777", id: "sb_00000000000000ff" });
    expect(release?.signal?.aborted ?? false).toBe(false);
    expect(store.list()).toStrictEqual([]);
    expect(logger.lines.filter((line) => line.level === "warn")).toStrictEqual([]);
  });

  it("leaves a warning when the late sandbox cannot be released", async () => {
    const { nodes, store, logger } = fleet({ a: 5 });
    const late = held();
    nodes.node("a:7777").script("claim", late.step).always("release", answers(503));
    const caller = new AbortController();
    const claim = store.claim("ns", "s", POOL, { signal: caller.signal });
    await vi.waitFor(() => expect(nodes.calls).toHaveLength(1));
    caller.abort();
    await expect(claim).rejects.toMatchObject({ code: "aborted" });
    late.answer({ kind: "delivered", id: "sb_00000000000000ff", token: "t" });
    await store.settled();
    expect(logger.lines.filter((line) => line.level === "warn")).toMatchObject([
      { fields: { node: "a", id: "sb_00000000000000ff" } },
    ]);
    expect(JSON.stringify(logger.lines)).not.toContain('"t"');
  });

  it.each([
    ["redirects", () => ({ kind: "redirect", targets: ["b:7777"], requirePromoted: false })],
    ["is full", fails(FULL)],
    ["cannot be reached", fails({ kind: "unsent" })],
  ])("is not walked on for when the node %s", async (_case, outcome) => {
    const { nodes, store, claims } = fleet({ a: 5, b: 5 }, { random: drawing(2, 0) });
    const late = held();
    nodes.node("a:7777").script("claim", async (call) => {
      await late.step();
      return outcome(call);
    });
    const caller = new AbortController();
    const claim = store.claim("ns", "s", POOL, { signal: caller.signal });
    await vi.waitFor(() => expect(nodes.calls).toHaveLength(1));
    caller.abort();
    await expect(claim).rejects.toMatchObject({ code: "aborted" });
    late.answer(undefined);
    await store.settled();
    expect(claims()).toStrictEqual(["a(false)"]);
  });

  it("leaves a warning when nobody knows whether the node delivered", async () => {
    const { nodes, store, logger } = fleet({ a: 5 });
    nodes.node("a:7777").always("claim", staysSilent());
    const caller = new AbortController();
    const claim = store.claim("ns", "s", POOL, { signal: caller.signal });
    await vi.waitFor(() => expect(nodes.calls).toHaveLength(1));
    caller.abort();
    await expect(claim).rejects.toMatchObject({ code: "aborted" });
    await store.settled();
    expect(logger.lines).toMatchObject([{ level: "warn", fields: { node: "a" } }]);
  });

  it("is not claimed for at a redirect target, whatever the client makes of its signal", async () => {
    const { source, nodes } = fleet({ a: 5, b: 5 });
    const caller = new AbortController();
    const asked: string[] = [];
    const store = createStore(source, {
      random: () => 0,
      clients: {
        failure: (error) => nodes.failure(error),
        forAddress: (address) =>
          Object.assign(Object.create(nodes.node(address)) as NodeClient, {
            claim: async (): Promise<NodeClaimReply> => {
              asked.push(address);
              caller.abort();
              return { kind: "redirect", targets: ["b:7777"], requirePromoted: false };
            },
          }),
      },
    });
    await expect(store.claim("ns", "s", POOL, { signal: caller.signal })).rejects.toMatchObject({ code: "aborted" });
    await store.settled();
    expect(asked).toStrictEqual(["a:7777"]);
  });

  it("asks nobody when it left before the claim", async () => {
    const { nodes, store } = fleet({ a: 5 });
    await expect(store.claim("ns", "s", POOL, { signal: AbortSignal.abort() })).rejects.toSatisfy((error) =>
      isScaleError(error, "aborted"),
    );
    expect(nodes.calls).toStrictEqual([]);
  });

  it("leaves no listener behind on a signal that outlives the claim", async () => {
    const { store } = fleet({ a: 5 });
    const caller = new AbortController();
    const add = vi.spyOn(caller.signal, "addEventListener");
    const remove = vi.spyOn(caller.signal, "removeEventListener");
    await store.claim("ns", "s", POOL, { signal: caller.signal });
    expect(add.mock.calls.length).toBeGreaterThan(0);
    expect(remove.mock.calls.length).toBeGreaterThanOrEqual(add.mock.calls.length);
  });
});
