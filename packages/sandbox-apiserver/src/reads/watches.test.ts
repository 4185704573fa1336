import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import type { Logger, SandboxStore } from "@org/scale";
import { ScriptedNodes } from "@org/scale/testing";
import { describe, expect, it, vi } from "vitest";
import { entry, NEGOTIATED, readsOver, request, Watcher } from "../testing/reads-fixture.ts";
import { createSandboxReads } from "./index.ts";

const LIST = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
const X = entry("sb_1", "n/x");
const Y = entry("sb_2", "n/y");

describe("a watch", () => {
  it("tells what is there, then what changes", async () => {
    const { source, watch } = readsOver({ a: [X], b: [entry("sb_3", "m/x")] });
    await using all = await watch();
    await using some = await watch("", { namespace: "n" });
    expect(all.response.headers.get("content-type")).toBe("application/json");
    expect(await all.take(2)).toStrictEqual(["ADDED m/x", "ADDED n/x"]);
    expect(await some.take(1)).toStrictEqual(["ADDED n/x"]);
    source.put({ node: "a", entries: [{ ...X, phase: "Hibernated" }, Y] });
    for (const watcher of [all, some]) {
      expect(await watcher.take(2)).toStrictEqual(["MODIFIED n/x", "ADDED n/y"]);
    }
    source.put({ node: "b", entries: [] });
    source.put({ node: "a", entries: [Y] });
    expect(await all.take(2)).toStrictEqual(["DELETED m/x", "DELETED n/x"]);
    expect(await some.take(1)).toStrictEqual(["DELETED n/x"]);
  });

  it.each([
    ["no version", "", ["ADDED n/x"]],
    ["any version", "resourceVersion=0", ["ADDED n/x"]],
    ["an unknown version", "resourceVersion=1", ["ADDED n/x"]],
    ["one that is no number", "resourceVersion=x", ["ADDED n/x"]],
    ["one that is still to come", "resourceVersion=9999999999999999999", ["ADDED n/x"]],
    ["no version and no initial events", "sendInitialEvents=false&resourceVersionMatch=NotOlderThan", []],
  ])("begins from %s", async (_case, query, begins) => {
    const { source, watch } = readsOver({ a: [X] });
    await using watcher = await watch(query);
    source.put({ node: "b", entries: [Y] });
    expect(await watcher.take(begins.length + 1)).toStrictEqual([...begins, "ADDED n/y"]);
  });

  it("goes on from a version that is known: of a list, of an event, of a bookmark, or of what was deleted", async () => {
    const { source, list, watch } = readsOver({ a: [X] });
    const { resourceVersion } = (await list()).metadata;
    await using first = await watch(`resourceVersion=${resourceVersion}`);
    source.put({ node: "b", entries: [Y] });
    const added = await first.next();
    source.put({ node: "b", entries: [] });
    const deleted = await first.next();
    source.put({ node: "c", entries: [entry("sb_9", "n/z")] });
    expect([added?.type, deleted?.type, ...(await first.take(1))]).toStrictEqual(["ADDED", "DELETED", "ADDED n/z"]);
    await using again = await watch(`resourceVersion=${resourceVersion}`);
    expect(await again.take(3)).toStrictEqual(["ADDED n/y", "DELETED n/y", "ADDED n/z"]);
    await using behind = await watch(`resourceVersion=${added?.object.metadata.resourceVersion}`);
    // What it saw last comes again: others of that moment may have been lost.
    expect(await behind.take(3)).toStrictEqual(["ADDED n/y", "DELETED n/y", "ADDED n/z"]);
    await using after = await watch(`resourceVersion=${deleted?.object.metadata.resourceVersion}`);
    expect(await after.take(1)).toStrictEqual(["ADDED n/z"]);
  });

  it("takes no version of another process for its own", async () => {
    const clock = (): number => 1_000_000;
    const one = readsOver({ a: [X] }, { clock });
    const versions = Array.from({ length: 3 }, () => readsOver({ a: [X] }, { clock }).reads.version());
    // Four tags of five digits that are all the same are no chance.
    expect(new Set([...versions, one.reads.version()]).size).toBeGreaterThan(1);
    const other = versions.find((version) => version !== one.reads.version()) ?? "";
    await using watcher = await one.watch(`resourceVersion=${other}`);
    expect(await watcher.take(1)).toStrictEqual(["ADDED n/x"]);
  });

  it("marks the end of what was there, and sends bookmarks from time to time", async () => {
    const { source, reads, watch } = readsOver({ a: [X] }, { bookmarkIntervalMs: 10 });
    await using watcher = await watch(LIST);
    expect(await watcher.take(1)).toStrictEqual(["ADDED n/x"]);
    expect(await watcher.next()).toStrictEqual({
      type: "BOOKMARK",
      object: {
        kind: "Sandbox",
        apiVersion: "agents.x-k8s.io/v1beta1",
        metadata: {
          resourceVersion: reads.version(),
          creationTimestamp: null,
          annotations: { "k8s.io/initial-events-end": "true" },
        },
      },
    });
    const next = await watcher.next();
    expect(next).toMatchObject({ type: "BOOKMARK", object: { metadata: { resourceVersion: reads.version() } } });
    expect(next?.object.metadata.annotations).toBeUndefined();
    source.put({ node: "a", entries: [] });
    await vi.waitFor(async () => expect((await watcher.next())?.type).toBe("DELETED"));
    expect((await watcher.next())?.object.metadata.resourceVersion).toBe(reads.version());
    await using without = await watch("sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    source.put({ node: "a", entries: [Y] });
    expect(await without.take(1)).toStrictEqual(["ADDED n/y"]);
  });

  it("tells when a sandbox comes into a selection or leaves it", async () => {
    const { source, watch } = readsOver({ a: [X, Y] });
    const label = "labelSelector=sandbox.cocoonstack.io/phase%3DHibernated";
    await using watcher = await watch(label);
    source.put({ node: "a", entries: [{ ...X, phase: "Hibernated" }, Y] });
    const added = await watcher.next();
    expect(added?.type).toBe("ADDED");
    source.put({ node: "a", entries: [{ ...X, phase: "Hibernated", deadline: new Date(0) }, Y] });
    const modified = await watcher.next();
    source.put({ node: "a", entries: [X, Y] });
    const left = await watcher.next();
    expect([modified?.type, left?.type]).toStrictEqual(["MODIFIED", "DELETED"]);
    // What left is told as it was last seen.
    expect(left?.object).toMatchObject({ status: { conditions: [{ reason: "Hibernated" }] } });
  });

  it.each([
    ["another claim", { a: [entry("sb_0", "n/x")] }],
    ["another claim with a greater id", { a: [entry("sb_8", "n/x")] }],
    ["the same claim on another node", { a: [], b: [X] }],
  ])("tells of a name that stands for %s that the old one left first", async (_case, nodes) => {
    const { source, store, watch } = readsOver({ a: [X] });
    await using watcher = await watch();
    expect(await watcher.take(1)).toStrictEqual(["ADDED n/x"]);
    for (const [node, entries] of Object.entries(nodes).toReversed()) {
      source.put({ node, entries });
    }
    const before = store.list().length;
    expect(before).toBe(1);
    expect(await watcher.take(2)).toStrictEqual(["DELETED n/x", "ADDED n/x"]);
  });

  it("tells once more of a sandbox whose namesake left, and nothing of one whose namesake changed", async () => {
    const twin = entry("sb_7", "n/x");
    const { source, watch } = readsOver({ a: [X, twin] });
    await using watcher = await watch();
    expect(await watcher.take(2)).toStrictEqual(["ADDED n/x", "ADDED n/x"]);
    source.put({ node: "a", entries: [X, { ...twin, phase: "Hibernated" }] });
    expect(await watcher.take(1)).toStrictEqual(["MODIFIED n/x"]);
    source.put({ node: "a", entries: [X] });
    expect(await watcher.take(1)).toStrictEqual(["DELETED n/x"]);
    const again = await watcher.next();
    expect(again).toMatchObject({
      type: "ADDED",
      object: { metadata: { annotations: { "sandbox.cocoonstack.io/claim-id": "sb_1" } } },
    });
  });

  it("sends rows of a Table, with the columns in the first alone", async () => {
    const { source, watch } = readsOver({ a: [] });
    const negotiated = { ...NEGOTIATED, as: "table" } as const;
    await using early = await watch("resourceVersion=0", { negotiated });
    source.put({ node: "a", entries: [X, Y] });
    await using late = await watch("resourceVersion=0", { negotiated });
    for (const watcher of [early, late]) {
      const lines = [await watcher.next(), await watcher.next()];
      expect(lines.map((line) => line?.object.columnDefinitions?.length)).toStrictEqual([8, undefined]);
      expect(lines.map((line) => line?.object.rows?.length)).toStrictEqual([1, 1]);
    }
    source.put({ node: "a", entries: [X] });
    for (const watcher of [early, late]) {
      expect(await watcher.next()).toMatchObject({
        type: "DELETED",
        object: { kind: "Table", columnDefinitions: null },
      });
    }
    await using marked = await watch(LIST, { negotiated });
    await marked.next();
    expect(await marked.next()).toMatchObject({
      type: "BOOKMARK",
      object: { rows: [{ object: { metadata: { annotations: { "k8s.io/initial-events-end": "true" } } } }] },
    });
  });

  it("sends metadata alone", async () => {
    const { watch } = readsOver({ a: [X] });
    await using watcher = await watch(LIST, { negotiated: { ...NEGOTIATED, as: "partial" } });
    const lines = [await watcher.next(), await watcher.next()];
    expect(lines.map((line) => `${line?.type} ${line?.object.kind}`)).toStrictEqual([
      "ADDED PartialObjectMetadata",
      "BOOKMARK PartialObjectMetadata",
    ]);
  });

  it("comes as lines of JSON and as nothing else", async () => {
    await expect(readsOver({}).watch("", { negotiated: { ...NEGOTIATED, format: "yaml" } })).rejects.toMatchObject({
      code: 406,
    });
  });

  it("begins its answer before there is an event", async () => {
    const { reads, source } = readsOver({});
    const signal = new AbortController().signal;
    const listener = getRequestListener(() => reads.watch(request("", { signal })));
    const server = createServer((incoming, outgoing) => void listener(incoming, outgoing));
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    expect(response.status).toBe(200);
    await using watcher = new Watcher(response);
    source.put({ node: "a", entries: [X] });
    expect(await watcher.take(1)).toStrictEqual(["ADDED n/x"]);
    reads.close();
    expect(await watcher.next()).toBeUndefined();
    server.close();
  });
});

describe("the end of a watch", () => {
  it("comes with the time-out, which is spread when the client names none", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const { watch } = readsOver({}, { random: () => 0.5 });
      const long = await watch();
      const short = await watch("timeoutSeconds=30");
      let ended = 0;
      void long.next().then(() => (ended += 1));
      vi.advanceTimersByTime(30_000);
      expect(await short.next()).toBeUndefined();
      vi.advanceTimersByTime(2_669_999);
      await new Promise((resolve) => void setImmediate(resolve));
      expect(ended).toBe(0);
      vi.advanceTimersByTime(1);
      await new Promise((resolve) => void setImmediate(resolve));
      expect(ended).toBe(1);
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  it.each(["close", "signal", "reader"] as const)("leaves nothing behind: %s", async (way) => {
    const { store } = readsOver({ a: [X] });
    let listeners = 0;
    const counting = counted(store, () => {
      listeners += 1;
      return () => (listeners -= 1);
    });
    const reads = createSandboxReads({ store: counting });
    const controller = new AbortController();
    const { signal } = controller;
    const watchers = [
      new Watcher(await reads.watch(request("", { signal }))),
      new Watcher(await reads.watch(request("fieldSelector=metadata.name%3Dx", { namespace: "n", signal }))),
    ];
    for (const watcher of watchers) {
      expect(await watcher.take(1)).toStrictEqual(["ADDED n/x"]);
    }
    expect(listeners).toBe(1);
    if (way === "close") {
      reads.close();
    } else if (way === "signal") {
      controller.abort();
    }
    for (const watcher of watchers) {
      expect(way === "reader" ? await watcher[Symbol.asyncDispose]() : await watcher.next()).toBeUndefined();
    }
    await vi.waitFor(() => expect(listeners).toBe(0));
  });

  it("is at once for a client that has gone, and refused after the end of all", async () => {
    const { reads } = readsOver({ a: [X] });
    const gone = new Watcher(await reads.watch(request("", { signal: AbortSignal.abort() })));
    expect(await gone.next()).toBeUndefined();
    reads.close();
    await expect(reads.watch(request())).rejects.toMatchObject({ code: 503 });
    expect((await reads.list(request())).status).toBe(200);
  });

  it("comes for a reader that is too slow, when what it has to be told is forgotten", async () => {
    const warnings: string[] = [];
    const logger: Logger = {
      debug() {},
      info() {},
      warn: (_fields, message) => void warnings.push(message),
      error() {},
    };
    const { source, reads } = readsOver({ a: [X] }, { historyChanges: 8, logger });
    const response = await reads.watch(request());
    const fast = new Watcher(await reads.watch(request("allowWatchBookmarks=true")));
    expect(await fast.take(2)).toStrictEqual(["ADDED n/x", "BOOKMARK"]);
    await new Promise((resolve) => void setImmediate(resolve));
    for (let round = 0; round < 20; round += 1) {
      source.put({ node: "b", entries: [entry(`sb_b${round}`, "n/z")] });
      await fast.take(round === 0 ? 1 : 2);
    }
    await vi.waitFor(() => expect(warnings).toStrictEqual(["a watch ended whose reader is too slow"]));
    const text = await response.text();
    expect(text.trimEnd().split("\n").length).toBeLessThan(20);
    reads.close();
  });
});

describe("many watches", () => {
  it("cost one look at the fleet, and none while nothing changes", async () => {
    const { store, source } = readsOver({ a: [X] });
    let looks = 0;
    const reads = createSandboxReads({
      store: {
        get: (...args) => store.get(...args),
        list: () => {
          looks += 1;
          return store.list();
        },
        select: (options) => store.select(options),
        watch: (options) => store.watch(options),
        onChange: (listener) => store.onChange(listener),
      },
    });
    const watchers = await Promise.all(
      Array.from({ length: 20 }, async () => new Watcher(await reads.watch(request()))),
    );
    await Promise.all(watchers.map((watcher) => watcher.take(1)));
    looks = 0;
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(looks).toBe(0);
    source.put({ node: "b", entries: [Y] });
    await Promise.all(watchers.map((watcher) => watcher.take(1)));
    expect(looks).toBe(1);
    reads.close();
  });
});

describe("a watch of one name", () => {
  const NAMED = "fieldSelector=metadata.name%3Dx";
  const at = { namespace: "n" };

  it("tells what is there, its changes, and its end when its node says so too", async () => {
    const nodes = new ScriptedNodes();
    nodes.node("a").hold({ entry: X, archived: false });
    const { source, watch } = readsOver({ a: [X], b: [Y] }, { clients: nodes });
    await using watcher = await watch(NAMED, at);
    await using path = await watch("", { ...at, name: "x" });
    source.put({ node: "a", entries: [{ ...X, phase: "Hibernated" }] });
    for (const one of [watcher, path]) {
      expect(await one.take(2)).toStrictEqual(["ADDED n/x", "MODIFIED n/x"]);
    }
    source.put({ node: "a", entries: [] });
    await vi.waitFor(() => expect(nodes.calls.length).toBeGreaterThan(2));
    nodes.node("a").lose("sb_1");
    for (const one of [watcher, path]) {
      let last = await one.next();
      while (last?.type === "MODIFIED") {
        last = await one.next();
      }
      expect(last?.type).toBe("DELETED");
    }
  });

  it("says nothing of what the client knows already", async () => {
    const { source, list, watch } = readsOver({ a: [X] });
    const { resourceVersion } = (await list(NAMED, at)).metadata;
    await using watcher = await watch(`${NAMED}&resourceVersion=${resourceVersion}`, at);
    await new Promise((resolve) => setTimeout(resolve, 5));
    source.put({ node: "a", entries: [{ ...X, phase: "Hibernated" }] });
    expect(await watcher.take(1)).toStrictEqual(["MODIFIED n/x"]);
    await using changed = await watch(`${NAMED}&resourceVersion=${resourceVersion}`, at);
    expect(await changed.take(1)).toStrictEqual(["MODIFIED n/x"]);
    source.put({ node: "a", entries: [entry("sb_5", "n/x")] });
    await using other = await watch(`${NAMED}&resourceVersion=${resourceVersion}`, at);
    expect(await other.take(2)).toStrictEqual(["DELETED n/x", "ADDED n/x"]);
    source.put({ node: "a", entries: [] });
    await using gone = await watch(`${NAMED}&resourceVersion=${resourceVersion}`, at);
    expect(await gone.take(1)).toStrictEqual(["DELETED n/x"]);
  });

  it("marks the end of what was there, and sends bookmarks", async () => {
    const { watch } = readsOver({ a: [X] }, { bookmarkIntervalMs: 10 });
    await using watcher = await watch(`${NAMED}&${LIST}`, at);
    expect(await watcher.take(1)).toStrictEqual(["ADDED n/x"]);
    const marked = await watcher.next();
    expect(marked?.object.metadata.annotations).toStrictEqual({ "k8s.io/initial-events-end": "true" });
    expect(await watcher.take(1)).toStrictEqual(["BOOKMARK"]);
    await using empty = await watch(`fieldSelector=metadata.name%3Dq&${LIST}`, at);
    expect(await empty.take(1)).toStrictEqual(["BOOKMARK"]);
  });
});

function counted(
  store: SandboxStore,
  note: () => () => void,
): Pick<SandboxStore, "get" | "list" | "select" | "watch" | "onChange"> {
  return {
    get: (...args) => store.get(...args),
    list: () => store.list(),
    select: (options) => store.select(options),
    watch: (options) => store.watch(options),
    onChange: (listener) => {
      const leave = store.onChange(listener);
      const forget = note();
      return () => {
        leave();
        forget();
      };
    },
  };
}
