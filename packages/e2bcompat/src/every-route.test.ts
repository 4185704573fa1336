import { fails } from "@org/scale/testing";
import type { ScriptedStep } from "@org/scale/testing";
import { describe, expect, it, vi } from "vitest";
import { routesOf } from "./app.ts";
import { resolveOptions } from "./options.ts";
import { createFleet, IMAGE, KEY_1 } from "./testing/fleet.ts";
import type { Fleet, Reply } from "./testing/fleet.ts";

const SANDBOX = "sb-00000000000000aa";
const BUILD = "/templates/mine/builds/0198c0de-7e57-7abc-8def-000000000001";

/** Every route that asks for a key, with a body that it takes. */
const ROUTES: readonly (readonly [method: string, path: string, body?: object])[] = [
  ["POST", "/sandboxes", { templateID: "base" }],
  ["POST", "/v2/sandboxes", { templateID: "base" }],
  ["GET", "/sandboxes"],
  ["GET", "/v2/sandboxes"],
  ["GET", `/sandboxes/metrics?sandbox_ids=${SANDBOX}`],
  ["GET", `/sandboxes/${SANDBOX}`],
  ["DELETE", `/sandboxes/${SANDBOX}`],
  ["POST", `/sandboxes/${SANDBOX}/timeout`, { timeout: 5 }],
  ["POST", `/sandboxes/${SANDBOX}/refreshes`, {}],
  ["POST", `/sandboxes/${SANDBOX}/pause`, {}],
  ["POST", `/sandboxes/${SANDBOX}/connect`, {}],
  ["POST", `/v2/sandboxes/${SANDBOX}/connect`, {}],
  ["POST", `/sandboxes/${SANDBOX}/resume`, {}],
  ["POST", `/sandboxes/${SANDBOX}/fork`, {}],
  ["POST", `/sandboxes/${SANDBOX}/snapshots`, {}],
  ["PUT", `/sandboxes/${SANDBOX}/network`, {}],
  ["GET", `/sandboxes/${SANDBOX}/metrics`],
  ["GET", `/sandboxes/${SANDBOX}/logs`],
  ["GET", `/v2/sandboxes/${SANDBOX}/logs`],
  ["GET", "/snapshots"],
  ["GET", "/templates"],
  ["GET", "/v2/templates"],
  ["GET", "/templates/aliases/nope"],
  ["GET", "/templates/mine"],
  ["PATCH", "/templates/mine", {}],
  ["PATCH", "/v2/templates/mine", {}],
  ["DELETE", "/templates/mine"],
  ["GET", "/templates/mine/tags"],
  ["POST", "/templates/tags", { target: "mine", tags: ["v1"] }],
  ["DELETE", "/templates/tags", { name: "mine", tags: ["v1"] }],
  ["POST", "/v3/templates", { name: "mine" }],
  ["GET", `/templates/mine/files/${"0a".repeat(32)}`],
  ["POST", `/v2${BUILD}`, { fromImage: IMAGE }],
  ["GET", `${BUILD}/status`],
  ["GET", `${BUILD}/logs`],
];

/** Statuses that mean what they say to the clients. 502 is what they take for a dead sandbox, 504 comes from others. */
const ERRORS = [400, 401, 404, 409, 429, 500, 501, 503];

function expectError(reply: Reply, about: string): void {
  expect(ERRORS, about).toContain(reply.status);
  expect(reply.headers.get("content-type"), about).toBe("application/json");
  expect(reply.body, about).toStrictEqual({ code: reply.status, message: expect.stringMatching(/\S/) as string });
  expect(reply.headers.get("x-request-id"), about).toBeTruthy();
  expect(reply.headers.get("access-control-allow-origin"), about).toBe("*");
  if (reply.status === 429 || reply.status === 503) {
    expect(reply.headers.get("retry-after"), about).toMatch(/^[1-9]\d*$/);
  }
}

/** Asks every route and gives the answers that are errors, checked. */
async function errorsOf(fleet: Fleet, key = KEY_1, malformed?: string): Promise<number[]> {
  const statuses: number[] = [];
  for (const [method, path, body] of ROUTES) {
    const sent = method === "GET" ? undefined : (malformed ?? body);
    const headers = { origin: "https://app.example.com" };
    const reply = await fleet.send(method, path, sent, { key, headers });
    if (reply.status >= 400) {
      expectError(reply, `${method} ${path}`);
      statuses.push(reply.status);
    }
  }
  return statuses;
}

/** A fleet that lists a sandbox and has builds on. */
function listedFleet(step?: ScriptedStep): Fleet {
  const fleet = createFleet({ envdSecret: "secret", builds: {} });
  const name = "ns1/e2b-x";
  const row = { id: SANDBOX.replace("-", "_"), name, claimRef: name, phase: "Running", template: IMAGE } as const;
  fleet.node.hold({ archived: false, token: "t", entry: row });
  fleet.publish();
  if (step !== undefined) {
    for (const verb of ["claim", "sandbox", "release", "hibernate", "wake", "renew", "fork", "dialPort"] as const) {
      fleet.node.always(verb, step);
    }
    for (const verb of ["checkpoint", "checkpoints", "templates", "sandboxesByRef"] as const) {
      fleet.node.always(verb, step);
    }
  }
  return fleet;
}

describe("every error answer of every route", () => {
  it("is asked for here", () => {
    const settings = resolveOptions({
      inventory: createFleet().source,
      domain: "d",
      keys: [{ key: "k", namespace: "n" }],
    });
    const asked = new Set(ROUTES.map(([method, path]) => `${method} ${path.replace(/\?.*/, "")}`));
    for (const { method, path, keyless } of routesOf({ settings })) {
      const spelled = new RegExp(`^${method} ${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`);
      expect(keyless === true || [...asked].some((route) => spelled.test(route)), `${method} ${path}`).toBe(true);
    }
  });

  it("is a 401 that pages can read without a key, and nothing behind it runs", async () => {
    const fleet = listedFleet();
    expect(await errorsOf(fleet, "e2b_wrong")).toStrictEqual(ROUTES.map(() => 401));
    expect(fleet.nodes.calls).toStrictEqual([]);
  });

  it.each([
    ["cannot be reached", fails({ kind: "unsent" })],
    ["says nothing", fails({ kind: "uncertain" })],
    ["refuses our token", fails({ kind: "status", status: 401 })],
    ["refuses our token for good", fails({ kind: "status", status: 403 })],
    ["is behind a gateway", fails({ kind: "status", status: 502 })],
    ["is behind a slow gateway", fails({ kind: "status", status: 504 })],
    ["is busy", fails({ kind: "status", status: 503 })],
    ["takes no more", fails({ kind: "status", status: 429, nodeMessage: "draining" })],
    ["fails", fails({ kind: "status", status: 500, nodeMessage: "" })],
  ])("has a code, a message and headers when the node %s", async (_what, step) => {
    const statuses = await errorsOf(listedFleet(step));
    expect(statuses.length).toBeGreaterThan(10);
    // Only the key of the client decides whether it is let in.
    expect(statuses).not.toContain(401);
  });

  it("has them for what is not there", async () => {
    expect(await errorsOf(createFleet())).toContain(404);
  });

  it.each(["{", '"text"', "[]", "7", "null", '{"timeout":{}}'])("has them for the body %s", async (body) => {
    await errorsOf(listedFleet(), KEY_1, body);
  });

  it("has them when inventory and store break", async () => {
    const fleet = createFleet({
      store: (store) =>
        new Proxy(store, {
          get: () => () => {
            throw new Error("hunter2");
          },
        }),
    });
    vi.spyOn(fleet.source, "nodeCapacities").mockImplementation(() => {
      throw new Error("hunter2");
    });
    const statuses = await errorsOf(fleet);
    expect(statuses.filter((status) => status === 500).length).toBeGreaterThan(15);
  });
});

describe("looking at a sandbox", () => {
  it("a hundred times neither moves its end, nor wakes nor makes anything", async () => {
    const fleet = createFleet();
    const id = await fleet.create();
    const before = fleet.node.sandboxes[0]?.entry.deadline;
    const made = fleet.calls("claim").length;
    const looks = [
      `/sandboxes/${id}`,
      "/sandboxes",
      "/v2/sandboxes?limit=1",
      `/sandboxes/${id}/metrics`,
      `/sandboxes/metrics?sandbox_ids=${id}`,
      `/sandboxes/${id}/logs`,
      `/v2/sandboxes/${id}/logs`,
    ];
    for (let time = 0; time < 100; time += 1) {
      await fleet.send("GET", looks[time % looks.length] ?? "");
    }
    expect(fleet.node.sandboxes[0]?.entry.deadline).toStrictEqual(before);
    expect([fleet.calls("renew"), fleet.calls("wake")]).toStrictEqual([[], []]);
    expect(fleet.calls("claim")).toHaveLength(made);
  });

  it.each([-90, 0, 90])("shows no end before its start when our clock is %i s off", async (off) => {
    const fleet = createFleet({ now: () => Date.now() + off * 1000 });
    const id = await fleet.create({ timeout: 1 });
    for (const poll of [false, true]) {
      if (poll) {
        fleet.publish();
      }
      for (const path of [`/sandboxes/${id}`, "/sandboxes", "/v2/sandboxes"]) {
        const { status, body } = await fleet.send("GET", path);
        const [detail] = [body].flat();
        expect([status, detail.state]).toStrictEqual([200, "running"]);
        expect(Date.parse(detail.endAt)).toBeGreaterThanOrEqual(Date.parse(detail.startedAt));
      }
    }
  });
});

describe("a whole number in a body", () => {
  const FIELDS: readonly (readonly [path: string, field: string, rest: object, least: number])[] = [
    ["/v2/sandboxes", "timeout", { templateID: "base" }, 0],
    [`/sandboxes/${SANDBOX}/timeout`, "timeout", {}, 0],
    [`/sandboxes/${SANDBOX}/refreshes`, "duration", {}, 0],
    [`/sandboxes/${SANDBOX}/connect`, "timeout", {}, -1],
    [`/sandboxes/${SANDBOX}/fork`, "timeout", {}, 0],
    [`/sandboxes/${SANDBOX}/fork`, "count", {}, 1],
    ["/v3/templates", "cpuCount", { name: "mine" }, 1],
    ["/v3/templates", "memoryMB", { name: "mine" }, 1],
  ];

  it.each(FIELDS)("of POST %s: %s may be written with a fraction of nothing, and be nothing else", async (...row) => {
    const [path, field, rest, least] = row;
    const fleet = listedFleet();
    const send = (text: string): Promise<Reply> => {
      const members = Object.entries(rest).map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
      return fleet.send("POST", path, `{${[...members, `"${field}":${text}`].join(",")}}`);
    };
    for (const text of ["60.5", "1e-1", '"60"', "true", "[60]", "{}", "2147483648", "123456789012", "1e400", "-1.5"]) {
      const reply = await send(text);
      expect([text, reply.status, reply.body.code]).toStrictEqual([text, 400, 400]);
      expect(reply.body.message).toContain(field);
    }
    expect((await send(String(least - 1))).status).toBe(least < 0 ? 200 : 400);
    // The largest one is named to whoever goes over it.
    expect((await send("2147483648")).body.message).toContain("2147483647");
    for (const text of ["1.0", "1e0"]) {
      expect((await send(text)).body?.message ?? "").not.toMatch(new RegExp(`^${field}:`));
    }
  });
});

describe("what a node says of its pools", () => {
  it.each([
    [0, 503],
    [-1, 503],
    [Number.NaN, 503],
    [1, 201],
    [2 ** 53 + 2, 201],
    [Number.POSITIVE_INFINITY, 201],
  ])("with %d warm sandboxes makes a create %i", async (warm, status) => {
    const fleet = createFleet({ pools: [{ template: IMAGE, net: "none", size: "small", warm, target: 1 }] });
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: "base" });
    expect([reply.status, (await fleet.send("GET", "/templates")).status]).toStrictEqual([status, 200]);
  });
});

describe("the address of a sandbox", () => {
  it.each(["localhost", "api.one.example", "two.example:8080"])(
    "is a name that DNS takes, of the configured domain whatever host was asked (%s)",
    async (host) => {
      const fleet = createFleet();
      const { body } = await fleet.send("POST", "/v2/sandboxes", { templateID: "base" }, { headers: { host } });
      expect(body.domain).toBe("sandbox.example.com");
      const label = `65535-${body.sandboxID}`;
      expect(label.length).toBeLessThanOrEqual(63);
      expect(label).toMatch(/^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/);
    },
  );
});
