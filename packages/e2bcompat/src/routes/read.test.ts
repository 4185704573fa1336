import { fails } from "@org/scale/testing";
import type { InventoryEntry } from "@org/scale";
import { describe, expect, it, vi } from "vitest";
import { createFleet, IMAGE, KEY_2, NODE } from "../testing/fleet.ts";
import type { Fleet } from "../testing/fleet.ts";

const DETAIL_FIELDS = [
  "templateID",
  "sandboxID",
  "clientID",
  "startedAt",
  "endAt",
  "state",
  "envdVersion",
  "cpuCount",
  "memoryMB",
  "diskSizeMB",
];
const SECOND = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/;

/** Publishes rows as a node's inventory. */
function publishRows(fleet: Fleet, rows: readonly Partial<InventoryEntry>[]): void {
  for (const [index, row] of rows.entries()) {
    const id = row.id ?? `sb_${index.toString(16).padStart(4, "0")}`;
    fleet.node.hold({
      archived: false,
      token: "t",
      entry: {
        name: `ns1/e2b-${index}`,
        phase: "Running",
        template: IMAGE,
        net: "none",
        size: "small",
        claimedAt: new Date(Date.UTC(2026, 0, 1, 0, 0, index)),
        deadline: new Date(Date.UTC(2026, 0, 2)),
        ...row,
        id,
      },
    });
  }
  fleet.publish();
}

function idsOf(body: readonly { readonly sandboxID: string }[]): readonly string[] {
  return body.map((item) => item.sandboxID);
}

describe("GET /sandboxes/{sandboxID}", () => {
  it("works right after create, before any poll", async () => {
    const fleet = createFleet();
    const id = await fleet.create({ metadata: { user: "ann" }, timeout: 60 });
    const reply = await fleet.send("GET", `/sandboxes/${id}`);
    expect(reply.status).toBe(200);
    expect(Object.keys(reply.body)).toStrictEqual(expect.arrayContaining(DETAIL_FIELDS));
    expect(reply.body).toMatchObject({
      templateID: IMAGE,
      alias: "base",
      sandboxID: id,
      clientID: NODE,
      state: "running",
      envdVersion: "0.8.0",
      cpuCount: 1,
      memoryMB: 512,
      diskSizeMB: 0,
      metadata: { user: "ann" },
      domain: "sandbox.example.com",
    });
    expect(reply.body.startedAt).toMatch(SECOND);
    expect(reply.body.endAt).toMatch(SECOND);
    expect(reply.body).not.toHaveProperty("envdAccessToken");
  });

  it("reads state and end from the node, not from inventory", async () => {
    const fleet = createFleet();
    publishRows(fleet, [{}]);
    const row = fleet.node.sandboxes[0]!;
    const deadline = new Date(Date.UTC(2026, 5, 1, 12, 0, 0, 999));
    fleet.node.hold({ ...row, entry: { ...row.entry, phase: "Hibernated", deadline } });
    const reply = await fleet.send("GET", "/sandboxes/sb-0000");
    expect(reply.body).toMatchObject({ state: "paused", endAt: "2026-06-01T12:00:00Z" });
  });

  it("differs in its state only before and after a pause", async () => {
    const fleet = createFleet();
    const id = await fleet.create({ metadata: { a: "b" } });
    const before = await fleet.send("GET", `/sandboxes/${id}`);
    await fleet.send("POST", `/sandboxes/${id}/pause`);
    const after = await fleet.send("GET", `/sandboxes/${id}`);
    expect(after.body).toStrictEqual({ ...before.body, state: "paused" });
  });

  it("counts an archived sandbox as paused", async () => {
    const fleet = createFleet();
    publishRows(fleet, [{}]);
    const row = fleet.node.sandboxes[0]!;
    fleet.node.hold({ ...row, archived: true, entry: { ...row.entry, phase: "Hibernated" } });
    expect((await fleet.send("GET", "/sandboxes/sb-0000")).body.state).toBe("paused");
  });

  it.each([
    ["neither", undefined, undefined],
    ["no end", new Date(Date.UTC(2026, 0, 1)), undefined],
    ["no start, and a clock behind ours", undefined, new Date(Date.UTC(2020, 0, 1))],
    ["an end before its start", new Date(Date.UTC(2026, 0, 2)), new Date(Date.UTC(2026, 0, 1))],
    ["dates that are none", new Date(Number.NaN), new Date(Number.NaN)],
  ])("always has a start and an end behind it: %s", async (_what, claimedAt, deadline) => {
    const fleet = createFleet();
    publishRows(fleet, [{ claimedAt, deadline }]);
    for (const path of ["/sandboxes/sb-0000", "/sandboxes", "/v2/sandboxes"]) {
      const { body } = await fleet.send("GET", path);
      const detail = Array.isArray(body) ? body[0] : body;
      expect(detail.startedAt).toMatch(SECOND);
      expect(Date.parse(detail.endAt)).toBeGreaterThanOrEqual(Date.parse(detail.startedAt));
    }
  });

  it.each([
    [4, 8_589_934_592, 4, 8192],
    [0, 0, 2, 1024],
    [-1, Number.NaN, 2, 1024],
    [2 ** 60, undefined, 2, 1024],
  ])("shows %d CPUs and %d bytes as %d and %d MiB", async (cpuCount, memoryBytes, cpus, memory) => {
    const fleet = createFleet();
    publishRows(fleet, [{ size: "medium", cpuCount, memoryBytes }]);
    expect((await fleet.send("GET", "/sandboxes/sb-0000")).body).toMatchObject({ cpuCount: cpus, memoryMB: memory });
  });

  it("does not move the end of the lease", async () => {
    const fleet = createFleet();
    const id = await fleet.create();
    for (let times = 0; times < 20; times += 1) {
      await fleet.send("GET", `/sandboxes/${id}`);
    }
    expect(fleet.calls("renew")).toHaveLength(0);
  });

  it("is 500 when its node does not answer", async () => {
    const fleet = createFleet();
    publishRows(fleet, [{}]);
    fleet.node.always("sandbox", fails({ kind: "unsent" }));
    const reply = await fleet.send("GET", "/sandboxes/sb-0000");
    expect(reply.status).toBe(500);
    expect(reply.body.code).toBe(500);
  });
});

describe.each(["/sandboxes", "/v2/sandboxes"])("GET %s", (path) => {
  it("is an empty array without sandboxes", async () => {
    expect((await createFleet().send("GET", path)).text).toBe("[]");
  });

  it("shows a new sandbox and forgets a killed one at once, in its own namespace only", async () => {
    const fleet = createFleet();
    const id = await fleet.create();
    await fleet.create({}, KEY_2);
    const listed = await fleet.send("GET", path);
    expect(idsOf(listed.body)).toStrictEqual([id]);
    expect(Object.keys(listed.body[0])).toStrictEqual(expect.arrayContaining(DETAIL_FIELDS));
    await fleet.send("DELETE", `/sandboxes/${id}`);
    expect((await fleet.send("GET", path)).body).toStrictEqual([]);
  });

  it("filters by state", async () => {
    const fleet = createFleet();
    publishRows(fleet, [{}, { phase: "Hibernated" }]);
    const rows = [
      ["", ["sb-0001", "sb-0000"]],
      ["?state=running", ["sb-0000"]],
      ["?state=paused", ["sb-0001"]],
      ["?state=running,paused", ["sb-0001", "sb-0000"]],
      ["?state=running%2Cpaused", ["sb-0001", "sb-0000"]],
      ["?state=paused&state=running", ["sb-0001", "sb-0000"]],
    ] as const;
    for (const [query, ids] of rows) {
      expect(idsOf((await fleet.send("GET", path + query)).body)).toStrictEqual(ids);
    }
  });

  it("filters by the template in every spelling of it", async () => {
    const fleet = createFleet({
      aliases: [
        { alias: "base", image: IMAGE, size: "small" },
        { alias: "also", image: IMAGE, size: "large" },
      ],
    });
    publishRows(fleet, [{}, { template: "other:1" }, { template: "e2b/ns1/mine" }, { template: "e2b/ns2/mine" }]);
    const rows = [
      ["base", ["sb-0000"]],
      ["also", ["sb-0000"]],
      [encodeURIComponent(IMAGE), ["sb-0000"]],
      ["other:1", ["sb-0001"]],
      ["mine", ["sb-0002"]],
      ["nope", []],
    ] as const;
    for (const [template, ids] of rows) {
      expect(idsOf((await fleet.send("GET", `${path}?template=${template}`)).body)).toStrictEqual(ids);
    }
    const { body } = await fleet.send("GET", `${path}?template=base`);
    expect(body[0].alias).toBe("also");
  });

  it("filters by start, to the second and inclusive", async () => {
    const fleet = createFleet();
    publishRows(fleet, [{ claimedAt: new Date(Date.UTC(2026, 0, 1, 12, 0, 0, 900)) }]);
    const rows = [
      ["2026-01-01T12:00:00.900Z", 1],
      ["2026-01-01T12:00:00Z", 1],
      ["2026-01-01T14:00:00.123456789%2B02:00", 1],
      ["2026-01-01T12:00:01Z", 0],
      ["2999-01-01T00:00:00Z", 0],
    ] as const;
    for (const [after, count] of rows) {
      expect((await fleet.send("GET", `${path}?startedAfter=${after}`)).body).toHaveLength(count);
    }
  });

  it("takes a sandbox without a start for the oldest in a filter by start, and an empty template for none", async () => {
    const fleet = createFleet();
    publishRows(fleet, [{ claimedAt: undefined }]);
    expect((await fleet.send("GET", `${path}?startedAfter=2000-01-01T00:00:00Z`)).body).toStrictEqual([]);
    expect((await fleet.send("GET", `${path}?startedAfter=1970-01-01T00:00:00Z`)).body).toHaveLength(1);
    expect((await fleet.send("GET", `${path}?template=`)).body).toHaveLength(1);
  });

  it("filters by metadata as the clients encode it", async () => {
    const fleet = createFleet();
    publishRows(fleet, [{ metadata: { "a b": "c/d&e=f+g", ü: "1", more: "x" } }, { metadata: { "a b": "c" } }, {}]);
    // Captured from a client, after its own two encodings and the query's.
    const captured = "a%252520b%3Dc%25252Fd%252526e%25253Df%25252Bg%26%2525C3%2525BC%3D1";
    expect(idsOf((await fleet.send("GET", `${path}?metadata=${captured}`)).body)).toStrictEqual(["sb-0000"]);
    const python = "a%252520b%3Dc/d%252526e%25253Df%25252Bg";
    expect(idsOf((await fleet.send("GET", `${path}?metadata=${python}`)).body)).toStrictEqual(["sb-0000"]);
    expect((await fleet.send("GET", `${path}?metadata=more%3Dy`)).body).toStrictEqual([]);
    expect((await fleet.send("GET", `${path}?metadata=toString%3Dx`)).body).toStrictEqual([]);
    expect((await fleet.send("GET", `${path}?metadata=`)).body).toHaveLength(3);
  });

  it.each([
    "state=",
    "state=sleeping",
    "state=running,",
    "metadata=owner",
    "metadata=%3Dx",
    "metadata=a%3D1%26a%3D2",
    "metadata=a%3D%25",
    "metadata=a%3D%25zz",
    "metadata=%26",
    "startedAfter=yesterday",
    "startedAfter=2026",
    "startedAfter=2026-02-30T00:00:00Z",
    "startedAfter=1767225600000",
  ])("answers 400 to ?%s", async (query) => {
    const reply = await createFleet().send("GET", `${path}?${query}`);
    expect(reply.status).toBe(400);
    expect(reply.body).toStrictEqual({ code: 400, message: expect.stringContaining(query.split("=")[0] ?? "") });
  });
});

describe("GET /v2/sandboxes page by page", () => {
  async function walk(fleet: Fleet, query: string, between?: () => void): Promise<readonly (readonly string[])[]> {
    const pages: (readonly string[])[] = [];
    let token: string | null = "";
    while (token !== null) {
      const reply = await fleet.send("GET", `/v2/sandboxes?${query}&nextToken=${token}`);
      expect(reply.status).toBe(200);
      pages.push(idsOf(reply.body));
      token = reply.headers.get("x-next-token");
      between?.();
    }
    return pages;
  }

  it("is 2, 2, 1 for five, newest first, and names no page after the last", async () => {
    const fleet = createFleet();
    publishRows(fleet, [{}, {}, {}, {}, {}]);
    const newest = [["sb-0004", "sb-0003"], ["sb-0002", "sb-0001"], ["sb-0000"]];
    expect(await walk(fleet, "limit=2")).toStrictEqual(newest);
    expect(await walk(fleet, "limit=2&order=desc")).toStrictEqual(newest);
    expect(await walk(fleet, "limit=2&order=asc")).toStrictEqual([
      ["sb-0000", "sb-0001"],
      ["sb-0002", "sb-0003"],
      ["sb-0004"],
    ]);
    expect(await walk(fleet, "limit=5")).toHaveLength(1);
    expect(await walk(fleet, "")).toHaveLength(1);
  });

  it("orders two sandboxes of the same second by when they were made", async () => {
    const fleet = createFleet();
    const at = (ms: number): Date => new Date(Date.UTC(2026, 0, 1, 0, 0, 0, ms));
    publishRows(fleet, [
      { id: "sb_bbbb", claimedAt: at(100) },
      { id: "sb_aaaa", claimedAt: at(900) },
    ]);
    expect(await walk(fleet, "limit=1")).toStrictEqual([["sb-aaaa"], ["sb-bbbb"]]);
  });

  it.each(["asc", "desc"])("meets sandboxes without a start once, %s, also while the clock runs", async (order) => {
    let now = Date.UTC(2026, 0, 1);
    const fleet = createFleet({ now: () => now });
    const claimedAt = undefined;
    publishRows(fleet, [{ claimedAt }, { claimedAt }, { claimedAt }, {}]);
    const pages = await walk(fleet, `limit=1&order=${order}`, () => {
      now += 1000;
    });
    expect(pages.flat().toSorted()).toStrictEqual(["sb-0000", "sb-0001", "sb-0002", "sb-0003"]);
  });

  it("neither repeats nor skips the rest when one goes away between pages", async () => {
    const fleet = createFleet();
    publishRows(fleet, [{}, {}, {}, {}, {}]);
    const first = await fleet.send("GET", "/v2/sandboxes?limit=2");
    await fleet.send("DELETE", "/sandboxes/sb-0003");
    await fleet.send("DELETE", "/sandboxes/sb-0002");
    const token = first.headers.get("x-next-token") ?? "";
    expect(idsOf((await fleet.send("GET", `/v2/sandboxes?limit=2&nextToken=${token}`)).body)).toStrictEqual([
      "sb-0001",
      "sb-0000",
    ]);
  });

  it("pages through running and paused ones together, and through either alone", async () => {
    const fleet = createFleet();
    publishRows(
      fleet,
      Array.from({ length: 6 }, (_, index) => ({ phase: index % 2 === 0 ? "Running" : "Hibernated" })),
    );
    for (const [query, count] of [
      ["limit=2", 6],
      ["limit=2&state=paused", 3],
      ["limit=2&state=running&order=asc", 3],
    ] as const) {
      const ids = (await walk(fleet, query)).flat();
      expect(new Set(ids).size).toBe(count);
      expect(ids).toHaveLength(count);
    }
  });

  it("refuses a token under the other order", async () => {
    const fleet = createFleet();
    publishRows(fleet, [{}, {}]);
    const token = (await fleet.send("GET", "/v2/sandboxes?limit=1")).headers.get("x-next-token");
    expect(token).toBeTruthy();
    expect((await fleet.send("GET", `/v2/sandboxes?limit=1&order=asc&nextToken=${token}`)).status).toBe(400);
    expect((await fleet.send("GET", `/v2/sandboxes?limit=1&order=desc&nextToken=${token}`)).status).toBe(200);
  });

  it.each([
    "limit=0",
    "limit=101",
    "limit=many",
    "limit=-1",
    "limit=1.5",
    "limit=",
    "order=sideways",
    "order=",
    "nextToken=not-a-token",
  ])("answers 400 to ?%s, which the unpaged list ignores", async (query) => {
    const fleet = createFleet();
    const reply = await fleet.send("GET", `/v2/sandboxes?${query}`);
    expect(reply.status).toBe(400);
    expect(reply.body.code).toBe(400);
    expect((await fleet.send("GET", `/sandboxes?${query}`)).status).toBe(200);
  });

  it("leaves the unpaged list whole and without a token", async () => {
    const fleet = createFleet();
    publishRows(fleet, [{}, {}, {}, {}, {}]);
    const reply = await fleet.send("GET", "/sandboxes?limit=1");
    expect(reply.body).toHaveLength(5);
    expect(reply.headers.has("x-next-token")).toBe(false);
  });

  it("is 500 when inventory fails", async () => {
    const fleet = createFleet({
      store: (store) => ({
        ...store,
        list: () => {
          throw new Error("inventory is down");
        },
      }),
    });
    const reply = await fleet.send("GET", "/v2/sandboxes");
    expect(reply.status).toBe(500);
    expect(reply.body).toStrictEqual({ code: 500, message: "internal error" });
  });
});

describe("templates", () => {
  const templates = [
    {
      template: "e2b/ns1/mine",
      net: "none",
      size: "medium",
      contentDigest: "sha256:aa",
      tenant: "",
      createdAt: new Date(Date.UTC(2026, 2, 3, 4, 5, 6, 789)),
      labels: { v1: "sha256:aa", dead: "sha256:gone", v0: "sha256:aa" },
    },
    { template: "e2b/ns2/theirs", net: "none", size: "small", contentDigest: "sha256:bb", tenant: "" },
    { template: "e2b/ns1/rented", net: "none", size: "small", contentDigest: "sha256:bb", tenant: "acme" },
  ];
  const pools = [
    { template: "reg/rt:24.04", net: "none", size: "large", warm: 0, target: 1 },
    { template: IMAGE, net: "none", size: "small", warm: 1, target: 1 },
    { template: IMAGE, net: "egress", size: "small", warm: 1, target: 1 },
  ];
  const aliases = [
    { alias: "zeta", image: IMAGE, size: "small" },
    { alias: "base", image: IMAGE, size: "large" },
  ] as const;
  const options = { pools, templates, aliases, now: () => Date.UTC(2026, 0, 1, 2, 3, 4, 567) };

  it.each(["/templates", "/v2/templates", "/templates?teamID=x", "/v2/templates?limit=1"])(
    "are listed under %s with every field the clients parse",
    async (path) => {
      const fleet = createFleet(options);
      const reply = await fleet.send("GET", path);
      expect(reply.status).toBe(200);
      expect(reply.headers.has("x-next-token")).toBe(false);
      const common = { diskSizeMB: 0, public: true, createdBy: null, lastSpawnedAt: null, spawnCount: 0 };
      const pool = { ...common, buildCount: 0, buildStatus: "ready", envdVersion: "0.8.0" };
      const started = { createdAt: "2026-01-01T02:03:04Z", updatedAt: "2026-01-01T02:03:04Z" };
      expect(reply.body).toStrictEqual([
        {
          ...pool,
          ...started,
          templateID: "reg/rt:24.04",
          buildID: "reg/rt:24.04",
          cpuCount: 4,
          memoryMB: 4096,
          aliases: [],
          names: ["reg/rt:24.04"],
        },
        {
          ...pool,
          ...started,
          templateID: IMAGE,
          buildID: IMAGE,
          cpuCount: 1,
          memoryMB: 512,
          aliases: ["base", "zeta"],
          names: [IMAGE],
        },
        {
          ...pool,
          templateID: "mine",
          buildID: "a2b927ee-9198-5f91-852e-671c845fc253",
          cpuCount: 2,
          memoryMB: 1024,
          aliases: ["mine"],
          names: ["mine", "mine:v0", "mine:v1"],
          createdAt: "2026-03-03T04:05:06Z",
          updatedAt: "2026-03-03T04:05:06Z",
          buildCount: 1,
        },
      ]);
    },
  );

  it.each([
    ["base", IMAGE],
    ["zeta", IMAGE],
    ["e2b-rt%3A24.04", IMAGE],
    [IMAGE, IMAGE],
    ["reg%2Frt%3A24.04", "reg/rt:24.04"],
    ["mine", "mine"],
  ])("are found by /templates/aliases/%s", async (alias, templateID) => {
    const reply = await createFleet(options).send("GET", `/templates/aliases/${alias}`);
    expect(reply.status).toBe(200);
    expect(reply.body).toStrictEqual({ templateID, public: true });
  });

  it.each([
    "nope",
    "theirs",
    "rented",
    "e2b%2Fns1%2Fmine",
    "reg/rt:24.04",
    "reg%252Frt%253A24.04",
    "%",
    "%zz",
    "%C0%AF",
  ])("are not found by /templates/aliases/%s", async (alias) => {
    const reply = await createFleet(options).send("GET", `/templates/aliases/${alias}`);
    expect(reply.status).toBe(404);
    expect(reply.body).toStrictEqual({ code: 404, message: expect.any(String) });
  });

  it("decode a name once, so that a percent sign in it stays one", async () => {
    const fleet = createFleet({ aliases: [{ alias: "a%2Fb", image: IMAGE, size: "small" }] });
    expect((await fleet.send("GET", "/templates/aliases/a%252Fb")).status).toBe(200);
    expect((await fleet.send("GET", "/templates/aliases/a%2Fb")).status).toBe(404);
  });

  it("prefer the alias table to a built template of the same name", async () => {
    const fleet = createFleet({ ...options, aliases: [{ alias: "mine", image: IMAGE, size: "small" }] });
    expect((await fleet.send("GET", "/templates/aliases/mine")).body.templateID).toBe(IMAGE);
  });

  it.each(["/templates", "/v2/templates", "/templates/aliases/base"])("need a key for %s", async (path) => {
    expect((await createFleet(options).send("GET", path, undefined, { key: "wrong" })).status).toBe(401);
  });

  it.each(["/templates", "/templates/aliases/nope"])("are 500 for %s when inventory fails", async (path) => {
    const fleet = createFleet(options);
    vi.spyOn(fleet.source, "nodeCapacities").mockImplementation(() => {
      throw new Error("inventory is down");
    });
    const reply = await fleet.send("GET", path);
    expect(reply.status).toBe(500);
    expect(reply.body.code).toBe(500);
  });

  it("are read once per inventory generation", async () => {
    const fleet = createFleet(options);
    const read = vi.spyOn(fleet.source, "nodeCapacities");
    await fleet.send("GET", "/templates");
    await fleet.send("GET", "/templates/aliases/nope");
    expect(read).toHaveBeenCalledTimes(1);
    fleet.publish();
    await fleet.send("GET", "/templates");
    expect(read).toHaveBeenCalledTimes(2);
  });
});
