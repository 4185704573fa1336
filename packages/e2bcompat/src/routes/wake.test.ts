import { setImmediate as nextTurn } from "node:timers/promises";
import type { SandboxStore } from "@org/scale";
import { answers } from "@org/scale/testing";
import { describe, expect, it } from "vitest";
import { createFleet } from "../testing/fleet.ts";
import type { Fleet, Reply } from "../testing/fleet.ts";

function rawId(id: string): string {
  return id.replace("sb-", "sb_");
}

async function pausedSandbox(fleet: Fleet, body: object = {}): Promise<string> {
  const id = await fleet.create(body);
  expect((await fleet.send("POST", `/sandboxes/${id}/pause`)).status).toBe(204);
  return id;
}

/** Puts random turns of the event loop before and after every call to the nodes. */
function unsteady(store: SandboxStore, random: () => number): SandboxStore {
  const turns = async (): Promise<void> => {
    for (let left = Math.floor(random() * 4); left > 0; left -= 1) {
      await nextTurn();
    }
  };
  return new Proxy(store, {
    get: (target, name) => {
      const method: unknown = Reflect.get(target, name);
      if (typeof method !== "function") {
        return method;
      }
      const call = (...args: unknown[]): unknown => Reflect.apply(method, target, args);
      return ["read", "pause", "resume", "renew"].includes(String(name))
        ? async (...args: unknown[]) => {
            await turns();
            const result = await call(...args);
            await turns();
            return result;
          }
        : call;
    },
  });
}

/** Uniform numbers that a seed determines. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

describe("a hundred connects at once to a paused sandbox", () => {
  it("are one wake, and a working answer each", async () => {
    const fleet = createFleet({ store: (store) => unsteady(store, seeded(7)) });
    const id = await pausedSandbox(fleet);
    const replies = await Promise.all(
      Array.from({ length: 100 }, (_, index) =>
        fleet.send("POST", `${index % 2 === 0 ? "" : "/v2"}/sandboxes/${id}/connect`, { timeout: 30 }),
      ),
    );
    expect(fleet.calls("wake")).toHaveLength(1);
    const token = fleet.node.sandboxes[0]?.token;
    for (const { status, body } of replies) {
      expect([200, 201]).toContain(status);
      expect(body.envdAccessToken).toBe(token);
    }
    expect(replies.some(({ status }) => status === 201)).toBe(true);
  });

  it("all get the failure of a wake that fails, and the next one tries again", async () => {
    const fleet = createFleet();
    const id = await pausedSandbox(fleet);
    fleet.node.script("wake", answers(500, "no memory"));
    const connect = (): Promise<Reply> => fleet.send("POST", `/sandboxes/${id}/connect`);
    const replies = await Promise.all(Array.from({ length: 100 }, connect));
    expect(fleet.calls("wake")).toHaveLength(1);
    for (const { status, body } of replies) {
      expect([status, body]).toStrictEqual([500, { code: 500, message: expect.any(String) as string }]);
    }
    expect((await connect()).status).toBe(201);
  });
});

describe("a sandbox that the end of its lease archives between two steps of a connect", () => {
  it("is woken again, and the answer is true", async () => {
    const fleet = createFleet();
    const id = await fleet.create({ autoPause: true, timeout: 1 });
    const row = fleet.node.sandboxes[0]!;
    fleet.node.script("renew", () => {
      fleet.node.hold({ ...row, archived: true, entry: { ...row.entry, phase: "Archived" } });
      return answers(409, "archived sandboxes have no lease to renew: wake it first")({} as never);
    });
    const reply = await fleet.send("POST", `/sandboxes/${id}/connect`, { timeout: 60 });
    expect(reply.status).toBe(200);
    expect(fleet.calls("wake")).toHaveLength(1);
    expect((await fleet.send("GET", `/sandboxes/${id}`)).body.state).toBe("running");
  });

  it("is an answer when that never ends", async () => {
    const fleet = createFleet();
    const id = await pausedSandbox(fleet);
    fleet.node.always("wake", () => undefined);
    const reply = await fleet.send("POST", `/sandboxes/${id}/connect`);
    expect([reply.status, reply.body.code]).toStrictEqual([503, 503]);
    expect(reply.headers.get("retry-after")).toBe("1");
    expect(fleet.calls("wake").length).toBeLessThanOrEqual(4);
  });

  it("keeps what its creator wants to happen at the end, however often somebody connects", async () => {
    const fleet = createFleet();
    const id = await fleet.create({ autoPause: true, timeout: 10 });
    expect(fleet.calls("claim")[0]?.claim?.onExpire).toBe("archive");
    for (let round = 0; round < 2; round += 1) {
      await fleet.send("POST", `/sandboxes/${id}/connect`, { timeout: 400 + round * 100 });
    }
    expect(fleet.calls("renew").map(({ lease }) => lease)).toStrictEqual([{ ttlSeconds: 400 }, { ttlSeconds: 500 }]);
  });
});

describe("a pause and a connect at the same instant", () => {
  it.each([
    ["connect", 1],
    ["connect", 2],
    ["resume", 3],
  ])("leave the state of the last answer behind, 200 times (%s, seed %i)", async (verb, seed) => {
    const random = seeded(seed);
    const fleet = createFleet({ store: (store) => unsteady(store, random) });
    const id = await fleet.create({ timeout: 20 });
    const outcomes = new Set<string>();
    const begin = async (): Promise<void> => {
      for (let left = Math.floor(random() * 8); left > 0; left -= 1) {
        await nextTurn();
      }
    };
    for (let round = 0; round < 200; round += 1) {
      let last: readonly [string, number] = ["", 0];
      const pause = async (): Promise<void> => {
        await begin();
        const { status } = await fleet.send("POST", `/sandboxes/${id}/pause`);
        expect([204, 409]).toContain(status);
        last = ["paused", status];
      };
      const wake = async (): Promise<void> => {
        await begin();
        // Sometimes with a renewal, sometimes without.
        const { status } = await fleet.send("POST", `/sandboxes/${id}/${verb}`, {
          timeout: random() < 0.5 ? 1 : 86_400,
        });
        expect(verb === "resume" ? [201, 409] : [200, 201]).toContain(status);
        last = ["running", status];
      };
      await Promise.all([pause(), wake()]);
      const { body } = await fleet.send("GET", `/sandboxes/${id}`);
      expect([round, body.state]).toStrictEqual([round, last[0]]);
      outcomes.add(last.join(" "));
    }
    // All ways for it to end did happen.
    expect(outcomes.size).toBeGreaterThanOrEqual(2);
    expect(fleet.node.sandboxes[0]?.entry.id).toBe(rawId(id));
  });
});
