import { once } from "node:events";
import { duplexPair } from "node:stream";
import { describe, expect, it, vi } from "vitest";
import type { Logger, SandboxStore } from "./ports.ts";
import { createStore } from "./store.ts";
import type { ScriptedVerb } from "./testing/index.ts";
import { answers, fails, ScriptedNodes, StaticInventorySource, staysSilent } from "./testing/index.ts";

const ID = "sb_00000000000000aa";

function fleet(logger?: Logger): { nodes: ScriptedNodes; source: StaticInventorySource; store: SandboxStore } {
  const nodes = new ScriptedNodes();
  const source = new StaticInventorySource([{ node: "key", address: "a:7777" }]);
  nodes.node("a:7777").hold({
    archived: false,
    token: "secret",
    entry: { name: "n/x", id: ID, phase: "Running", deadline: new Date(1000) },
  });
  return { nodes, source, store: createStore(source, { clients: nodes, logger }) };
}

/** A verb by its name here, on the node and in messages. */
interface Verb {
  readonly verb: string;
  readonly onNode: ScriptedVerb;
  readonly said: string;
  readonly run: (store: SandboxStore, node: string, id: string, signal?: AbortSignal) => Promise<unknown>;
}

/** Verbs whose statuses are sorted. */
const SORTED: readonly Verb[] = [
  { verb: "pause", onNode: "hibernate", said: "hibernate", run: (s, n, i, signal) => s.pause(n, i, { signal }) },
  { verb: "resume", onNode: "wake", said: "wake", run: (s, n, i, signal) => s.resume(n, i, { signal }) },
  {
    verb: "renew",
    onNode: "renew",
    said: "renew",
    run: (s, n, i, signal) => s.renew(n, i, { ttlSeconds: 60 }, { signal }),
  },
  { verb: "read", onNode: "sandbox", said: "read", run: (s, n, i, signal) => s.read(n, i, { signal }) },
  {
    verb: "port",
    onNode: "dialPort",
    said: "port",
    run: (s, n, i, signal) => s.dialGuestPort(n, i, "secret", 80, { signal }),
  },
  {
    verb: "fork",
    onNode: "fork",
    said: "fork",
    run: (s, n, i, signal) => s.fork("n", n, i, { count: 1 }, { signal }),
  },
  {
    verb: "snapshot",
    onNode: "checkpoint",
    said: "checkpoint",
    run: (s, n, i, signal) => s.snapshot("n", n, i, "name", { signal }),
  },
  {
    verb: "promote",
    onNode: "promote",
    said: "promote",
    run: (s, n, i, signal) => s.promote(n, i, "mine", { signal }),
  },
  {
    verb: "setInstanceMetadata",
    onNode: "setInstanceMetadata",
    said: "instance metadata",
    run: (s, n, i, signal) => s.setInstanceMetadata(n, i, Buffer.from("{}"), { signal }),
  },
  {
    verb: "deleteTemplate",
    onNode: "deleteTemplate",
    said: "delete template",
    run: (s, n, i, signal) => s.deleteTemplate(n, { template: i }, undefined, { signal }),
  },
  {
    verb: "setTemplateLabels",
    onNode: "setTemplateLabels",
    said: "template labels",
    run: (s, n, i, signal) => s.setTemplateLabels(n, { template: i }, { k: "v" }, undefined, { signal }),
  },
];

/** Verbs of which every failure is the node's. */
const PLAIN: readonly Verb[] = [
  { verb: "release", onNode: "release", said: "release", run: (s, n, i, signal) => s.release(n, i, { signal }) },
  {
    verb: "deleteSnapshot",
    onNode: "deleteCheckpoint",
    said: "delete checkpoint",
    run: (s, n, i, signal) => s.deleteSnapshot(n, i, { signal }),
  },
];
const VERBS = [...SORTED, ...PLAIN];

/** Verbs about a node alone; they are plain too. */
const OF_NODES: readonly (Omit<Verb, "run"> & {
  readonly run: (store: SandboxStore, node: string, signal?: AbortSignal) => Promise<unknown>;
})[] = [
  {
    verb: "snapshots",
    onNode: "checkpoints",
    said: "checkpoints",
    run: (s, n, signal) => s.snapshots("n", n, { signal }),
  },
  {
    verb: "nodeTemplates",
    onNode: "templates",
    said: "templates",
    run: (s, n, signal) => s.nodeTemplates(n, { signal }),
  },
];

describe("every verb", () => {
  it.each(VERBS)("V8: $verb goes to the node's inventory address", async ({ onNode, run }) => {
    const { nodes, store } = fleet();
    nodes.node("a:7777").guest(80, (socket) => socket.end());
    // The node may refuse it: what counts is which node was asked, and for what.
    await run(store, "key", ID).catch(() => undefined);
    const [call] = nodes.calls;
    expect(call).toMatchObject({ address: "a:7777", verb: onNode });
    expect(call?.id ?? call?.key?.template).toBe(ID);
  });

  it.each(SORTED)("V1: $verb of a sandbox its node does not know is not found", async ({ onNode, said, run }) => {
    const { nodes, store } = fleet();
    nodes.node("a:7777").always(onNode, answers(404, "unknown sandbox"));
    await expect(run(store, "key", ID)).rejects.toMatchObject({
      code: "not_found",
      status: 404,
      message: `sandboxd ${said} of "${ID}" on node "key": unknown sandbox`,
    });
  });

  it.each(VERBS)("V1: a transport failure of $verb says nothing of the sandbox", async ({ onNode, run }) => {
    const { nodes, store } = fleet();
    nodes.node("a:7777").always(onNode, fails({ kind: "unsent", detail: "connect ECONNREFUSED" }));
    await expect(run(store, "key", ID)).rejects.toMatchObject({ code: "node_failed", status: undefined });
    nodes.node("a:7777").always(onNode, () => {
      throw new Error("foreign");
    });
    await expect(run(store, "key", ID)).rejects.toMatchObject({ code: "node_failed" });
  });

  it.each(SORTED.flatMap((verb) => [400, 401, 403, 409, 429].map((status) => ({ ...verb, status }))))(
    "V3: $verb keeps status $status and the node's reason",
    async ({ onNode, run, status }) => {
      const { nodes, store } = fleet();
      nodes.node("a:7777").always(onNode, answers(status, "the reason"));
      await expect(run(store, "key", ID)).rejects.toMatchObject({
        code: "node_refused",
        status,
        nodeMessage: "the reason",
        node: "key",
        id: ID,
      });
    },
  );

  it.each(PLAIN.flatMap((verb) => [400, 401, 403, 409, 412, 429, 503].map((status) => ({ ...verb, status }))))(
    "a $status of $verb is a failure of the node, with its status",
    async ({ onNode, said, run, status }) => {
      const { nodes, store } = fleet();
      nodes.node("a:7777").always(onNode, answers(status, "the reason"));
      await expect(run(store, "key", ID)).rejects.toMatchObject({
        code: "node_failed",
        status,
        message: `sandboxd ${said} of "${ID}" on node "key": the reason`,
      });
    },
  );

  it.each(VERBS)("V3: a 500 of $verb is neither a refusal nor a missing sandbox", async ({ onNode, run }) => {
    const { nodes, store } = fleet();
    nodes.node("a:7777").always(onNode, answers(500, "failed"));
    await expect(run(store, "key", ID)).rejects.toMatchObject({ code: "node_failed", status: 500 });
  });

  it.each(VERBS)("$verb checks its input before any call", async ({ run }) => {
    const { nodes, source, store } = fleet();
    source.put({ node: "homeless", address: "" });
    source.put({ node: "cut-off" });
    source.partition("cut-off");
    await expect(run(store, "key", "")).rejects.toMatchObject({ code: "bad_request" });
    await expect(run(store, "", ID)).rejects.toMatchObject({ code: "bad_request" });
    await expect(run(store, "unknown", ID)).rejects.toMatchObject({ code: "not_found" });
    await expect(run(store, "cut-off", ID)).rejects.toMatchObject({ code: "not_found" });
    await expect(run(store, "homeless", ID)).rejects.toMatchObject({ code: "node_failed" });
    await expect(run(createStore(source), "key", ID)).rejects.toMatchObject({ code: "routing_disabled" });
    await expect(run(store, "key", ID, AbortSignal.abort())).rejects.toMatchObject({ code: "aborted" });
    expect(nodes.calls).toStrictEqual([]);
  });

  it.each(VERBS)("$verb releases a caller that leaves", async ({ onNode, run }) => {
    const { nodes, store } = fleet();
    const answer = Promise.withResolvers<unknown>();
    nodes.node("a:7777").script(onNode, (call) => {
      call.signal?.addEventListener("abort", () => answer.reject(new Error("ended")));
      return answer.promise;
    });
    const caller = new AbortController();
    const call = run(store, "key", ID, caller.signal);
    await vi.waitFor(() => expect(nodes.calls).toHaveLength(1));
    caller.abort();
    await expect(call).rejects.toMatchObject({ code: "aborted" });
    answer.resolve(undefined);
    await store.settled();
  });
});

describe("every verb about a node", () => {
  it.each(OF_NODES.flatMap((verb) => [400, 401, 404, 409, 500, 503].map((status) => ({ ...verb, status }))))(
    "a $status of $verb is a failure of the node, with its status",
    async ({ onNode, said, run, status }) => {
      const { nodes, store } = fleet();
      nodes.node("a:7777").always(onNode, answers(status, "the reason"));
      await expect(run(store, "key")).rejects.toMatchObject({
        code: "node_failed",
        status,
        message: `sandboxd ${said} on node "key": the reason`,
      });
      expect(nodes.calls).toMatchObject([{ address: "a:7777", verb: onNode }]);
    },
  );

  it.each(OF_NODES)("$verb checks its input before any call, and ends with its caller", async ({ onNode, run }) => {
    const { nodes, source, store } = fleet();
    await expect(run(store, "")).rejects.toMatchObject({ code: "bad_request" });
    await expect(run(store, "unknown")).rejects.toMatchObject({ code: "not_found" });
    await expect(run(createStore(source), "key")).rejects.toMatchObject({ code: "routing_disabled" });
    await expect(run(store, "key", AbortSignal.abort())).rejects.toMatchObject({ code: "aborted" });
    expect(nodes.calls).toStrictEqual([]);
    nodes.node("a:7777").script(onNode, staysSilent());
    const caller = new AbortController();
    const call = run(store, "key", caller.signal);
    await vi.waitFor(() => expect(nodes.calls).toHaveLength(1));
    caller.abort();
    await expect(call).rejects.toMatchObject({ code: "aborted" });
  });
});

describe("release", () => {
  it("V7: succeeds for a sandbox that is gone already, with one call", async () => {
    const { nodes, store } = fleet();
    nodes.node("a:7777").script("release", answers(404, "unknown sandbox"));
    await expect(store.release("key", ID)).resolves.toBeUndefined();
    expect(nodes.calls).toHaveLength(1);
  });

  it.each([
    ["succeeds", undefined],
    ["finds it gone", answers(404)],
  ])("asks once more after a 500 and %s", async (_case, second) => {
    const { nodes, store } = fleet();
    nodes.node("a:7777").script("release", answers(500, "release failed"), ...(second === undefined ? [] : [second]));
    await expect(store.release("key", ID)).resolves.toBeUndefined();
    expect(nodes.calls).toHaveLength(2);
  });

  it.each([
    ["a 503", answers(503, "heal busy")],
    ["a lost reply", fails({ kind: "uncertain" })],
    ["a refused connection", fails({ kind: "unsent" })],
  ])("does not ask again after %s", async (_case, step) => {
    const { nodes, store } = fleet();
    nodes.node("a:7777").always("release", step);
    await expect(store.release("key", ID)).rejects.toMatchObject({ code: "node_failed" });
    expect(nodes.calls).toHaveLength(1);
  });

  it("fails when the second answer is a 500 as well", async () => {
    const { nodes, store } = fleet();
    const released = vi.fn();
    store.onReleased(released);
    nodes.node("a:7777").always("release", answers(500, "release failed"));
    await expect(store.release("key", ID)).rejects.toMatchObject({ code: "node_failed", status: 500 });
    expect(nodes.calls).toHaveLength(2);
    expect(released).not.toHaveBeenCalled();
  });

  it("fails, and hides nothing, when the node left the inventory", async () => {
    const { store } = fleet();
    await expect(store.release("unknown", ID)).rejects.toMatchObject({ code: "not_found" });
  });

  it("tells its listeners, whatever one of them does, until they unsubscribe", async () => {
    const errors: string[] = [];
    const logger: Logger = { debug() {}, info() {}, warn() {}, error: (_fields, message) => errors.push(message) };
    const { store } = fleet(logger);
    const first = vi.fn(() => {
      throw new Error("broken listener");
    });
    const second = vi.fn();
    const stopFirst = store.onReleased(first);
    store.onReleased(second);
    const stopTwin = store.onReleased(second);
    stopTwin();
    await store.release("key", ID);
    expect(first).toHaveBeenCalledWith("key", ID);
    expect(second.mock.calls).toStrictEqual([["key", ID]]);
    expect(errors).toHaveLength(1);
    stopFirst();
    await store.release("key", ID);
    expect(first).toHaveBeenCalledTimes(1);
    expect(second).toHaveBeenCalledTimes(2);
  });
});

describe("read", () => {
  it("takes no other sandbox for the one that was asked for: its token is somebody else's", async () => {
    const { nodes, store } = fleet();
    nodes.node("a:7777").script("sandbox", () => ({
      archived: false,
      token: "another's",
      entry: { name: "other/y", id: "sb_00000000000000bb", phase: "Running" },
    }));
    await expect(store.read("key", ID)).rejects.toMatchObject({ code: "node_failed", id: ID });
    await expect(store.read("key", ID)).resolves.toMatchObject({ token: "secret" });
  });

  it.each([
    ["running", "Running", false, false],
    ["hibernated", "Hibernated", false, true],
    ["archived", "Hibernated", true, true],
  ] as const)("V2: passes token and deadline of a %s sandbox", async (_case, phase, archived, paused) => {
    const { nodes, store } = fleet();
    const deadline = new Date(5000);
    nodes.node("a:7777").hold({
      archived,
      token: "secret",
      entry: { name: "n/x", id: ID, phase, deadline, metadata: { k: "v" } },
    });
    await expect(store.read("key", ID)).resolves.toMatchObject({
      token: "secret",
      paused,
      archived,
      deadline,
      sandbox: { namespace: "n", name: "x", node: "key", id: ID, metadata: { k: "v" } },
    });
  });

  it("is not found when the node does not know the id", async () => {
    const { store } = fleet();
    await expect(store.read("key", "sb_0")).rejects.toMatchObject({ code: "not_found", status: 404 });
  });
});

describe("renew", () => {
  it("passes the lease and returns what was granted", async () => {
    const { nodes, store } = fleet();
    const granted = new Date(9000);
    nodes.node("a:7777").script("renew", () => granted);
    await expect(store.renew("key", ID, { ttlSeconds: 60, onExpire: "archive" })).resolves.toBe(granted);
    expect(nodes.calls[0]?.lease).toStrictEqual({ ttlSeconds: 60, onExpire: "archive" });
  });
});

describe("a guest port", () => {
  it("V4: is dialled with port and token, without a read first", async () => {
    const { nodes, store } = fleet();
    nodes.node("a:7777").guest(49_983, (socket) => socket.end("hello"));
    const relay = await store.dialGuestPort("key", ID, "secret", 49_983);
    const [data] = (await once(relay, "data")) as [Buffer];
    expect(data.toString()).toBe("hello");
    expect(nodes.calls).toMatchObject([{ verb: "dialPort", port: 49_983, token: "secret" }]);
    relay.destroy();
  });

  it("V4: of a paused sandbox is a 409 without a token, and wakes it with one", async () => {
    const { nodes, source, store } = fleet();
    nodes.node("a:7777").guest(80, (socket) => socket.end());
    await store.pause("key", ID);
    await expect(store.dialGuestPort("key", ID, "", 80)).rejects.toMatchObject({ code: "node_refused", status: 409 });
    source.put({ ...nodes.node("a:7777").inventory(), node: "key" });
    expect(store.list()).toMatchObject([{ paused: true }]);
    (await store.dialGuestPort("key", ID, "secret", 80)).destroy();
    await expect(store.read("key", ID)).resolves.toMatchObject({ paused: false });
    expect(store.list()).toMatchObject([{ paused: false }]);
  });

  it("that nobody listens on is the node's 502", async () => {
    const { store } = fleet();
    await expect(store.dialGuestPort("key", ID, "secret", 81)).rejects.toMatchObject({
      code: "node_failed",
      status: 502,
      nodeMessage: "guest port unreachable",
    });
  });

  it.each([0, -1, 65_536, 1.5, Number.NaN])("refuses the port %d before any call", async (port) => {
    const { nodes, store } = fleet();
    await expect(store.dialGuestPort("key", ID, "secret", port)).rejects.toMatchObject({ code: "bad_request" });
    expect(nodes.calls).toStrictEqual([]);
  });

  it("is closed again when it opened after its caller left", async () => {
    const { nodes, store } = fleet();
    const [relay] = duplexPair();
    const answer = Promise.withResolvers<unknown>();
    nodes.node("a:7777").script("dialPort", () => answer.promise);
    const caller = new AbortController();
    const dial = store.dialGuestPort("key", ID, "secret", 80, { signal: caller.signal });
    await vi.waitFor(() => expect(nodes.calls).toHaveLength(1));
    caller.abort();
    answer.resolve(relay);
    await expect(dial).rejects.toMatchObject({ code: "aborted" });
    expect(relay.destroyed).toBe(true);
  });
});
