import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { SILENT } from "../logger.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { openCaptureStore, type CaptureStore, type KeptCapture } from "./capture-store.ts";

const open = (stateDir: string): CaptureStore =>
  openCaptureStore({ stateDir, drafts: join(stateDir, "drafts"), logger: SILENT });

async function keep(store: CaptureStore, note: unknown): Promise<KeptCapture> {
  await using draft = store.draft();
  mkdirSync(draft.tree);
  writeFileSync(join(draft.tree, "file"), JSON.stringify(note));
  return await store.keep(draft, { base: 5, count: 6 }, note);
}

const notesOf = (store: CaptureStore): unknown[] => store.found.map((capture) => capture.note);

test("gives the captures of a closed node to the next one, with their newest notes and owners", async () => {
  await using state = temporaryFolder();
  const first = open(state.path);
  expect(first.found).toEqual([]);
  const kept = await keep(first, "a");
  await kept.annotate("b");
  first.close();
  const second = open(state.path);
  expect(notesOf(second)).toEqual(["b"]);
  expect(second.found[0]?.owners).toEqual({ base: 5, count: 6 });
  expect(readFileSync(join(second.found[0]?.tree ?? "", "file"), "utf8")).toBe('"a"');
  await second.found[0]?.remove();
  second.close();
  expect(existsSync(join(state.path, "captures"))).toBe(false);
});

test("keeps the captures of running nodes apart", async () => {
  await using state = temporaryFolder();
  const [one, two] = [open(state.path), open(state.path)];
  await keep(one, "one");
  await keep(two, "two");
  expect(open(state.path).found).toEqual([]);
  one.close();
  const three = open(state.path);
  expect(notesOf(three)).toEqual(["one"]);
  two.close();
  three.close();
  const both = [open(state.path), open(state.path)];
  expect(new Set(both.flatMap(notesOf))).toEqual(new Set(["one", "two"]));
});

test("takes over what a killed node left, half deletions and half handovers among it", async () => {
  await using state = temporaryFolder();
  const first = open(state.path);
  await keep(first, "whole");
  const half = await keep(first, "half");
  const [shelf = ""] = readdirSync(join(state.path, "captures"));
  const lock = JSON.parse(readFileSync(join(state.path, "captures", shelf, "lock"), "utf8")) as object;
  writeFileSync(join(state.path, "captures", shelf, "lock"), JSON.stringify({ ...lock, pid: 2 ** 30, start: "1" }));
  rmSync(join(half.tree, "../note.json"));
  // Another node was killed between its two renames, long ago; one is between them now.
  for (const since of [0, Date.now()]) {
    mkdirSync(join(state.path, "captures", `.${since}.abcdef`));
  }
  const stores = [open(state.path), open(state.path), open(state.path)];
  expect(stores.flatMap(notesOf)).toEqual(["whole"]);
  await expect.poll(() => existsSync(join(half.tree, ".."))).toBe(false);
  expect(readdirSync(join(state.path, "captures")).filter((name) => name.startsWith("."))).toHaveLength(1);
});

test.each(["{", "[]", '{"owners":{"base":"0"},"note":1}'])("leaves a capture alone whose note is %s", async (note) => {
  await using state = temporaryFolder();
  const first = open(state.path);
  const kept = await keep(first, "a");
  writeFileSync(join(kept.tree, "../note.json"), note);
  first.close();
  const next = open(state.path);
  expect(next.found).toEqual([]);
  next.close();
  const [shelf = ""] = readdirSync(join(state.path, "captures"));
  const [folder = ""] = readdirSync(join(state.path, "captures", shelf));
  expect(readFileSync(join(state.path, "captures", shelf, folder, "note.json"), "utf8")).toBe(note);
});

test("removes a capture behind its last use", async () => {
  await using state = temporaryFolder();
  const store = open(state.path);
  const kept = await keep(store, "a");
  const { promise: used, resolve } = Promise.withResolvers<void>();
  const use = kept.use(() => used);
  const removed = kept.remove();
  await kept.annotate("late");
  expect(await Promise.race([removed, Promise.resolve("in use")])).toBe("in use");
  expect(existsSync(kept.tree)).toBe(true);
  resolve();
  await use;
  await removed;
  await kept.remove();
  expect(existsSync(join(kept.tree, ".."))).toBe(false);
  store.close();
  expect(open(state.path).found).toEqual([]);
});

test("an end between the last note and the removal leaves nothing to be found", async () => {
  await using state = temporaryFolder();
  const store = open(state.path);
  const kept = await keep(store, "a");
  const { promise: used, resolve } = Promise.withResolvers<void>();
  const use = kept.use(() => used);
  const removed = kept.remove();
  await expect.poll(() => existsSync(join(kept.tree, "../note.json"))).toBe(false);
  await kept.annotate("late");
  resolve();
  await use;
  await removed;
  expect(existsSync(join(kept.tree, ".."))).toBe(false);
});

test("of many notes the last one stays", async () => {
  await using state = temporaryFolder();
  const store = open(state.path);
  const kept = await keep(store, "first");
  await Promise.all(Array.from({ length: 30 }, (_, index) => kept.annotate(index)));
  store.close();
  expect(notesOf(open(state.path))).toEqual([29]);
});

test("forgets a draft that is not kept, and keeps nothing once closed", async () => {
  await using state = temporaryFolder();
  const store = open(state.path);
  const draft = store.draft();
  mkdirSync(draft.tree);
  await draft.discard();
  expect(readdirSync(join(state.path, "drafts"))).toEqual([]);
  store.close();
  await expect(keep(store, "late")).rejects.toThrow("closing");
  expect(readdirSync(join(state.path, "drafts"))).toEqual([]);
});
