import { describe, expect, it, vi } from "vitest";
import type { Logger, NodeFailure, SandboxStore } from "./ports.ts";
import { createStore } from "./store.ts";
import type { ScriptedNode, ScriptedStep } from "./testing/index.ts";
import { answers, fails, redirects, ScriptedNodes, StaticInventorySource } from "./testing/index.ts";

const ID = "sb_00000000000000aa";
const FULL: NodeFailure = { kind: "status", status: 429, nodeMessage: "node draining" };

interface Fleet {
  readonly nodes: ScriptedNodes;
  readonly a: ScriptedNode;
  readonly source: StaticInventorySource;
  readonly store: SandboxStore;
  readonly messages: string[];
  /** Claims of snapshots in the order the nodes saw them, `(true)` for those that must not be redirected. */
  readonly claims: () => string[];
  /** A snapshot of a sandbox on node a. */
  readonly snapshotId: string;
}

/** Nodes a, b and c; a holds a sandbox and a snapshot of it. */
async function fleet(): Promise<Fleet> {
  const nodes = new ScriptedNodes();
  const source = new StaticInventorySource(["a", "b", "c"].map((node) => ({ node, address: `${node}:7777` })));
  const a = nodes.node("a:7777");
  a.hold({
    archived: false,
    entry: { name: "ns/parent", id: ID, phase: "Running", template: "rt", net: "none", size: "large" },
  });
  const messages: string[] = [];
  const log = (_fields: object, message: string): void => void messages.push(message);
  const logger: Logger = { debug: log, info: log, warn: log, error: log };
  const store = createStore(source, { clients: nodes, logger });
  const { id: snapshotId } = await store.snapshot("ns", "a", ID, "snap");
  nodes.calls.length = 0;
  return {
    nodes,
    a,
    source,
    store,
    messages,
    snapshotId,
    claims: () =>
      nodes.calls
        .filter((call) => call.verb === "claimCheckpoint")
        .map((call) => `${call.address.split(":")[0]}(${call.checkpointClaim?.noRedirect === true})`),
  };
}

/** Delivers a sandbox whose row does not bear the name of the claim, as nodes do that take none. */
function deliversUnnamed(node: ScriptedNode): ScriptedStep {
  return () => {
    const id = "sb_00000000000000c1";
    node.hold({ archived: false, token: "t", entry: { name: id, id, phase: "Running", claimRef: id } });
    return { kind: "delivered", id, token: "t" };
  };
}

describe("a claim of a snapshot", () => {
  it("goes to the node that holds it, with its name, and is read back", async () => {
    const { nodes, store, snapshotId } = await fleet();
    const options = { ttlSeconds: 60, metadata: { k: "v" }, onExpire: "archive", promoted: true } as const;
    const assignment = await store.claimSnapshot("ns", "copy", "a", snapshotId, options);
    expect(nodes.calls.map((call) => `${call.address} ${call.verb} ${call.id}`)).toStrictEqual([
      `a:7777 claimCheckpoint ${snapshotId}`,
      `a:7777 sandbox ${assignment.id}`,
    ]);
    expect(nodes.calls[0]?.checkpointClaim).toStrictEqual({
      claimRef: "ns/copy",
      ttlSeconds: 60,
      metadata: { k: "v" },
      onExpire: "archive",
    });
    expect(assignment).toMatchObject({
      node: "a",
      address: "a:7777",
      token: expect.stringMatching(/./),
      claimRef: "ns/copy",
      fromCheckpoint: snapshotId,
    });
  });

  it("is seen at once, as what the snapshot was made of", async () => {
    const { store, snapshotId } = await fleet();
    const { id } = await store.claimSnapshot("ns", "copy", "a", snapshotId, { metadata: { k: "v" } });
    const shown = { id, node: "a", name: "copy", template: "rt", size: "large", metadata: { k: "v" } };
    await expect(store.get("ns", "copy")).resolves.toMatchObject(shown);
    expect(store.list({ namespace: "ns" })).toMatchObject([shown]);
  });

  it("follows one redirect, to a node that inventory knows", async () => {
    const { store, claims, messages, snapshotId, source } = await fleet();
    await expect(store.claimSnapshot("ns", "copy", "b", snapshotId)).resolves.toMatchObject({ node: "a" });
    expect(claims()).toStrictEqual(["b(false)", "a(true)"]);
    expect(messages).toContainEqual(expect.stringMatching(/^claim followed a redirect from=b node=a id=sb_/));
    source.remove("a");
    await expect(store.claimSnapshot("ns", "copy", "b", snapshotId)).rejects.toMatchObject({
      code: "no_warm_capacity",
    });
    expect(claims()).toStrictEqual(["b(false)", "a(true)", "b(false)"]);
    expect(messages.at(-1)).toBe("redirect target is no known node; skipping from=b target=a:7777");
  });

  it.each([
    ["is full", fails(FULL)],
    ["has lost it", answers(404, "unknown checkpoint")],
    ["fails", answers(500)],
    ["cannot be reached", fails({ kind: "unsent" })],
    ["redirects again", redirects(["b:7777"])],
    ["delivers nothing", (): unknown => ({ kind: "empty" })],
  ])("asks the next target when one %s", async (_case, step) => {
    const { nodes, store, claims, snapshotId } = await fleet();
    nodes.node("b:7777").always("claimCheckpoint", redirects(["c:7777", "a:7777"]));
    nodes.node("c:7777").always("claimCheckpoint", step);
    await expect(store.claimSnapshot("ns", "copy", "b", snapshotId)).resolves.toMatchObject({ node: "a" });
    expect(claims()).toStrictEqual(["b(false)", "c(true)", "a(true)"]);
  });

  it.each([
    ["times out", fails({ kind: "uncertain" }), "claim_failed"],
    ["refuses", answers(409, "egress-lane"), "claim_refused"],
  ])("ends when a target %s: it is not asked for twice", async (_case, step, code) => {
    const { nodes, store, claims, snapshotId } = await fleet();
    nodes.node("b:7777").always("claimCheckpoint", redirects(["c:7777", "a:7777"]));
    nodes.node("c:7777").always("claimCheckpoint", step);
    await expect(store.claimSnapshot("ns", "copy", "b", snapshotId)).rejects.toMatchObject({ code, node: "c" });
    expect(claims()).toStrictEqual(["b(false)", "c(true)"]);
  });

  it.each([
    ["404", answers(404, "unknown checkpoint"), "not_found", 404],
    ["429", fails(FULL), "no_warm_capacity", undefined],
    ["503", answers(503, "heal busy"), "no_warm_capacity", undefined],
    ["refused connection", fails({ kind: "unsent" }), "no_warm_capacity", undefined],
    ["empty answer", (): unknown => ({ kind: "empty" }), "no_warm_capacity", undefined],
    ["400", answers(400, "too much metadata"), "claim_refused", 400],
    ["401", answers(401), "claim_refused", 401],
    ["409", answers(409, "egress-lane"), "claim_refused", 409],
    ["lost reply", fails({ kind: "uncertain" }), "claim_failed", undefined],
  ] as const)("makes of a %s of the holding node what it is", async (_case, step, code, status) => {
    const { a, store, nodes, snapshotId } = await fleet();
    a.always("claimCheckpoint", step);
    await expect(store.claimSnapshot("ns", "copy", "a", snapshotId)).rejects.toMatchObject({
      code,
      status,
      message: expect.stringContaining('on node "a"'),
    });
    expect(nodes.calls).toHaveLength(1);
  });

  it.each(["ns", "default"])(
    "is released and refused in %s when the node does not take its name",
    async (namespace) => {
      const { a, store, snapshotId } = await fleet();
      a.script("claimCheckpoint", deliversUnnamed(a));
      await expect(store.claimSnapshot(namespace, "copy", "a", snapshotId)).rejects.toMatchObject({
        code: "bad_request",
        node: "a",
        message: expect.stringContaining("too old"),
      });
      expect(a.sandboxes.map((row) => row.entry.id)).toStrictEqual([ID]);
      expect(store.list()).toStrictEqual([]);
    },
  );

  it("leaves a warning when a sandbox without its name cannot be released", async () => {
    const { a, store, messages, snapshotId } = await fleet();
    a.script("claimCheckpoint", deliversUnnamed(a)).always("release", answers(503));
    await expect(store.claimSnapshot("ns", "copy", "a", snapshotId)).rejects.toMatchObject({ code: "bad_request" });
    expect(messages).toContain("a sandbox that nobody will use was not released; it lives until its lease ends");
  });

  it.each([
    ["does not answer", fails({ kind: "uncertain" })],
    ["does not know it", (): unknown => undefined],
  ])("is released when its node %s when it is read back", async (_case, step) => {
    const { a, store, snapshotId } = await fleet();
    a.script("sandbox", step);
    await expect(store.claimSnapshot("ns", "copy", "a", snapshotId)).rejects.toMatchObject({ code: "node_failed" });
    expect(a.sandboxes).toHaveLength(1);
  });

  it("of a caller that left is released", async () => {
    const { a, store, nodes, snapshotId } = await fleet();
    const answer = Promise.withResolvers<void>();
    a.script("sandbox", async () => {
      await answer.promise;
      return a.sandboxes.at(-1);
    });
    const caller = new AbortController();
    const claim = store.claimSnapshot("ns", "copy", "a", snapshotId, { signal: caller.signal });
    await vi.waitFor(() => expect(nodes.calls).toHaveLength(2));
    caller.abort(new Error("gone"));
    await expect(claim).rejects.toMatchObject({ code: "aborted", cause: new Error("gone") });
    answer.resolve();
    await store.settled();
    expect(a.sandboxes.map((row) => row.entry.id)).toStrictEqual([ID]);
    expect(store.list()).toStrictEqual([]);
  });

  it("whose reply was lost is released when inventory shows it, if its name was its own", async () => {
    vi.useFakeTimers();
    try {
      const { a, source, store, snapshotId } = await fleet();
      a.script("claimCheckpoint", fails({ kind: "uncertain" }));
      const claim = store.claimSnapshot("ns", "copy", "a", snapshotId, { uniqueName: true });
      await expect(claim).rejects.toMatchObject({ code: "claim_failed" });
      const entry = { name: "ns/copy", claimRef: "ns/copy", id: "sb_00000000000000c1", phase: "Running" } as const;
      a.hold({ archived: false, entry });
      source.put(a.inventory({ node: "a" }));
      await vi.advanceTimersByTimeAsync(2000);
      await store.settled();
      expect(a.sandboxes.map((row) => row.entry.id)).toStrictEqual([ID]);
    } finally {
      vi.useRealTimers();
    }
  });

  it.each([
    ["without a namespace", { namespace: "" }, "bad_request"],
    ["in a namespace with a slash", { namespace: "n/s" }, "bad_request"],
    ["without a name", { name: "" }, "bad_request"],
    ["without a snapshot", { snapshotId: "" }, "bad_request"],
    ["without a node", { node: "" }, "bad_request"],
    ["with half a second's lease", { options: { ttlSeconds: 0.5 } }, "bad_request"],
    ["with its way out closed", { options: { noEgress: true } }, "bad_request"],
    ["on an unknown node", { node: "nowhere" }, "not_found"],
    ["whose caller left before", { options: { signal: AbortSignal.abort() } }, "aborted"],
  ])("%s asks nobody", async (_case, change, code) => {
    const { store, nodes } = await fleet();
    const asked = { namespace: "ns", name: "copy", node: "a", snapshotId: "ck_1", options: {}, ...change };
    const claim = store.claimSnapshot(asked.namespace, asked.name, asked.node, asked.snapshotId, asked.options);
    await expect(claim).rejects.toMatchObject({ code });
    expect(nodes.calls).toStrictEqual([]);
  });

  it("is not configured without node clients", async () => {
    const store = createStore(new StaticInventorySource([{ node: "a" }]));
    await expect(store.claimSnapshot("ns", "copy", "a", "ck_1")).rejects.toMatchObject({ code: "routing_disabled" });
  });
});
