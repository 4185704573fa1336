import { describe, expect, it, vi } from "vitest";
import type { InventoryEntry } from "./domain.ts";
import type { Logger, SandboxStore, SelectOptions } from "./ports.ts";
import { createStore } from "./store.ts";
import { ScriptedNodes, StaticInventorySource } from "./testing/index.ts";

const POOL = { template: "rt", warm: 9, target: 9 };
const PREFIX = "sandbox.cocoonstack.io";

function entry(id: string, name: string, more: Partial<InventoryEntry> = {}): InventoryEntry {
  return { name, id, phase: "Running", template: "rt", claimRef: name, ...more };
}

function fleet(
  views: Readonly<Record<string, readonly InventoryEntry[]>>,
  logger?: Logger,
): { readonly source: StaticInventorySource; readonly nodes: ScriptedNodes; readonly store: SandboxStore } {
  const nodes = new ScriptedNodes();
  const source = new StaticInventorySource(
    Object.entries(views).map(([node, entries]) => ({ node, entries, pools: [POOL] })),
  );
  return { source, nodes, store: createStore(source, { clients: nodes, logger }) };
}

const ids = async (store: SandboxStore, options?: SelectOptions): Promise<string[]> =>
  (await store.select(options)).map((sandbox) => sandbox.id);

describe("select", () => {
  const views = {
    b: [
      entry("sb_1", "n/b"),
      entry("sb_2", "n/a", { phase: "Hibernated", template: "other" }),
      entry("sb_3", "m/a"),
      entry("sb_4", "plain", { claimRef: undefined }),
    ],
    a: [entry("sb_5", "n/b"), entry("sb_6", "n/c", { template: undefined })],
  };

  it.each<[string, SelectOptions, string[]]>([
    ["everything, in order", {}, ["sb_4", "sb_3", "sb_2", "sb_1", "sb_5", "sb_6"]],
    ["a namespace", { namespace: "n" }, ["sb_2", "sb_1", "sb_5", "sb_6"]],
    [
      "no namespace",
      { namespace: "", labelSelector: "", fieldSelector: "" },
      ["sb_4", "sb_3", "sb_2", "sb_1", "sb_5", "sb_6"],
    ],
    ["a label on the phase", { labelSelector: `${PREFIX}/phase=Hibernated` }, ["sb_2"]],
    ["a label on the node", { labelSelector: `${PREFIX}/node=a` }, ["sb_5", "sb_6"]],
    ["a label on several nodes", { labelSelector: `${PREFIX}/node in (a, c)` }, ["sb_5", "sb_6"]],
    ["a label on other nodes", { labelSelector: `${PREFIX}/node!=b` }, ["sb_5", "sb_6"]],
    [
      "a label on the template",
      { labelSelector: `${PREFIX}/template in (rt,other),${PREFIX}/claim=a` },
      ["sb_3", "sb_2"],
    ],
    ["a missing label", { labelSelector: `!${PREFIX}/template` }, ["sb_6"]],
    ["an unknown label", { labelSelector: "app" }, []],
    ["a field on the namespace", { fieldSelector: "metadata.namespace=m" }, ["sb_3"]],
    ["a field on other namespaces", { fieldSelector: "metadata.namespace!=n" }, ["sb_4", "sb_3"]],
    ["a field on the node", { fieldSelector: "status.nodeName=b" }, ["sb_4", "sb_3", "sb_2", "sb_1"]],
    ["a field on node and namespace", { fieldSelector: "status.nodeName=b", namespace: "n" }, ["sb_2", "sb_1"]],
    ["a field on an unknown node", { fieldSelector: "status.nodeName=c" }, []],
    ["a field on the name in every namespace", { fieldSelector: "metadata.name=a" }, ["sb_3", "sb_2"]],
    ["a field on other names", { namespace: "n", fieldSelector: "metadata.name!=b" }, ["sb_2", "sb_6"]],
    ["fields that contradict the namespace", { namespace: "n", fieldSelector: "metadata.namespace=m" }, []],
    ["fields that contradict each other", { fieldSelector: "status.nodeName=a,status.nodeName=b" }, []],
    ["fields and labels", { fieldSelector: "status.nodeName=b", labelSelector: `${PREFIX}/claim=b` }, ["sb_1"]],
  ])("R2: honours %s", async (_case, options, selected) => {
    const { store, nodes } = fleet(views);
    await expect(ids(store, options)).resolves.toStrictEqual(selected);
    expect(nodes.calls).toStrictEqual([]);
  });

  it.each<[string, SelectOptions, string]>([
    ["a label selector that does not parse", { labelSelector: "a in" }, "label selector: expected '('"],
    ["an image as label value", { labelSelector: `${PREFIX}/template=rt:24.04` }, 'label selector: "rt:24.04"'],
    ["a field selector that does not parse", { fieldSelector: "metadata.name" }, 'field selector: "metadata.name"'],
    [
      "another field",
      { fieldSelector: "status.phase=Running" },
      'field selector: field "status.phase" is not supported',
    ],
  ])("R3: refuses %s, in a list as in a watch", async (_case, options, message) => {
    const { store, source } = fleet(views);
    const lists = vi.spyOn(source, "listNodes");
    const refusal = { code: "bad_request", message: expect.stringContaining(message) };
    await expect(store.select(options)).rejects.toMatchObject(refusal);
    expect(() => store.watch(options)).toThrow(expect.objectContaining(refusal));
    expect(lists).not.toHaveBeenCalled();
  });

  it("answers for one node without a look at the others", async () => {
    const { store, source } = fleet(views);
    const inventories = vi.spyOn(source, "nodeInventory");
    await ids(store, { fieldSelector: "status.nodeName=a" });
    await ids(store, { labelSelector: `${PREFIX}/node in (a)` });
    expect(new Set(inventories.mock.calls.map(([node]) => node))).toStrictEqual(new Set(["a"]));
  });

  it("shares the list of a namespace that it does not narrow", async () => {
    const { store } = fleet(views);
    await expect(store.select({ namespace: "n" })).resolves.toBe(store.list({ namespace: "n" }));
  });

  it("sees our own writes, also of one node alone", async () => {
    const { store } = fleet({ a: [entry("sb_0", "n/z")] });
    const { id } = await store.claim("n", "x", { template: "rt" });
    const onNode = { fieldSelector: "status.nodeName=a" };
    await expect(ids(store, onNode)).resolves.toStrictEqual([id, "sb_0"]);
    await store.pause("a", id);
    await expect(ids(store, { labelSelector: `${PREFIX}/phase=Hibernated` })).resolves.toStrictEqual([id]);
    await expect(ids(store, { ...onNode, labelSelector: `${PREFIX}/phase=Hibernated` })).resolves.toStrictEqual([id]);
    await store.release("a", id);
    await expect(ids(store, onNode)).resolves.toStrictEqual(["sb_0"]);
  });

  it("R4: goes on without a node that cannot be read, and says so", async () => {
    const lines: unknown[] = [];
    const logger: Logger = {
      debug: (fields, message) => lines.push([fields, message]),
      info() {},
      warn() {},
      error() {},
    };
    const { store, source } = fleet(views, logger);
    source.partition("a");
    await expect(ids(store, { fieldSelector: "status.nodeName=a" })).resolves.toStrictEqual([]);
    expect(lines).toStrictEqual([
      [
        { func: "scale.listInventories", node: "a" },
        "node inventory unavailable; omitting from list (eventual consistency) node=a",
      ],
    ]);
    await expect(ids(store, { labelSelector: `${PREFIX}/claim=b` })).resolves.toStrictEqual(["sb_1"]);
  });

  it("ends for a caller that has left", async () => {
    const { store } = fleet(views);
    const signal = AbortSignal.abort();
    await expect(store.select({ signal })).rejects.toMatchObject({ code: "aborted" });
    await expect(store.select({ signal, namespace: "n", fieldSelector: "metadata.name=b" })).rejects.toMatchObject({
      code: "aborted",
    });
  });
});

describe("select of one name", () => {
  const named = { namespace: "n", fieldSelector: "metadata.name=x" };

  it("R13: finds an unpublished claim, ours or another's", async () => {
    const { store, nodes } = fleet({ a: [], b: [] });
    nodes.node("b").hold({ entry: entry("sb_1", "n/x"), archived: false });
    await expect(ids(store, named)).resolves.toStrictEqual(["sb_1"]);
    const own = await store.claim("n", "y", { template: "rt" });
    await expect(ids(store, { namespace: "n", fieldSelector: "metadata.name==y" })).resolves.toStrictEqual([own.id]);
  });

  it.each<[string, SelectOptions]>([
    ["a label that does not match", { ...named, labelSelector: `${PREFIX}/phase=Hibernated` }],
    ["a field that does not match", { namespace: "n", fieldSelector: "metadata.name=x,status.nodeName=a" }],
    ["an absent name", { namespace: "n", fieldSelector: "metadata.name=z" }],
    ["another namespace", { namespace: "m", fieldSelector: "metadata.name=x" }],
    ["an empty name", { namespace: "n", fieldSelector: "metadata.name=" }],
    ["the whole fleet", {}],
    ["a name without a namespace", { fieldSelector: "metadata.name=x" }],
    ["a name that must not be", { namespace: "n", fieldSelector: "metadata.name!=y" }],
  ])("R13: finds nothing for %s", async (_case, options) => {
    const { store, nodes } = fleet({ a: [], b: [] });
    nodes.node("b").hold({ entry: entry("sb_1", "n/x"), archived: false });
    await expect(ids(store, options)).resolves.toStrictEqual([]);
  });

  it("finds the claim of a name that is selected, when another one comes first", async () => {
    const { store, source, nodes } = fleet({
      a: [entry("sb_1", "n/x", { phase: "Hibernated" })],
      b: [entry("sb_2", "n/x", { phase: "Broken" }), entry("sb_3", "n/x")],
    });
    const running = { ...named, labelSelector: `${PREFIX}/phase=Running` };
    await expect(ids(store, running)).resolves.toStrictEqual(["sb_3"]);
    source.remove("b");
    await expect(ids(store, running)).resolves.toStrictEqual([]);
    expect(nodes.calls).toStrictEqual([]);
  });

  it("takes our own writes into account when it chooses", async () => {
    const { store, nodes, source } = fleet({ a: [] });
    const { id } = await store.claim("n", "x", { template: "rt" });
    source.put(nodes.node("a").inventory({ pools: [POOL] }));
    await store.pause("a", id);
    await expect(ids(store, { ...named, labelSelector: `${PREFIX}/phase=Running` })).resolves.toStrictEqual([]);
    await expect(ids(store, { ...named, labelSelector: `${PREFIX}/phase!=Running` })).resolves.toStrictEqual([id]);
  });

  it("takes a listed claim of ours for what its node says of it", async () => {
    const { store, source } = fleet({ a: [] });
    const before = performance.now();
    const { id } = await store.claim("n", "x", { template: "rt" });
    // Read before we had the node's answer, and knows the sandbox all the same.
    source.put({ node: "a", entries: [entry(id, "n/x", { phase: "Hibernated" })], asOfMs: before });
    await expect(ids(store, { ...named, labelSelector: `${PREFIX}/phase=Running` })).resolves.toStrictEqual([]);
    await expect(ids(store, { ...named, labelSelector: `${PREFIX}/phase=Hibernated` })).resolves.toStrictEqual([id]);
  });

  it("lists at most one, and rejects when the source fails", async () => {
    const { store, source } = fleet({ a: [entry("sb_1", "n/x"), entry("sb_2", "n/x")] });
    await expect(ids(store, named)).resolves.toStrictEqual(["sb_1"]);
    await expect(ids(store, { namespace: "n" })).resolves.toHaveLength(2);
    vi.spyOn(source, "listNodes").mockImplementation(() => {
      throw new Error("no list");
    });
    await expect(ids(store, { ...named, fieldSelector: "metadata.name=other" })).rejects.toThrow("no list");
  });
});
