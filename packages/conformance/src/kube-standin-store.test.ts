import { expect, test } from "vitest";

import { StandinStore, type StoredEvent } from "./kube-standin-store.ts";

const THINGS = { group: "x.test", plural: "things" };
const POOLS = { group: "x.test", plural: "sandboxwarmpools" };

test("a change is told with its version, and no change is none", () => {
  const store = new StandinStore();
  const seen: StoredEvent[] = [];
  store.follow(THINGS, 0, (event) => seen.push(event));
  const first = store.apply(THINGS, undefined, { metadata: { name: "a" }, spec: { x: 1, y: 2 } });
  const same = store.apply(THINGS, undefined, { metadata: { name: "a" }, spec: { y: 2, x: 1 } });
  store.apply(THINGS, undefined, { metadata: { name: "a" }, spec: { x: 2 } });
  store.delete(THINGS, undefined, "a");
  expect(same).toBe(first);
  expect(seen.map(({ type, object }) => [type, object.metadata.generation])).toEqual([
    ["ADDED", 1],
    ["MODIFIED", 2],
    ["DELETED", 2],
  ]);
  expect(seen.map(({ version }) => version)).toEqual([1001, 1002, 1003]);
});

test("who comes later is told what was missed, or that it is forgotten", () => {
  const store = new StandinStore();
  store.apply(THINGS, undefined, { metadata: { name: "a" } });
  store.apply(THINGS, undefined, { metadata: { name: "b" } });
  expect(store.follow(THINGS, 1001, () => undefined)?.missed.map(({ object }) => object.metadata.name)).toEqual(["b"]);
  store.compact();
  expect(store.follow(THINGS, 1002, () => undefined)).toBeUndefined();
  expect(store.follow(THINGS, Number(store.version), () => undefined)?.missed).toEqual([]);
});

test("a write with an old version is a conflict, one of what is there already too", () => {
  const store = new StandinStore();
  const { metadata } = store.create(THINGS, "ns", { metadata: { name: "a" } });
  store.update(THINGS, "ns", { metadata, spec: 1 });
  expect(() => store.update(THINGS, "ns", { metadata, spec: 2 })).toThrow(expect.objectContaining({ code: 409 }));
  expect(() => store.create(THINGS, "ns", { metadata })).toThrow(expect.objectContaining({ reason: "AlreadyExists" }));
  expect(() => store.update(THINGS, "other", { metadata })).toThrow(expect.objectContaining({ code: 404 }));
});

test("a status is written by itself, and does not move the generation", () => {
  const store = new StandinStore();
  store.create(POOLS, "ns", { metadata: { name: "a" }, spec: { replicas: 1 } });
  const after = store.update(
    POOLS,
    "ns",
    { metadata: { name: "a" }, spec: { replicas: 9 }, status: { ready: 1 } },
    "status",
  );
  expect([after["spec"], after["status"], after.metadata.generation]).toEqual([{ replicas: 1 }, { ready: 1 }, 1]);
  const next = store.update(POOLS, "ns", { metadata: { name: "a" }, spec: { replicas: 2 } });
  expect([next["spec"], next["status"], next.metadata.generation]).toEqual([{ replicas: 2 }, { ready: 1 }, 2]);
});
