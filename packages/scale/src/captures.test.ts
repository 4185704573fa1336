import * as fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import type { Logger, NodeSandbox, SandboxStore } from "./ports.ts";
import { nameWithin, stampedName } from "./snapshot-names.ts";
import { createStore } from "./store.ts";
import type { ScriptedNode, ScriptedStep } from "./testing/index.ts";
import { answers, fails, ScriptedNodes, StaticInventorySource } from "./testing/index.ts";

const ID = "sb_00000000000000aa";
const ADDRESS = "a:7777";

interface Fleet {
  readonly nodes: ScriptedNodes;
  readonly node: ScriptedNode;
  readonly source: StaticInventorySource;
  readonly store: SandboxStore;
  readonly warnings: string[];
  /** The calls so far, by verb and id. */
  readonly calls: () => string[];
  /** Publishes what the node holds. */
  readonly publish: () => void;
}

function fleet(): Fleet {
  const nodes = new ScriptedNodes();
  const node = nodes.node(ADDRESS);
  const source = new StaticInventorySource();
  node.hold({
    archived: false,
    token: "secret",
    entry: {
      name: "team-a/parent",
      id: ID,
      phase: "Running",
      template: "rt",
      net: "none",
      size: "large",
      claimRef: "team-a/parent",
      metadata: { k: "v" },
    },
  });
  const publish = (): void => source.put(node.inventory({ node: "key" }));
  publish();
  const warnings: string[] = [];
  const logger: Logger = { debug() {}, info() {}, warn: (_fields, message) => warnings.push(message), error() {} };
  return {
    nodes,
    node,
    source,
    store: createStore(source, { clients: nodes, logger }),
    warnings,
    calls: () => nodes.calls.map((call) => `${call.verb} ${call.id ?? ""}`.trim()),
    publish,
  };
}

/** Delivers children whose rows do not bear the names that were asked for. */
function forksUnnamed(node: ScriptedNode, ids: readonly string[]): ScriptedStep {
  return () =>
    ids.map((id) => {
      node.hold({ archived: false, token: "t", entry: { name: id, id, phase: "Running", claimRef: id } });
      return { kind: "delivered", id, token: "t" };
    });
}

const ids = (rows: readonly NodeSandbox[]): readonly string[] => rows.map((row) => row.entry.id);

describe("fork", () => {
  it("V5: sends count, lease and the namespace as prefix, and names the children by their ids", async () => {
    const { store, nodes, calls } = fleet();
    const children = await store.fork("team-a", "key", ID, { count: 3, ttlSeconds: 60, onExpire: "archive" });
    expect(nodes.calls[0]).toMatchObject({ address: ADDRESS, verb: "fork", id: ID });
    expect(nodes.calls[0]?.fork).toStrictEqual({
      count: 3,
      ttlSeconds: 60,
      claimRefPrefix: "team-a/",
      onExpire: "archive",
    });
    expect(new Set(children.map((child) => child.id)).size).toBe(3);
    for (const child of children) {
      expect(child).toMatchObject({
        node: "key",
        address: ADDRESS,
        token: expect.stringMatching(/./),
        claimRef: `team-a/${child.id}`,
        fromCheckpoint: undefined,
      });
    }
    expect(calls()).toStrictEqual([`fork ${ID}`, `sandbox ${children[0]?.id}`]);
  });

  it("shows each child with the lease that it was granted", async () => {
    const { store, node } = fleet();
    const some = ["sb_00000000000000c1", "sb_00000000000000c2"];
    const granted = new Map(some.map((id, at) => [id, new Date(Date.UTC(2030, 0, 1 + at))]));
    node.script("fork", () =>
      some.map((id) => {
        const name = `team-a/${id}`;
        node.hold({
          archived: false,
          token: "t",
          entry: { name, id, phase: "Running", claimRef: name, deadline: granted.get(id) },
        });
        return { kind: "delivered", id, token: "t", deadline: granted.get(id) };
      }),
    );
    const children = await store.fork("team-a", "key", ID, { count: 2 });
    expect(children.map(({ deadline }) => deadline)).toStrictEqual([...granted.values()]);
    const shown = store.list({ namespace: "team-a" }).filter(({ id }) => id !== ID);
    expect(shown.map(({ id, deadline }) => [id, deadline])).toStrictEqual([...granted]);
  });

  it("hands the caller's signal on: only before the request is it of use", async () => {
    const { store, nodes } = fleet();
    const { signal } = new AbortController();
    await store.fork("team-a", "key", ID, { count: 1 }, { signal });
    expect(nodes.calls[0]?.signal).toBe(signal);
  });

  it("shows the children at once, and finds them where their parent is once inventory is young", async () => {
    const { store, source, nodes, node } = fleet();
    source.put({ node: "other" });
    const [child] = await store.fork("team-a", "key", ID, { count: 2 });
    const id = child?.id ?? "";
    expect(store.list({ namespace: "team-a" }).map((sandbox) => sandbox.name)).toContain(id);
    const shown = { id, node: "key", name: id, template: "rt", size: "large", metadata: { k: "v" }, phase: "Running" };
    await expect(store.get("team-a", id)).resolves.toMatchObject(shown);
    await expect(store.getByClaimId("", id, (claimId) => claimId === id)).resolves.toMatchObject(shown);
    // A view that is younger than the fork and does not list the child: only the hint is left.
    source.put({ node: "key", address: ADDRESS, entries: [] });
    nodes.calls.length = 0;
    await store.get("team-a", id);
    await store.getByClaimId("team-a", id, (claimId) => claimId === id);
    await store.getByClaimId("", id, (claimId) => claimId === id);
    expect(nodes.calls.map((call) => call.address)).toStrictEqual([ADDRESS, ADDRESS, ADDRESS]);
    expect(node.sandboxes).toHaveLength(3);
  });

  it.each([0, -1, 1.5, Number.NaN])("refuses the count %d before any call", async (count) => {
    const { store, nodes } = fleet();
    await expect(store.fork("team-a", "key", ID, { count })).rejects.toMatchObject({ code: "bad_request" });
    expect(nodes.calls).toStrictEqual([]);
  });

  it.each([
    ["", 0],
    ["a/b", 0],
    ["team-a", -1],
    ["team-a", 0.5],
  ])("refuses the namespace %j with the lease %d before any call", async (namespace, ttlSeconds) => {
    const { store, nodes } = fleet();
    await expect(store.fork(namespace, "key", ID, { count: 1, ttlSeconds })).rejects.toMatchObject({
      code: "bad_request",
    });
    expect(nodes.calls).toStrictEqual([]);
  });

  it("passes on what the node makes of a count it does not take", async () => {
    const { store, node } = fleet();
    const refused = store.fork("team-a", "key", ID, { count: 17 });
    await expect(refused).rejects.toMatchObject({ code: "node_refused", status: 400 });
    expect(node.sandboxes).toHaveLength(1);
  });

  it.each([1, 3])("releases all children when a node makes %d of 2", async (made) => {
    const { store, node } = fleet();
    const some = Array.from({ length: made }, (_, at) => `sb_00000000000000c${at}`);
    node.script("fork", forksUnnamed(node, some));
    await expect(store.fork("team-a", "key", ID, { count: 2 })).rejects.toMatchObject({
      code: "node_failed",
      message: expect.stringContaining(`${made} children instead of 2`),
    });
    expect(ids(node.sandboxes)).toStrictEqual([ID]);
  });

  it("releases all children of a node that is too old to name them, and says so", async () => {
    const { store, node } = fleet();
    node.script("fork", forksUnnamed(node, ["sb_00000000000000c1", "sb_00000000000000c2"]));
    await expect(store.fork("team-a", "key", ID, { count: 2 })).rejects.toMatchObject({
      code: "bad_request",
      node: "key",
      message: expect.stringContaining("too old"),
    });
    expect(ids(node.sandboxes)).toStrictEqual([ID]);
    expect(store.list({ namespace: "default" })).toStrictEqual([]);
  });

  it("takes unnamed children in the namespace in which such sandboxes lie", async () => {
    const { store, node } = fleet();
    node.script("fork", forksUnnamed(node, ["sb_00000000000000c1"]));
    await expect(store.fork("default", "key", ID, { count: 1 })).resolves.toMatchObject([
      { id: "sb_00000000000000c1", claimRef: "default/sb_00000000000000c1" },
    ]);
  });

  it.each([
    ["does not answer", fails({ kind: "uncertain" })],
    ["fails", answers(500)],
    ["says they are gone", () => undefined],
    ["shows another sandbox", () => ({ archived: false, entry: { name: "x/y", id: "sb_9", phase: "Running" } })],
  ])("releases the children when their node %s when asked for one of them", async (_case, step) => {
    const { store, node } = fleet();
    node.script("sandbox", step);
    await expect(store.fork("team-a", "key", ID, { count: 2 })).rejects.toMatchObject({ code: "node_failed" });
    expect(ids(node.sandboxes)).toStrictEqual([ID]);
  });

  it("releases the children of a caller that left meanwhile", async () => {
    const { store, node, nodes, warnings } = fleet();
    const sent = Promise.withResolvers<void>();
    node.script("fork", async () => {
      await sent.promise;
      return forksUnnamed(node, ["sb_00000000000000c1", "sb_00000000000000c2"])(nodes.calls[0] as never);
    });
    const caller = new AbortController();
    const fork = store.fork("default", "key", ID, { count: 2 }, { signal: caller.signal });
    await vi.waitFor(() => expect(nodes.calls).toHaveLength(1));
    caller.abort(new Error("gone"));
    await expect(fork).rejects.toMatchObject({ code: "aborted", cause: new Error("gone") });
    sent.resolve();
    await store.settled();
    expect(ids(node.sandboxes)).toStrictEqual([ID]);
    expect(warnings).toStrictEqual([]);
    expect(store.list({ namespace: "default" })).toStrictEqual([]);
  });

  it("warns when a caller left and nobody knows whether the node forked", async () => {
    const { store, node, nodes, warnings } = fleet();
    const answer = Promise.withResolvers<void>();
    node.script("fork", async (call) => {
      await answer.promise;
      return fails({ kind: "uncertain" })(call);
    });
    const caller = new AbortController();
    const fork = store.fork("team-a", "key", ID, { count: 1 }, { signal: caller.signal });
    await vi.waitFor(() => expect(nodes.calls).toHaveLength(1));
    caller.abort();
    await expect(fork).rejects.toMatchObject({ code: "aborted" });
    answer.resolve();
    await store.settled();
    expect(warnings).toHaveLength(1);
  });
});

describe("snapshot", () => {
  it("stamps the name with the namespace and gives it back without", async () => {
    const { store, nodes } = fleet();
    const snapshot = await store.snapshot("team-a", "key", ID, "before-upgrade:1");
    expect(nodes.calls).toMatchObject([{ verb: "checkpoint", id: ID, name: "team-a/before-upgrade:1" }]);
    expect(snapshot).toMatchObject({
      id: expect.stringMatching(/^ck_/),
      name: "before-upgrade:1",
      sandboxId: ID,
      node: "key",
      pool: { template: "rt", net: "none", size: "large" },
      createdAt: expect.any(Date),
    });
  });

  it("goes on without its caller: the node would carry it out anyway", async () => {
    const { store, node, nodes } = fleet();
    const caller = new AbortController();
    const snapshot = store.snapshot("team-a", "key", ID, "x", { signal: caller.signal });
    expect(nodes.calls[0]?.signal).toBeUndefined();
    caller.abort();
    await expect(snapshot).rejects.toMatchObject({ code: "aborted" });
    await store.settled();
    expect(await node.checkpoints()).toHaveLength(1);
  });

  it("V6: of a name that is too long with its namespace is refused, with the room there is", async () => {
    const { store, nodes } = fleet();
    await expect(store.snapshot("team-a", "key", ID, "x".repeat(56))).resolves.toMatchObject({ name: "x".repeat(56) });
    nodes.calls.length = 0;
    await expect(store.snapshot("team-a", "key", ID, "x".repeat(57))).rejects.toMatchObject({
      code: "bad_request",
      message: expect.stringMatching(/namespace "team-a".* at most 56 /),
    });
    expect(nodes.calls).toStrictEqual([]);
  });

  it.each(["a b", "ä", "a\n", "a?b", "x\u0000"])("V6: of the name %j is refused, with the room", async (name) => {
    const { store, nodes } = fleet();
    await expect(store.snapshot("team-a", "key", ID, name)).rejects.toMatchObject({
      code: "bad_request",
      message: expect.stringContaining("at most 56"),
    });
    expect(nodes.calls).toStrictEqual([]);
  });

  it("V6: without a name is stamped with the namespace alone, and has none when it is listed", async () => {
    const { store, nodes } = fleet();
    await expect(store.snapshot("team-a", "key", ID, "")).resolves.toMatchObject({ name: "" });
    expect(nodes.calls).toMatchObject([{ verb: "checkpoint", id: ID, name: "team-a/" }]);
    await expect(store.snapshots("team-a", "key")).resolves.toMatchObject([{ name: "" }]);
    await expect(store.snapshots("team", "key")).resolves.toStrictEqual([]);
  });

  it.each(["-x", "ä", "", "a/b", "n".repeat(63)])("V6: in the namespace %j is refused", async (namespace) => {
    const { store } = fleet();
    await expect(store.snapshot(namespace, "key", ID, "x")).rejects.toMatchObject({ code: "bad_request" });
  });
});

describe("snapshots", () => {
  it("V6: shows a namespace its own, without the prefix, and leaves the others' alone", async () => {
    const { store, node } = fleet();
    const at = (day: number): Date => new Date(Date.UTC(2026, 0, day));
    const held = (id: string, name: string, createdAt?: Date): object => ({
      id,
      name,
      sandboxId: ID,
      pool: { template: "rt" },
      createdAt,
    });
    node.always("checkpoints", () => [
      held("ck_1", "team-a/old", at(1)),
      held("ck_2", "team-b/x", at(2)),
      held("ck_3", "team-a/new/er", at(3)),
      held("ck_4", "team-ab/x", at(4)),
      held("ck_5", "bare", at(5)),
      held("ck_6", "", at(6)),
      held("ck_7", "team-a/undated"),
      held("ck_8", "other/team-a/x", at(7)),
    ]);
    const own = await store.snapshots("team-a", "key");
    expect(own.map(({ id, name, node: where }) => `${id} ${name} ${where}`)).toStrictEqual([
      "ck_3 new/er key",
      "ck_1 old key",
      "ck_7 undated key",
    ]);
    await expect(store.snapshots("team-c", "key")).resolves.toStrictEqual([]);
  });

  it("V6: a stamped name comes back in its own namespace and in no other", () => {
    const word = fc.stringMatching(/^[a-zA-Z0-9][a-zA-Z0-9._-]{0,20}$/);
    const name = fc.stringMatching(/^[a-zA-Z0-9._:/-]{1,30}$/);
    fc.assert(
      fc.property(word, word, name, (namespace, other, short) => {
        const stamped = stampedName(namespace, short);
        expect(stamped).toMatch(/^[a-zA-Z0-9][a-zA-Z0-9._:/-]{0,62}$/);
        expect(nameWithin(namespace, stamped)).toBe(short);
        expect(nameWithin(other, stamped)).toBe(other === namespace ? short : undefined);
      }),
    );
  });

  it("V6: a name is stamped or refused, never sent in another form", () => {
    fc.assert(
      fc.property(fc.string(), fc.string({ maxLength: 80 }), (namespace, name) => {
        let stamped: string;
        try {
          stamped = stampedName(namespace, name);
        } catch (error) {
          expect(error).toMatchObject({ code: "bad_request" });
          return;
        }
        expect(stamped).toBe(`${namespace}/${name}`);
        expect(stamped).toMatch(/^[a-zA-Z0-9][a-zA-Z0-9._:/-]{0,62}$/);
      }),
    );
  });

  it("are deleted, also twice", async () => {
    const { store } = fleet();
    const { id } = await store.snapshot("team-a", "key", ID, "x");
    await store.deleteSnapshot("key", id);
    await store.deleteSnapshot("key", id);
    await expect(store.snapshots("team-a", "key")).resolves.toStrictEqual([]);
  });
});

describe("templates", () => {
  it("are promoted, listed, labelled and deleted on one node", async () => {
    const { store, nodes } = fleet();
    const { key, contentDigest } = await store.promote("key", ID, "mine");
    expect(key).toStrictEqual({ template: "mine", net: "none", size: "large" });
    expect(contentDigest).toMatch(/^sha256:[0-9a-f]{64}$/);
    await store.setTemplateLabels("key", key, { tier: "gold" }, contentDigest);
    await expect(store.nodeTemplates("key")).resolves.toMatchObject([
      { ...key, contentDigest, labels: { tier: "gold" } },
    ]);
    await expect(store.deleteTemplate("key", key, "sha256:00")).rejects.toMatchObject({
      code: "node_refused",
      status: 412,
    });
    await expect(store.setTemplateLabels("key", key, {}, "sha256:00")).rejects.toMatchObject({ status: 412 });
    await store.deleteTemplate("key", key, contentDigest);
    await expect(store.deleteTemplate("key", key)).resolves.toBeUndefined();
    await expect(store.nodeTemplates("key")).resolves.toStrictEqual([]);
    expect(nodes.calls.find((call) => call.verb === "deleteTemplate")).toMatchObject({ key, digest: "sha256:00" });
  });

  it("that a node promoted are published with its inventory", async () => {
    const { store, node, publish } = fleet();
    const { key } = await store.promote("key", ID, "mine");
    publish();
    await expect(store.claim("team-a", "x", key, { promoted: true })).resolves.toMatchObject({ node: "key" });
    expect(node.sandboxes).toHaveLength(2);
  });
});

describe("instance metadata", () => {
  it("reaches the node byte for byte", async () => {
    const { store, node } = fleet();
    const document = Buffer.from('{ "a" : 1,\n"a":"\\u00e4" }');
    await store.setInstanceMetadata("key", ID, document);
    expect(node.instanceMetadata(ID)).toStrictEqual(new Uint8Array(document));
  });

  it("of a paused sandbox is refused", async () => {
    const { store } = fleet();
    await store.pause("key", ID);
    await expect(store.setInstanceMetadata("key", ID, Buffer.from("{}"))).rejects.toMatchObject({
      code: "node_refused",
      status: 409,
    });
  });
});
