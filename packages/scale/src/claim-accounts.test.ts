import * as fc from "fast-check";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { createStore } from "./store.ts";
import type { ScriptedStep } from "./testing/index.ts";
import { answers, fails, redirects, ScriptedFailure, ScriptedNodes, StaticInventorySource } from "./testing/index.ts";

const POOL = { template: "rt", warm: 1, target: 1 };
const NODES = ["a", "b", "c"] as const;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const after = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** What nodes do with claims, in the order in which claims reach any of them. */
const outcome = fc.oneof(
  { weight: 3, arbitrary: fc.constant({ kind: "delivers" as const }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("delivers slowly" as const), ms: fc.nat(60) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("loses the reply" as const), ms: fc.nat(5000) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("loses the reply, delivers later" as const), ms: fc.nat(5000) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("answers" as const), status: fc.constantFrom(400, 404, 429, 500, 503) }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "cannot be reached" as const }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("redirects" as const),
      targets: fc.array(fc.constantFrom(...NODES, "unknown"), { minLength: 1, maxLength: 4 }),
    }),
  },
);
const claims = fc.array(fc.record({ leavesAfterMs: fc.option(fc.nat(80)), promoted: fc.boolean() }), {
  minLength: 1,
  maxLength: 6,
});

it("each sandbox that nodes deliver belongs to one claim that was answered, and all others are released", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(outcome, { minLength: 1, maxLength: 12 }),
      claims,
      fc.nat(),
      async (script, asked, seed) => {
        const nodes = new ScriptedNodes();
        const source = new StaticInventorySource();
        const poll = (): void => NODES.forEach((node) => source.put(nodes.node(node).inventory({ pools: [POOL] })));
        let made = 0;
        let turn = 0;
        for (const node of NODES) {
          const hold = (claimRef: string): string => {
            const id = `sb_${(made += 1).toString(16).padStart(16, "0")}`;
            const entry = { name: claimRef, claimRef, id, phase: "Running", template: "rt" };
            nodes.node(node).hold({ archived: false, token: `token of ${id}`, entry });
            return id;
          };
          nodes.node(node).always("claim", async (call) => {
            const claimRef = call.claim?.claimRef ?? "";
            const next = script[(turn += 1) % script.length];
            const deliver: ScriptedStep = () => ({ kind: "delivered", id: hold(claimRef), token: "t" });
            switch (next?.kind) {
              case "delivers slowly":
                await after(next.ms);
                return deliver(call);
              case "loses the reply":
                hold(claimRef);
                await after(next.ms);
                throw new ScriptedFailure({ kind: "uncertain" });
              case "loses the reply, delivers later":
                void after(next.ms).then(() => hold(claimRef));
                throw new ScriptedFailure({ kind: "uncertain" });
              case "answers":
                return answers(next.status)(call);
              case "cannot be reached":
                return fails({ kind: "unsent" })(call);
              case "redirects":
                return redirects(next.targets)(call);
              case "delivers":
              case undefined:
                break;
            }
            return deliver(call);
          });
        }
        poll();
        let random = seed;
        const store = createStore(source, {
          clients: nodes,
          random: () => (random = (random * 1_664_525 + 1_013_904_223) % 2 ** 32) / 2 ** 32,
        });

        const settling = Promise.allSettled(
          asked.map(async ({ leavesAfterMs, promoted }, at) => {
            const caller = new AbortController();
            const claim = store.claim("ns", `n${at}`, POOL, { uniqueName: true, promoted, signal: caller.signal });
            if (leavesAfterMs !== null) {
              void after(leavesAfterMs).then(() => caller.abort());
            }
            return claim;
          }),
        );
        await vi.advanceTimersByTimeAsync(6000);
        const outcomes = await settling;
        for (let tick = 0; tick < 3; tick += 1) {
          await vi.advanceTimersByTimeAsync(3000);
          poll();
        }
        await vi.advanceTimersByTimeAsync(2000);
        await store.settled();

        const kept = outcomes.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
        const held = NODES.flatMap((node) => nodes.node(node).sandboxes.map(({ entry }) => `${node} ${entry.id}`));
        expect(held.sort()).toStrictEqual(kept.map(({ node, id }) => `${node} ${id}`).sort());
        expect(
          store
            .list()
            .map(({ id }) => id)
            .sort(),
        ).toStrictEqual(kept.map(({ id }) => id).sort());
        const released = nodes.calls.filter(({ verb }) => verb === "release").map(({ id }) => id);
        expect(released).toHaveLength(made - kept.length);
        await vi.advanceTimersByTimeAsync(200_000);
        expect(vi.getTimerCount()).toBe(0);
      },
    ),
    { numRuns: 150 },
  );
});
