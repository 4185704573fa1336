import { ScaleError } from "@org/scale";
import { answers, fails } from "@org/scale/testing";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Access } from "./api-keys.ts";
import { CreateLimits } from "./create-limits.ts";
import { E2bError } from "./errors.ts";
import { createFleet, KEY_1, KEY_2, NODE } from "./testing/fleet.ts";
import type { Fleet, Reply } from "./testing/fleet.ts";

function limitedFleet(limits: object, more: object = {}): Fleet {
  return createFleet({
    keys: [
      { key: KEY_1, namespace: "ns1", limits },
      { key: KEY_2, namespace: "ns2" },
      { key: "e2b_3333", namespace: "ns1" },
    ],
    ...more,
  });
}

const post = (fleet: Fleet, key = KEY_1): Promise<Reply> =>
  fleet.send("POST", "/v2/sandboxes", { templateID: "base" }, { key });

const statuses = (replies: readonly Reply[]): Record<number, number> => {
  const count: Record<number, number> = {};
  for (const { status } of replies) {
    count[status] = (count[status] ?? 0) + 1;
  }
  return count;
};

describe("max_sandboxes", () => {
  it("holds against a burst of a hundred, before any poll shows the first", async () => {
    const fleet = limitedFleet({ maxSandboxes: 20 });
    const replies = await Promise.all(Array.from({ length: 100 }, () => post(fleet)));
    expect(statuses(replies)).toStrictEqual({ 201: 20, 429: 80 });
    expect(fleet.node.sandboxes).toHaveLength(20);
    fleet.publish();
    expect((await post(fleet)).status).toBe(429);
  });

  it("answers 429 with a whole number of seconds, the limit, where it is set, and what is left", async () => {
    const fleet = limitedFleet({ maxSandboxes: 1 });
    const first = await post(fleet);
    expect(first.headers.get("ratelimit-policy")).toBe('"max_sandboxes";q=1');
    expect(first.headers.get("ratelimit")).toBe('"max_sandboxes";r=0');
    const refused = await post(fleet);
    expect(refused.status).toBe(429);
    expect(refused.body).toStrictEqual({ code: 429, message: expect.any(String) as string });
    expect(refused.body.message).toContain("max_sandboxes=1");
    expect(refused.body.message).toContain("--e2b-api-key-file");
    expect(refused.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
    expect(refused.headers.get("ratelimit")).toBe('"max_sandboxes";r=0');
    expect(refused.text).not.toContain(KEY_1);
  });

  it.each(["killed", "lost before a poll"])("makes room for a sandbox that was %s", async (how) => {
    const fleet = limitedFleet({ maxSandboxes: 1 });
    const id = (await post(fleet)).body.sandboxID as string;
    fleet.publish();
    expect((await post(fleet)).status).toBe(429);
    if (how === "killed") {
      await fleet.send("DELETE", `/sandboxes/${id}`);
    } else {
      fleet.node.lose(id.replace("-", "_"));
      fleet.publish();
    }
    expect((await post(fleet)).status).toBe(201);
  });

  it("counts paused sandboxes, those of other keys of the namespace, and no other namespace's", async () => {
    const fleet = limitedFleet({ maxSandboxes: 3 });
    const id = (await post(fleet)).body.sandboxID as string;
    await fleet.send("POST", `/sandboxes/${id}/pause`);
    expect((await post(fleet, "e2b_3333")).status).toBe(201);
    expect((await post(fleet, "e2b_3333")).status).toBe(201);
    expect((await post(fleet)).status).toBe(429);
    expect((await post(fleet, "e2b_3333")).status).toBe(201);
    expect((await post(fleet, KEY_2)).status).toBe(201);
  });

  it("never stands in the way of a sandbox that wakes", async () => {
    const fleet = limitedFleet({ maxSandboxes: 1 });
    const id = (await post(fleet)).body.sandboxID as string;
    await fleet.send("POST", `/sandboxes/${id}/pause`);
    expect((await post(fleet)).status).toBe(429);
    expect((await fleet.send("POST", `/sandboxes/${id}/connect`)).status).toBe(201);
  });

  it("counts every child of a fork, and refuses for good what can never fit", async () => {
    const fleet = limitedFleet({ maxSandboxes: 4 });
    const id = (await post(fleet)).body.sandboxID as string;
    const fork = (count: number): Promise<Reply> => fleet.send("POST", `/sandboxes/${id}/fork`, { count });
    const never = await fork(5);
    expect(never.status).toBe(400);
    expect(never.body.message).toContain("max_sandboxes=4");
    expect(statuses(await Promise.all([fork(2), fork(2)]))).toStrictEqual({ 201: 1, 429: 1 });
    expect((await fork(1)).headers.get("ratelimit")).toBe('"max_sandboxes";r=0');
    expect(fleet.node.sandboxes).toHaveLength(4);
  });

  it("counts a sandbox that is made out of a snapshot", async () => {
    const fleet = limitedFleet({ maxSandboxes: 1 });
    const id = (await post(fleet)).body.sandboxID as string;
    const snapshot = await fleet.send("POST", `/sandboxes/${id}/snapshots`, {});
    const again = await fleet.send("POST", "/v2/sandboxes", { templateID: snapshot.body.snapshotID });
    expect(again.status).toBe(429);
    expect(fleet.calls("claimCheckpoint")).toHaveLength(0);
  });

  it("costs a namespace nothing for what was not made", async () => {
    const fleet = limitedFleet({ maxSandboxes: 1, createPerMinute: 1 });
    for (const step of [answers(400, "no"), answers(429), fails({ kind: "unsent" })]) {
      fleet.node.script("claim", step);
      expect((await post(fleet)).status).toBeGreaterThanOrEqual(400);
    }
    expect(
      (await fleet.send("POST", "/v2/sandboxes", { templateID: "base", network: { denyOut: ["x"] } })).status,
    ).toBe(400);
    expect((await post(fleet)).status).toBe(201);
  });
});

function harness(limits: NonNullable<Access["limits"]>) {
  const clock = { ms: 0 };
  const access: Access = { namespace: "ns", limits };
  const held = { count: 0 };
  const create = new CreateLimits({ accesses: [access], count: () => held.count, monotonicMs: () => clock.ms });
  const run = (wanted = 1): Promise<unknown> => create.run(access, wanted, () => Promise.resolve());
  const refusal = async (wanted = 1): Promise<E2bError> => {
    const error: unknown = await run(wanted).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(E2bError);
    return error as E2bError;
  };
  return { clock, access, create, held, run, refusal };
}

describe("create_per_minute", () => {
  it("lets the next one through as soon as the told time has passed, and not before", async () => {
    const { clock, run, refusal } = harness({ createPerMinute: 2 });
    await run();
    clock.ms = 10_500;
    await run();
    clock.ms = 20_000;
    const error = await refusal();
    expect(error.code).toBe("limited");
    expect(error.message).toContain("create_per_minute=2");
    expect(error.headers).toStrictEqual({
      "retry-after": "40",
      "ratelimit-policy": '"create_per_minute";q=2;w=60',
      ratelimit: '"create_per_minute";r=0;t=40',
    });
    clock.ms = 59_999;
    await refusal();
    clock.ms = 60_000;
    await run();
    expect((await refusal()).headers?.["retry-after"]).toBe("11");
  });

  it("never lets more through in any minute than it says, however they come and end", async () => {
    const outcomes = fc.constantFrom("made" as const, "refused" as const, "lost" as const);
    const script = fc.array(
      fc.record({ laterMs: fc.nat(9000), wanted: fc.integer({ min: 1, max: 4 }), outcome: outcomes }),
      { maxLength: 80 },
    );
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 4, max: 9 }), script, async (limit, steps) => {
        const { clock, access, create } = harness({ createPerMinute: limit });
        const made: number[] = [];
        const running: (() => void)[] = [];
        for (const { laterMs, wanted, outcome } of steps) {
          clock.ms += laterMs;
          const gate = Promise.withResolvers<void>();
          let let_in = false;
          const done = create
            .run(access, wanted, async () => {
              let_in = true;
              await gate.promise;
              made.push(...Array.from({ length: outcome === "refused" ? 0 : wanted }, () => clock.ms));
              if (outcome === "refused") {
                throw new E2bError("unavailable", "none");
              }
              if (outcome === "lost") {
                throw new ScaleError("claim_failed", "lost");
              }
            })
            .catch(() => undefined);
          if (let_in) {
            running.push(gate.resolve);
          }
          if (running.length > 2) {
            running.shift()?.();
          }
          await Promise.race([done, Promise.resolve().then(() => Promise.resolve())]);
          await new Promise((resolve) => setImmediate(resolve));
          for (const at of made) {
            expect(made.filter((other) => other > at - 60_000 && other <= at).length).toBeLessThanOrEqual(limit);
          }
        }
        running.forEach((end) => end());
      }),
      { numRuns: 60 },
    );
  });

  it("counts for one key what another key of its namespace does not count", async () => {
    const fleet = limitedFleet({ createPerMinute: 1 });
    expect((await post(fleet)).status).toBe(201);
    expect((await post(fleet)).status).toBe(429);
    expect((await post(fleet, "e2b_3333")).status).toBe(201);
    const unlimited = await post(fleet, KEY_2);
    expect(unlimited.headers.get("ratelimit")).toBeNull();
  });

  it("says what is nearest when both limits are set", async () => {
    const { held, run, refusal } = harness({ createPerMinute: 5, maxSandboxes: 2 });
    await run();
    held.count = 1;
    expect((await refusal(2)).message).toContain("max_sandboxes=2");
    await run();
    held.count = 2;
    const error = await refusal();
    expect(error.message).toContain("max_sandboxes=2");
    expect(error.headers?.["ratelimit"]).toBe('"create_per_minute";r=3;t=60, "max_sandboxes";r=0');
  });
});

describe("a create that failed", () => {
  const access: Access = { namespace: "ns1", limits: { createPerMinute: 2, maxSandboxes: 2 } };

  it.each([
    ["its answer was lost, so that there may be one", new ScaleError("claim_failed", "lost"), 1],
    ["its client left, while it may have been made", new ScaleError("aborted", "left"), 1],
    ["the node refused it", new ScaleError("claim_refused", "no"), 2],
    ["nothing was warm", new ScaleError("no_warm_capacity", "none"), 2],
    ["its template is unknown", new E2bError("not_found", "unknown"), 2],
  ])("costs its minute what it may have made: %s", async (_when, error, left) => {
    const limits = new CreateLimits({ accesses: [access], count: () => 0, monotonicMs: () => 1000 });
    await expect(limits.run(access, 1, () => Promise.reject(error))).rejects.toBe(error);
    const rate = `"create_per_minute";r=${left};t=${left === 2 ? 0 : 60}`;
    expect(limits.headers(access)?.["ratelimit"]).toBe(`${rate}, "max_sandboxes";r=2`);
  });
});

describe("what a key is told", () => {
  it("leaves out what is being made, and waits for as many as are wanted", async () => {
    const access: Access = { namespace: "ns1", limits: { createPerMinute: 3 } };
    const clock = { ms: 0 };
    const limits = new CreateLimits({ accesses: [access], count: () => 0, monotonicMs: () => clock.ms });
    const hold = Promise.withResolvers<void>();
    const making = limits.run(access, 2, () => hold.promise);
    expect(limits.headers(access)?.["ratelimit"]).toBe('"create_per_minute";r=1;t=0');
    hold.resolve();
    await making;
    clock.ms = 20_000;
    await limits.run(access, 1, () => Promise.resolve());
    clock.ms = 30_000;
    const wait = async (wanted: number): Promise<string | undefined> =>
      limits.run(access, wanted, () => Promise.resolve("")).catch((error: E2bError) => error.headers?.["retry-after"]);
    expect([await wait(1), await wait(2), await wait(3)]).toStrictEqual(["30", "30", "50"]);
  });
});

describe("a deployment without limits", () => {
  it("counts nothing and says nothing of limits", async () => {
    let asked = 0;
    const fleet = createFleet({
      store: (store) => ({ ...bound(store), count: () => ((asked += 1), 0) }),
    });
    expect((await post(fleet)).headers.get("ratelimit-policy")).toBeNull();
    expect(asked).toBe(0);
    expect(NODE).toBe(fleet.node.address);
  });
});

/** A store whose methods can be spread into another object. */
function bound<T extends object>(store: T): T {
  return new Proxy({} as T, {
    ownKeys: () => Object.getOwnPropertyNames(Object.getPrototypeOf(store)),
    getOwnPropertyDescriptor: (_target, name) => ({
      configurable: true,
      enumerable: name !== "constructor",
      value: (Reflect.get(store, name) as (...args: unknown[]) => unknown).bind(store),
    }),
    get: (_target, name) => (Reflect.get(store, name) as (...args: unknown[]) => unknown).bind(store),
  });
}
