import { expect, it } from "vitest";

import { type Lane, runLanes } from "./lanes.ts";

/** A lane that says when it begins and ends when it is told to. */
function lane(name: string, log: string[]): Lane & { readonly end: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return {
    name,
    end: resolve,
    run: async () => {
      log.push(name);
      await promise;
    },
  };
}

it("runs as many lanes at once as it may, and the next one when one ends", async () => {
  const log: string[] = [];
  const lanes = ["a", "b", "c"].map((name) => lane(name, log));
  const all = runLanes(lanes, 2);
  expect(log).toEqual(["a", "b"]);
  lanes[1]?.end();
  await expect.poll(() => log).toEqual(["a", "b", "c"]);
  lanes[0]?.end();
  lanes[2]?.end();
  await all;
});

it("lets the others end before it says which lane broke off", async () => {
  const log: string[] = [];
  const broken: Lane = { name: "broken", run: () => Promise.reject(new Error("no node")) };
  const other = lane("other", log);
  other.end();
  await expect(runLanes([broken, other], 1)).rejects.toThrow("broken: no node");
  expect(log).toEqual(["other"]);
});

it("begins with the lanes that mostly wait", async () => {
  const log: string[] = [];
  const lanes = ["a", "mesh", "b"].map((name) => lane(name, log));
  for (const { end } of lanes) {
    end();
  }
  await runLanes(lanes, 1);
  expect(log).toEqual(["mesh", "a", "b"]);
});
