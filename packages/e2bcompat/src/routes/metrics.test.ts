import { guestAccessToken } from "@org/scale";
import { answers, staysSilent } from "@org/scale/testing";
import type { Duplex } from "node:stream";
import { describe, expect, it } from "vitest";
import { createFleet, KEY_2 } from "../testing/fleet.ts";
import type { Fleet, FleetOptions } from "../testing/fleet.ts";
import { guestDaemon } from "../testing/guest-daemon.ts";

const TS = Date.UTC(2026, 1, 3, 4, 5, 6) / 1000;
const SAID = {
  ts: TS,
  cpu_count: 2,
  cpu_used_pct: 12.34,
  mem_total_mib: 1,
  mem_used_mib: 1,
  mem_total: 1000,
  mem_used: 600,
  mem_cache: 50,
  disk_used: 7,
  disk_total: 9,
};
const SAMPLE = {
  timestamp: "2026-02-03T04:05:06Z",
  timestampUnix: TS,
  cpuCount: 2,
  cpuUsedPct: 12.34,
  memUsed: 600,
  memTotal: 1000,
  memCache: 50,
  diskUsed: 7,
  diskTotal: 9,
};

function rawId(id: string): string {
  return id.replace("sb-", "sb_");
}

/** A fleet with one sandbox whose daemon says this. */
async function measured(said: object | number = SAID, options: FleetOptions = {}) {
  const fleet = createFleet(options);
  const { calls } = guestDaemon(fleet.node, { "/metrics": said });
  const id = await fleet.create();
  calls.length = 0;
  return { fleet, id, daemon: calls };
}

/** A guest that answers with these bytes. */
function answersWith(fleet: Fleet, bytes: string): void {
  fleet.node.guest(49_983, (socket: Duplex) => {
    socket.on("error", () => undefined);
    socket.once("data", () => socket.end(bytes));
  });
}

describe("GET /sandboxes/{id}/metrics", () => {
  it("is one sample with every field the clients parse", async () => {
    const { fleet, id, daemon } = await measured();
    const reply = await fleet.send("GET", `/sandboxes/${id}/metrics`);
    expect(reply.status).toBe(200);
    expect(reply.body).toStrictEqual([SAMPLE]);
    expect(daemon).toMatchObject([{ path: "/metrics", token: undefined }]);
    // The passive relay: it wakes nothing.
    expect(fleet.calls("dialPort").at(-1)).toMatchObject({ port: 49_983, token: "" });
  });

  it("presents the derived token to the daemon, and no other", async () => {
    const { fleet, id, daemon } = await measured(SAID, { envdSecret: "a secret" });
    expect((await fleet.send("GET", `/sandboxes/${id}/metrics`)).body).toStrictEqual([SAMPLE]);
    const token = guestAccessToken(fleet.node.sandboxes[0]?.token ?? "", "a secret");
    expect(daemon).toMatchObject([{ path: "/metrics", token }]);
  });

  it.each([
    ["start=0", true],
    [`start=${TS}`, true],
    [`end=${TS}`, true],
    [`start=${TS}&end=${TS}`, true],
    [`start=${TS + 1}`, false],
    [`end=${TS - 1}`, false],
    ["start=978307200&end=978393600", false],
    [`start=${TS + 1}&end=${TS - 1}`, false],
    ["start=&end=", true],
  ])("with %s has its sample: %s", async (query, shown) => {
    const { fleet, id } = await measured();
    const reply = await fleet.send("GET", `/sandboxes/${id}/metrics?${query}`);
    expect(reply.status).toBe(200);
    expect(reply.body).toStrictEqual(shown ? [SAMPLE] : []);
  });

  it.each(["start=yesterday", "end=-1", "start=1.5", "end=1e9", "start=99999999999999999"])(
    "is a 400 for %s before it looks for the sandbox",
    async (query) => {
      const fleet = createFleet();
      const reply = await fleet.send("GET", `/sandboxes/sb-0000000000000000/metrics?${query}`);
      expect(reply.body).toMatchObject({ code: 400 });
      expect(fleet.nodes.calls).toHaveLength(0);
    },
  );

  it("takes our clock for a daemon that has none, and 0 for what an older one does not know", async () => {
    const said = { ts: 0, cpu_count: 1, cpu_used_pct: 0, mem_used: 1.5, mem_total: 2 };
    const { fleet, id } = await measured(said, { now: () => TS * 1000 + 999 });
    expect((await fleet.send("GET", `/sandboxes/${id}/metrics`)).body).toStrictEqual([
      { ...SAMPLE, cpuCount: 1, cpuUsedPct: 0, memUsed: 1, memTotal: 2, memCache: 0, diskUsed: 0, diskTotal: 0 },
    ]);
  });

  it("is empty for a paused sandbox, which is neither dialled nor woken", async () => {
    const { fleet, id } = await measured();
    await fleet.send("POST", `/sandboxes/${id}/pause`);
    const dials = fleet.calls("dialPort").length;
    expect((await fleet.send("GET", `/sandboxes/${id}/metrics`)).body).toStrictEqual([]);
    expect(fleet.calls("dialPort")).toHaveLength(dials);
    expect(fleet.calls("wake")).toHaveLength(0);
  });

  it("is empty for a sandbox that is being paused", async () => {
    const { fleet, id } = await measured();
    fleet.node.script("dialPort", answers(409, "sandbox is paused"));
    expect((await fleet.send("GET", `/sandboxes/${id}/metrics`)).body).toStrictEqual([]);
  });

  it("is a 404 for an unknown sandbox, one of another namespace, one that is lost, and one that is lost meanwhile", async () => {
    const { fleet, id } = await measured();
    const status = async (asked: string, key?: string): Promise<number> =>
      (await fleet.send("GET", `/sandboxes/${asked}/metrics`, undefined, key === undefined ? {} : { key })).status;
    expect(await status("sb-0000000000000000")).toBe(404);
    expect(await status(id, KEY_2)).toBe(404);
    fleet.node.script("dialPort", answers(404, "unknown sandbox"));
    expect(await status(id)).toBe(404);
    fleet.publish();
    fleet.node.lose(rawId(id));
    expect(await status(id)).toBe(404);
  });

  it.each<readonly [string, object | number]>([
    ["another status", 401],
    ["a list", []],
    ["no numbers", { ...SAID, mem_used: "600" }],
    ["a missing number", { ...SAID, cpu_count: undefined }],
    ["a negative number", { ...SAID, mem_total: -1 }],
    ["a time that no calendar has", { ...SAID, ts: 1e15 }],
    ["too much", { ...SAID, more: "x".repeat(70_000) }],
  ])("is a 500 for a daemon that says %s", async (_what, said) => {
    const { fleet, id } = await measured(said);
    expect((await fleet.send("GET", `/sandboxes/${id}/metrics`)).body).toMatchObject({ code: 500 });
  });

  it.each([
    ["no HTTP", "hello\r\n\r\n"],
    ["half an answer", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"],
    ["no JSON", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n<>"],
    ["nothing", ""],
  ])("is a 500 for a guest that says %s", async (_what, bytes) => {
    const { fleet, id } = await measured();
    answersWith(fleet, bytes);
    expect((await fleet.send("GET", `/sandboxes/${id}/metrics`)).body).toMatchObject({ code: 500 });
  });

  it("is a 500 for a node that fails", async () => {
    const { fleet, id } = await measured();
    fleet.node.script("sandbox", answers(500, "secret words"));
    const reply = await fleet.send("GET", `/sandboxes/${id}/metrics`);
    expect(reply.body).toMatchObject({ code: 500 });
    expect(reply.text).not.toContain("secret words");
  });
});

describe("GET /sandboxes/metrics", () => {
  it("has a sample for each sandbox that has one, under the id that was asked for", async () => {
    const { fleet, id } = await measured();
    const [raw, paused, other] = [rawId(await fleet.create()), await fleet.create(), await fleet.create({}, KEY_2)];
    await fleet.send("POST", `/sandboxes/${paused}/pause`);
    const ids = [id, raw, paused, other, "sb-0000000000000000", "__proto__"].join(",");
    const reply = await fleet.send("GET", `/sandboxes/metrics?sandbox_ids=${ids}`);
    expect(reply.status).toBe(200);
    expect(reply.body).toStrictEqual({ sandboxes: { [id]: SAMPLE, [raw]: SAMPLE } });
  });

  it("leaves out what cannot be read", async () => {
    const { fleet, id } = await measured();
    const second = await fleet.create();
    fleet.node.script("dialPort", answers(502, "guest port unreachable"));
    const reply = await fleet.send("GET", `/sandboxes/metrics?sandbox_ids=${id},${second}`);
    expect(Object.keys(reply.body.sandboxes as object)).toHaveLength(1);
  });

  it.each([
    "",
    "?sandbox_ids=",
    "?sandbox_ids=a,,b",
    "?sandbox_ids=a,a",
    "?sandbox_ids=,",
    `?sandbox_ids=${Array.from({ length: 101 }, (_, index) => `sb-${index}`).join(",")}`,
  ])("is a 400 for %s", async (query) => {
    const fleet = createFleet();
    expect((await fleet.send("GET", `/sandboxes/metrics${query}`)).body).toMatchObject({ code: 400 });
    expect(fleet.nodes.calls).toHaveLength(0);
  });

  it("is not taken for the id of a sandbox", async () => {
    expect((await createFleet().send("GET", "/sandboxes/metrics?sandbox_ids=x")).body).toStrictEqual({ sandboxes: {} });
  });

  it("asks no more than 16 guests at once, and all of them", async () => {
    const { fleet } = await measured();
    const ids = await Promise.all(Array.from({ length: 40 }, () => fleet.create()));
    let active = 0;
    let most = 0;
    fleet.node.always("sandbox", async ({ id }) => {
      active += 1;
      most = Math.max(most, active);
      await new Promise((resolve) => setImmediate(resolve));
      active -= 1;
      return fleet.node.sandboxes.find((row) => row.entry.id === id);
    });
    const reply = await fleet.send("GET", `/sandboxes/metrics?sandbox_ids=${ids.join(",")}`);
    expect(Object.keys(reply.body.sandboxes as object)).toHaveLength(40);
    expect(most).toBeLessThanOrEqual(16);
  });

  it("ends with its client", async () => {
    const { fleet, id } = await measured();
    fleet.node.always("sandbox", staysSilent());
    const client = new AbortController();
    const asking = fleet.send("GET", `/sandboxes/metrics?sandbox_ids=${id}`, undefined, { signal: client.signal });
    client.abort();
    await Promise.allSettled([asking]);
    await expect.poll(() => fleet.lines.some(({ fields }) => fields["status"] === 499)).toBe(true);
  });
});
