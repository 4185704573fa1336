import { describe, expect, it } from "vitest";
import { KnownEnds } from "./known-ends.ts";
import { createFleet, KEY_2, NODE } from "./testing/fleet.ts";
import type { Fleet } from "./testing/fleet.ts";

const RFC3339 = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`;
const HOUR_MS = 3_600_000;

/** A fleet whose clock the test moves. */
function timedFleet(): { readonly fleet: Fleet; readonly clock: { ms: number } } {
  const clock = { ms: Date.now() };
  return { clock, fleet: createFleet({ now: () => clock.ms }) };
}

function raw(id: string): string {
  return id.replace("sb-", "sb_");
}

const VERBS: readonly (readonly [string, string, object | undefined])[] = [
  ["GET", "", undefined],
  ["POST", "/pause", undefined],
  ["POST", "/connect", undefined],
  ["POST", "/resume", undefined],
  ["POST", "/timeout", { timeout: 5 }],
  ["POST", "/fork", undefined],
  ["GET", "/metrics", undefined],
  ["GET", "/logs", undefined],
];

type End = readonly [what: string, end: (fleet: Fleet, clock: { ms: number }, id: string) => unknown, message: RegExp];

const ENDS: readonly End[] = [
  [
    "killed with a key",
    (fleet, _clock, id) => fleet.send("DELETE", `/sandboxes/${id}`),
    new RegExp(`^sandbox not found: it was killed at ${RFC3339} with an API key$`),
  ],
  [
    "ended with its lease",
    (fleet, clock, id) => {
      fleet.node.lose(raw(id));
      clock.ms += 300_000;
    },
    new RegExp(`^sandbox not found: its lease ended at ${RFC3339}$`),
  ],
  [
    "lost with its node",
    (fleet, _clock, id) => {
      fleet.node.lose(raw(id));
      fleet.source.remove(NODE);
    },
    new RegExp(`^sandbox not found: its node ${NODE} is lost; it was last seen at ${RFC3339}$`),
  ],
  [
    "ended by something else",
    (fleet, _clock, id) => {
      fleet.node.lose(raw(id));
    },
    new RegExp(`^sandbox not found: it ended before its lease did, .*; it was last seen at ${RFC3339}$`),
  ],
];

describe.each(ENDS)("a sandbox that was %s", (_what, end, message) => {
  it("has its reason in every 404 of an hour, under either spelling, and only for its namespace", async () => {
    const { fleet, clock } = timedFleet();
    const id = await fleet.create();
    await end(fleet, clock, id);
    for (const [method, path, body] of VERBS) {
      for (const spelling of [id, raw(id)]) {
        const reply = await fleet.send(method, `/sandboxes/${spelling}${path}`, body);
        expect([method, path, reply.status, reply.body.code]).toStrictEqual([method, path, 404, 404]);
        expect(reply.body.message).toMatch(message);
      }
    }
    const stranger = await fleet.send("GET", `/sandboxes/${id}`, undefined, { key: KEY_2 });
    expect(stranger.body).toStrictEqual({ code: 404, message: "sandbox not found" });
    clock.ms += HOUR_MS - 1000;
    expect((await fleet.send("GET", `/sandboxes/${id}`)).body.message).toMatch(message);
    clock.ms += 2000;
    expect((await fleet.send("GET", `/sandboxes/${id}`)).body.message).toBe("sandbox not found");
  });
});

describe("the end of a lease", () => {
  const told = async (fleet: Fleet, id: string): Promise<string> =>
    (await fleet.send("GET", `/sandboxes/${id}`)).body.message as string;

  describe.each([
    ["setTimeout", "/timeout", { timeout: 90 }, 90],
    ["a refresh", "/refreshes", { duration: 60 }, 60],
    ["a connect that moves it out", "/connect", { timeout: 900 }, 900],
    ["a connect that leaves it", "/connect", { timeout: 10 }, 300],
  ])("is the one that %s left", (_what, path, body, seconds) => {
    it.each([
      [-30, "before its lease"],
      [0, "its lease ended"],
    ])("%i s from then", async (laterSeconds, message) => {
      const { fleet, clock } = timedFleet();
      const id = await fleet.create();
      await fleet.send("POST", `/sandboxes/${id}${path}`, body);
      fleet.node.lose(raw(id));
      clock.ms += (seconds + laterSeconds) * 1000;
      expect(await told(fleet, id)).toContain(message);
    });
  });

  it.each([-90, 90])("is judged by the length that was granted when our clock is %i s off the node's", async (off) => {
    for (const [afterMs, message] of [
      [50_000, "before its lease"],
      [60_000, "its lease ended at "],
    ] as const) {
      const clock = { ms: Date.now() + off * 1000 };
      const fleet = createFleet({ now: () => clock.ms });
      const id = await fleet.create({ timeout: 60 });
      fleet.node.lose(raw(id));
      clock.ms += afterMs;
      expect(await told(fleet, id)).toContain(message);
    }
  });
});

describe("what was never here", () => {
  it.each(["sb-0000000000000000", "nope", "sb_", ""])("stays a plain 404 (%j)", async (id) => {
    const { fleet } = timedFleet();
    await fleet.create();
    const reply = await fleet.send("POST", `/sandboxes/${id}/pause`);
    expect(reply.body).toStrictEqual({ code: 404, message: expect.stringMatching(/^(sandbox )?not found$/) as string });
  });
});

describe("KnownEnds", () => {
  it("asks for no more than one node's view, and keeps a bounded number of sandboxes", () => {
    let views = 0;
    const inventory = { nodeInventory: () => ((views += 1), undefined) };
    const ends = new KnownEnds({ inventory, now: () => 0, maxKnown: 100 });
    for (let index = 0; index < 1000; index += 1) {
      ends.leased({ namespace: "ns", node: "n", id: `sb_${index}` }, 60);
    }
    expect([ends.size, views]).toStrictEqual([100, 0]);
    expect(ends.explain("ns", "sb_0")).toBeUndefined();
    expect(ends.explain("ns", "sb-999")).toContain("its node n is lost");
    expect(views).toBe(1);
  });

  it("forgets what it knew of an id that comes back", () => {
    const ends = new KnownEnds({ inventory: { nodeInventory: () => undefined }, now: () => 0 });
    const old = { namespace: "a", node: "n", id: "sb_1" };
    ends.killed(old);
    ends.leased({ ...old, namespace: "b" }, 60);
    expect(ends.explain("a", "sb_1")).toBeUndefined();
    expect(ends.explain("b", "sb_1")).not.toContain("killed");
  });

  const place = { namespace: "ns", node: "n", id: "sb_1" };
  const listed = { nodeInventory: () => ({}) as never };
  const timed = (maxKnown?: number): { readonly clock: { ms: number }; readonly ends: KnownEnds } => {
    const clock = { ms: Date.UTC(2026, 0, 1, 12) };
    return { clock, ends: new KnownEnds({ inventory: listed, now: () => clock.ms, maxKnown }) };
  };

  it("calls nothing killed that had ended by itself, and keeps to the first kill", () => {
    const { clock, ends } = timed();
    ends.leased(place, 60);
    clock.ms += 61_000;
    ends.killed(place);
    expect(ends.explain("ns", "sb_1")).toBe("its lease ended at 2026-01-01T12:01:00Z");
    ends.leased({ ...place, id: "sb_2" }, 600);
    ends.killed({ ...place, id: "sb_2" });
    clock.ms += 10_000;
    ends.killed({ ...place, id: "sb_2" });
    expect(ends.explain("ns", "sb_2")).toContain("it was killed at 2026-01-01T12:01:01Z");
  });

  it("tells when it was seen last, and forgets what another node said of the id", () => {
    const { clock, ends } = timed();
    ends.seen({ ...place, deadline: new Date(clock.ms + 3_600_000) });
    clock.ms += 5000;
    ends.seen({ ...place, deadline: undefined });
    clock.ms += 5000;
    expect(ends.explain("ns", "sb_1")).toMatch(/before its lease did.*last seen at 2026-01-01T12:00:05Z/);
    ends.killed(place);
    ends.leased({ ...place, node: "m" }, 600);
    expect(ends.explain("ns", "sb_1")).not.toContain("killed");
  });

  it("counts an id that comes back as one that was met last", () => {
    const { ends } = timed(2);
    ends.leased(place, 60);
    ends.leased({ ...place, id: "sb_2" }, 60);
    ends.leased({ ...place, node: "m" }, 60);
    ends.leased({ ...place, id: "sb_3" }, 60);
    expect(ends.explain("ns", "sb_2")).toBeUndefined();
    expect(ends.explain("ns", "sb_1")).toBeDefined();
  });
});
