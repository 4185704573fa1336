import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Sandbox } from "./domain.ts";
import type { SandboxStore } from "./ports.ts";
import { createStore } from "./store.ts";
import { ScriptedNodes, StaticInventorySource } from "./testing/index.ts";

const POOL = { template: "rt", warm: 100, target: 100 };

interface Fleet {
  readonly store: SandboxStore;
  readonly nodes: ScriptedNodes;
  readonly source: StaticInventorySource;
  readonly publish: () => void;
  readonly id: string;
}

/** One sandbox that the snapshot shows and that was asked for until answers are given again. */
async function fleet(): Promise<Fleet> {
  const nodes = new ScriptedNodes();
  const source = new StaticInventorySource([{ node: "a", pools: [POOL] }]);
  const store = createStore(source, { clients: nodes });
  const publish = (): void =>
    source.put({ ...nodes.node("a").inventory({ pools: [POOL] }), asOfMs: performance.now() });
  const { id } = await store.claim("n", "x", { template: "rt" });
  publish();
  for (let time = 0; time < 3; time += 1) {
    await Promise.all(ways(store, id).map((ask) => ask()));
  }
  return { store, nodes, source, publish, id };
}

/** Each way to ask for the sandbox. */
function ways(store: SandboxStore, id: string, signal?: AbortSignal): readonly (() => Promise<Sandbox>)[] {
  const match = (claimId: string): boolean => claimId === id;
  return [
    () => store.get("n", "x", { signal }),
    () => store.getByClaimId("n", id, match, { signal }),
    () => store.getByClaimId("", id, match, { signal }),
  ];
}

describe("an answer that is given again", () => {
  it("is the same object while nothing changes", async () => {
    const { store, id } = await fleet();
    for (const ask of ways(store, id)) {
      expect(await ask()).toBe(await ask());
    }
  });

  it.each<[string, (fleet: Fleet) => unknown, object | "not_found"]>([
    ["a pause of ours", ({ store, id }) => store.pause("a", id), { paused: true }],
    ["a release of ours", ({ store, id }) => store.release("a", id), "not_found"],
    [
      "a pause that the next snapshot shows",
      async ({ nodes, publish, id }) => {
        await nodes.node("a").hibernate(id);
        publish();
      },
      { paused: true },
    ],
    [
      "an end that the next snapshot shows",
      async ({ nodes, publish, id }) => {
        await nodes.node("a").release(id);
        publish();
      },
      "not_found",
    ],
    ["a node that is gone", ({ source, nodes, id }) => (source.remove("a"), nodes.node("a").release(id)), "not_found"],
  ])("shows %s", async (_change, change, expected) => {
    const rig = await fleet();
    await change(rig);
    for (const ask of ways(rig.store, rig.id)) {
      await (expected === "not_found"
        ? expect(ask()).rejects.toMatchObject({ code: expected })
        : expect(ask()).resolves.toMatchObject(expected));
    }
  });

  it("is none for a caller that has left, nor for one that means another spelling", async () => {
    const { store, id } = await fleet();
    for (const ask of ways(store, id, AbortSignal.abort())) {
      await expect(ask()).rejects.toMatchObject({ code: "aborted" });
    }
    await expect(store.getByClaimId("n", id, () => false)).rejects.toMatchObject({ code: "not_found" });
    await expect(store.getByClaimId("m", id, (claimId) => claimId === id)).rejects.toMatchObject({ code: "not_found" });
  });

  it("is what a store says that never answered before, after any history", async () => {
    const step = fc.constantFrom("pause", "resume", "renew", "publish", "node pauses", "node resumes", "ask");
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const { store, nodes, source, publish, id } = await fleet();
        const node = nodes.node("a");
        const verbs: Record<string, () => unknown> = {
          pause: () => store.pause("a", id),
          resume: () => store.resume("a", id),
          renew: () => store.renew("a", id, { ttlSeconds: 900 }),
          publish,
          "node pauses": () => node.hibernate(id),
          "node resumes": () => node.wake(id),
          ask: () => undefined,
        };
        let written = false;
        for (const name of steps) {
          await verbs[name]?.();
          written = name === "publish" ? false : written || ["pause", "resume", "renew"].includes(name);
          const answers = await Promise.all(ways(store, id).map((ask) => ask()));
          expect(new Set(answers.map((one) => JSON.stringify(one))).size).toBe(1);
          if (!written) {
            // Nothing of ours is laid over the snapshot: whoever reads it for the first time sees the same.
            expect(answers[0]).toEqual(await createStore(source).get("n", "x"));
          }
        }
      }),
      { numRuns: 60 },
    );
  });
});
