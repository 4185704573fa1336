import { describe, expect, test } from "vitest";
import type { SandboxRow } from "@org/sandboxd-client/wire";
import { startFakeNode, type FakeNodeOptions } from "../testing/fake-node.ts";

const TOKEN = "root-token";
const TENANTS = [
  { name: "acme", token: "acme-token" },
  { name: "bolt", token: "bolt-token" },
];

function clock(): { now: () => number; add: (seconds: number) => void } {
  let time = Date.UTC(2030, 0, 1);
  return { now: () => time, add: (seconds) => void (time += seconds * 1000) };
}

async function withClaim(options: FakeNodeOptions, claim: object = { template: "base" }) {
  const node = await startFakeNode({ token: TOKEN, ...options });
  const sandbox = await node.api.claim(claim);
  return { node, api: node.api, sandbox, path: `/v1/sandboxes/${sandbox.id}` };
}

describe("the gates", () => {
  const rootRoutes = [
    "GET /v1/info",
    "GET /metrics",
    "POST /v1/drain",
    "PUT /v1/pools",
    "GET /v1/sandboxes/sb_x",
  ] as const;
  test.each(rootRoutes)("%s is the operator's alone", async (route) => {
    await using node = await startFakeNode({ token: TOKEN, tenants: TENANTS });
    const [method = "", path = ""] = route.split(" ");
    const call = (bearer: string) => node.api.call(method, path, method === "PUT" ? { pools: [] } : undefined, bearer);
    expect([(await call("wrong")).status, (await call("wrong")).json()]).toEqual([401, { error: "invalid api token" }]);
    expect([(await call("acme-token")).status, (await call("acme-token")).json()]).toEqual([
      403,
      { error: "operator token required" },
    ]);
    expect([200, 404]).toContain((await call(TOKEN)).status);
  });

  const sandboxRoutes = ["release", "hibernate", "wake", "renew"] as const;
  test.each(sandboxRoutes)("%s takes the sandbox's token or the operator's, and is 404 to strangers", async (verb) => {
    const { node, api, sandbox, path } = await withClaim({ tenants: TENANTS });
    await using _ = node;
    const call = (bearer: string) => api.call("POST", `${path}/${verb}`, undefined, bearer);
    const missing = await fetch(`http://${node.address}${path}/${verb}`, { method: "POST" });
    expect([missing.status, await missing.json()]).toEqual([401, { error: "missing bearer token" }]);
    for (const bearer of ["wrong", "acme-token"]) {
      const answer = await call(bearer);
      expect([answer.status, answer.json()]).toEqual([404, { error: "unknown sandbox" }]);
    }
    expect((await call(sandbox.token)).status).toBeLessThan(300);
  });

  test.each(["bearer root-token", "Bearer  root-token", "Basic root-token", "root-token"])(
    "%s is no bearer",
    async (authorization) => {
      await using node = await startFakeNode({ token: TOKEN });
      const answer = await fetch(`http://${node.address}/v1/info`, { headers: { authorization } });
      expect(answer.status).toBe(401);
    },
  );

  test("of an open node let everyone do what needs no sandbox's token, and hide that token", async () => {
    await using node = await startFakeNode();
    const sandbox = await node.api.claim();
    expect((await node.api.info()).claimed).toBe(1);
    const row = (await node.api.call("GET", `/v1/sandboxes/${sandbox.id}`)).json();
    expect(row.id).toBe(sandbox.id);
    expect(row).not.toHaveProperty("token");
    expect((await node.api.call("POST", `/v1/sandboxes/${sandbox.id}/release`)).status).toBe(401);
    expect((await node.api.call("POST", `/v1/sandboxes/${sandbox.id}/release`, undefined, "any")).status).toBe(404);
    expect((await node.api.call("POST", `/v1/sandboxes/${sandbox.id}/release`, undefined, sandbox.token)).status).toBe(
      204,
    );
  });
});

describe("reads", () => {
  test("show the token by id to the operator, and never in the index", async () => {
    const { node, api, sandbox, path } = await withClaim({});
    await using _ = node;
    expect((await api.call("GET", path)).json()).toMatchObject({ id: sandbox.id, token: sandbox.token });
    expect((await api.call("GET", "/v1/sandboxes")).text).not.toContain(sandbox.token);
    expect((await api.call("GET", "/v1/sandboxes/sb_0000000000000000")).json()).toEqual({ error: "unknown sandbox" });
  });

  test("filter by reference, by every metadata pair and by owner", async () => {
    await using node = await startFakeNode({ token: TOKEN, tenants: TENANTS });
    const { api } = node;
    const one = await api.claim({ template: "b", claim_ref: "ns/a", metadata: { a: "1", b: "x=y" } });
    const two = await api.claim({ template: "b", claim_ref: "ns/a", metadata: { a: "1" } });
    const three = (await api.call("POST", "/v1/claim", { template: "b" }, "acme-token")).json() as { id: string };
    const ids = async (query: string, bearer = TOKEN): Promise<string[]> =>
      ((await api.call("GET", `/v1/sandboxes${query}`, undefined, bearer)).json()["sandboxes"] as SandboxRow[])
        .map((row) => row.id)
        .sort();
    expect(await ids("")).toEqual([one.id, two.id, three.id].sort());
    expect(await ids("?claim_ref=ns/a")).toEqual([one.id, two.id].sort());
    expect(await ids("?claim_ref=")).toHaveLength(3);
    expect(await ids("?metadata=a%3D1&metadata=b%3Dx%3Dy")).toEqual([one.id]);
    expect(await ids("?metadata=toString%3Dx")).toEqual([]);
    expect(await ids("?tenant=acme")).toEqual([three.id]);
    expect(await ids("", "acme-token")).toEqual([three.id]);
    expect(await ids("?tenant=acme", "bolt-token")).toEqual([]);
    for (const query of ["?metadata=a", "?metadata=%3D1", "?metadata=a%3D1&metadata=a%3D2"]) {
      expect((await api.call("GET", `/v1/sandboxes${query}`)).status).toBe(400);
    }
  });

  test("of the owner answer the sandbox's own token only", async () => {
    const { node, api, sandbox, path } = await withClaim({});
    await using _ = node;
    expect((await api.call("GET", `${path}/owner`, undefined, sandbox.token)).json()).toEqual({
      owner_addr: node.address,
    });
    for (const bearer of [TOKEN, "wrong"]) {
      const answer = await api.call("GET", `${path}/owner`, undefined, bearer);
      expect([answer.status, answer.json()]).toEqual([404, { error: "not owned here" }]);
    }
    expect((await fetch(`http://${node.address}${path}/owner`)).status).toBe(401);
  });

  test("of stats name the tier and what the guest holds", async () => {
    const start = Date.UTC(2030, 0, 1);
    const { node, api, sandbox, path } = await withClaim({ now: () => start }, { template: "b", size: "medium" });
    await using _ = node;
    expect((await api.call("GET", `${path}/stats`)).json()).toEqual({
      id: sandbox.id,
      cpu_count: 2,
      mem_total_bytes: 1_073_741_824,
      mem_used_bytes: 4096,
      mem_used_measured: true,
      hibernated: false,
      measured_at: "2030-01-01T00:00:00.000Z",
    });
    expect((await api.call("GET", `${path}/stats`, undefined, sandbox.token)).status).toBe(401);
  });

  test("of info name the node as the claim did", async () => {
    const { node, api, sandbox } = await withClaim({});
    await using _ = node;
    const info = await api.info();
    expect(info.advertise_addr).toBe(sandbox.owner_addr);
    expect(info).toMatchObject({ claimed: 1, hibernated: 0, archived: 0, templates: [], peers: [] });
    expect(info).not.toHaveProperty("draining");
  });
});

describe("release", () => {
  test("destroys the guest, and is 404 the second time", async () => {
    const { node, api, sandbox, path } = await withClaim({});
    await using _ = node;
    expect((await api.call("POST", `${path}/release`)).status).toBe(204);
    expect(node.guest(sandbox.id).destroyed).toBe(true);
    expect((await api.call("POST", `${path}/release`)).status).toBe(404);
    expect(await api.rows()).toEqual([]);
  });
});

describe("hibernate and wake", () => {
  test("freeze and thaw, and may be repeated", async () => {
    const { node, api, sandbox, path } = await withClaim({});
    await using _ = node;
    for (const paused of [true, true, false, false]) {
      expect((await api.call("POST", `${path}/${paused ? "hibernate" : "wake"}`)).status).toBe(204);
      expect(node.guest(sandbox.id).frozen).toBe(paused);
      expect((await api.rows())[0]?.hibernated).toBe(paused);
    }
    expect((await api.call("GET", "/metrics")).text).toMatch(
      /sandboxd_hibernates_total 1\n[^]*sandboxd_wakes_total 1\n|sandboxd_wakes_total 1\n[^]*sandboxd_hibernates_total 1\n/,
    );
  });

  test("queue behind each other, so that the last acknowledged one wins", async () => {
    const { node, api, sandbox, path } = await withClaim({ slowFreeze: true });
    await using _ = node;
    const pause = api.call("POST", `${path}/hibernate`);
    while (node.guest(sandbox.id).release === undefined) {
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    const resume = api.call("POST", `${path}/wake`);
    node.guest(sandbox.id).release?.();
    expect([(await pause).status, (await resume).status]).toEqual([204, 204]);
    expect(node.guest(sandbox.id).frozen).toBe(false);
    expect((await api.rows())[0]?.hibernated).toBe(false);
  });

  test.each([
    ["hibernate", {}],
    ["checkpoint", {}],
    ["promote", { template: "app" }],
    ["fork", { count: 1 }],
  ])("a guest that does not stop is 500 to a %s, and goes on", async (verb, body) => {
    await using node = await startFakeNode({ token: TOKEN });
    const { id } = await node.api.claim();
    const guest = node.guest(id);
    guest.stubborn = true;
    const path = `/v1/sandboxes/${id}`;
    const answer = await node.api.call("POST", `${path}/${verb}`, body);
    expect([answer.status, answer.json()]).toEqual([500, { error: `${verb} failed` }]);
    expect([guest.frozen, (await node.api.call("GET", path)).json()["hibernated"]]).toEqual([false, false]);
    guest.stubborn = false;
    expect((await node.api.call("POST", `${path}/hibernate`)).status).toBe(204);
  });

  test("a release does not wait for what has not begun", async () => {
    await using node = await startFakeNode({ token: TOKEN });
    const { id } = await node.api.claim();
    const guest = node.guest(id);
    const { promise: copied, resolve: goOn } = Promise.withResolvers<void>();
    guest.copying = copied;
    const path = `/v1/sandboxes/${id}`;
    const waiting = ["checkpoint", "hibernate", "checkpoint", "wake"].map(
      async (verb) => (await node.api.call("POST", `${path}/${verb}`, {})).status,
    );
    await expect.poll(() => guest.frozen).toBe(true);
    await new Promise((resolve) => setTimeout(resolve, 30));
    const released = node.api.call("POST", `${path}/release`);
    await expect.poll(async () => (await node.api.info()).claimed).toBe(0);
    goOn();
    expect((await released).status).toBe(204);
    expect(await Promise.all(waiting)).toEqual([404, 404, 404, 404]);
  });

  test("are 409 in the egress lane", async () => {
    const { node, api, path } = await withClaim({ egressLane: true }, { template: "b", net: "egress" });
    await using _ = node;
    const answer = await api.call("POST", `${path}/hibernate`);
    expect([answer.status, answer.json()]).toEqual([409, { error: "egress-lane sandboxes do not hibernate" }]);
  });

  test("are 409 once the guest has ended by itself, which the row says", async () => {
    const { node, api, sandbox, path } = await withClaim({});
    await using _ = node;
    node.guest(sandbox.id).end("signal SIGKILL");
    await new Promise((resolve) => setImmediate(resolve));
    expect((await api.rows())[0]?.failed).toBe("guest ended: signal SIGKILL");
    expect((await api.info()).failed).toBe(1);
    for (const verb of ["hibernate", "wake"]) {
      expect((await api.call("POST", `${path}/${verb}`)).status).toBe(409);
    }
    expect((await api.call("POST", `${path}/release`)).status).toBe(204);
  });
});

describe("renew", () => {
  test.each([
    ["no body", undefined, 300],
    ["an empty object", {}, 300],
    ["a shorter lease", { ttl_seconds: 5 }, 5],
    ["another case", { TTL_Seconds: 6 }, 6],
    ["too long a lease", { ttl_seconds: 1e6 }, 86_400],
  ])("grants with %s", async (_name, body, granted) => {
    const time = clock();
    const { node, api, path } = await withClaim({ now: time.now }, { template: "b", ttl_seconds: 1000 });
    await using _ = node;
    time.add(10);
    const answer = await api.call("POST", `${path}/renew`, body);
    expect(Date.parse(String(answer.json()["deadline"]))).toBe(time.now() + granted * 1000);
    expect(Date.parse((await api.rows())[0]?.deadline ?? "")).toBe(time.now() + granted * 1000);
  });

  test("refuses bad bodies and keeps the action it is not given", async () => {
    const { node, api, path } = await withClaim({}, { template: "b", on_expire: "archive" });
    await using _ = node;
    expect((await api.call("POST", `${path}/renew`, "nope")).status).toBe(400);
    expect((await api.call("POST", `${path}/renew`, { on_expire: "x" })).status).toBe(400);
    await api.call("POST", `${path}/renew`, { ttl_seconds: 5 });
    expect((await api.rows())[0]?.on_expire).toBe("archive");
    await api.call("POST", `${path}/renew`, { on_expire: "destroy" });
    expect((await api.rows())[0]).not.toHaveProperty("on_expire");
  });
});

describe("the end of a lease", () => {
  test.each(["running", "hibernated"])("destroys a %s sandbox", async (state) => {
    const time = clock();
    const { node, api, sandbox, path } = await withClaim({ now: time.now }, { template: "b", ttl_seconds: 10 });
    await using _ = node;
    if (state === "hibernated") {
      await api.call("POST", `${path}/hibernate`);
    }
    time.add(9);
    await node.node.reap();
    expect(await api.rows()).toHaveLength(1);
    time.add(2);
    await node.node.reap();
    expect(await api.rows()).toEqual([]);
    expect(node.guest(sandbox.id).destroyed).toBe(true);
    expect((await api.call("GET", "/metrics")).text).toContain("sandboxd_reaps_total 1\n");
  });

  test("archives when asked to, and a wake grants the same lease afresh", async () => {
    const time = clock();
    const { node, api, sandbox, path } = await withClaim(
      { now: time.now },
      { template: "b", ttl_seconds: 10, on_expire: "archive" },
    );
    await using _ = node;
    time.add(11);
    await node.node.reap();
    const [row] = await api.rows();
    expect(row).toMatchObject({ archived: true, deadline: "0001-01-01T00:00:00Z", on_expire: "archive" });
    expect(node.guest(sandbox.id)).toMatchObject({ frozen: true, destroyed: false });
    expect((await api.call("POST", `${path}/renew`)).status).toBe(409);
    expect(await api.info()).toMatchObject({ claimed: 1, archived: 1, hibernated: 0 });
    time.add(86_400 * 30);
    await node.node.reap();
    expect((await api.call("POST", `${path}/wake`)).status).toBe(204);
    expect(Date.parse((await api.rows())[0]?.deadline ?? "")).toBe(time.now() + 10_000);
    expect(node.guest(sandbox.id).frozen).toBe(false);
  });

  test("follows the pool's idle and archive windows", async () => {
    const time = clock();
    await using node = await startFakeNode({ token: TOKEN, now: time.now });
    const pools = [
      {
        template: "b",
        warm: 0,
        idle_hibernate_seconds: 10,
        archive_after_seconds: 20,
        archive_delete_after_seconds: 30,
      },
    ];
    expect((await node.api.call("PUT", "/v1/pools", { pools })).status).toBe(200);
    await node.api.claim({ template: "b", ttl_seconds: 1000 });
    const step = async (seconds: number) => {
      time.add(seconds);
      await node.node.reap();
      return (await node.api.rows())[0];
    };
    expect(await step(9)).toMatchObject({ hibernated: false });
    expect(await step(1)).toMatchObject({ hibernated: true });
    expect(await step(10)).toMatchObject({ archived: true, deadline: new Date(time.now() + 30_000).toISOString() });
    expect(await step(30)).toBeUndefined();
    expect((await node.api.call("GET", "/metrics")).text).toContain("sandboxd_archive_deletes_total 1\n");
  });
});

describe("PUT /v1/pools", () => {
  test("replaces all pools, trims what is too much and leaves claims alone", async () => {
    await using node = await startFakeNode({
      token: TOKEN,
      pools: [
        { template: "a", warm: 3 },
        { template: "b", warm: 1 },
      ],
    });
    await node.warmed();
    const claim = await node.api.claim({ template: "b" });
    await node.warmed();
    const answer = await node.api.call("PUT", "/v1/pools", { pools: [{ Template: "a", WARM: 1 }] });
    expect(answer.json()).toMatchObject({ pools: [{ key: { template: "a" }, warm: 1, target: 1 }], claimed: 1 });
    expect(node.guests.filter((guest) => !guest.destroyed)).toHaveLength(2);
    expect(node.guest(claim.id).destroyed).toBe(false);
    expect((await node.api.call("PUT", "/v1/pools", {})).json()).toMatchObject({ pools: [] });
  });

  test("lets the target follow demand between warm and warm_max", async () => {
    const time = clock();
    await using node = await startFakeNode({
      token: TOKEN,
      now: time.now,
      pools: [{ template: "a", warm: 1, warmMax: 3 }],
    });
    await node.warmed();
    for (let round = 0; round < 5; round += 1) {
      await node.api.claim({ template: "a" });
    }
    await node.warmed();
    expect((await node.api.info()).pools[0]).toMatchObject({ warm: 3, target: 3 });
    time.add(120);
    expect((await node.api.info()).pools[0]).toMatchObject({ target: 1 });
  });

  test.each([
    ["no object", "[]", "invalid request body"],
    ["an unknown member", '{"pools":[],"x":1}', 'invalid request body: Unrecognized key: "x"'],
    [
      "an unknown member of a pool",
      '{"pools":[{"template":"a","warm":1,"egress":{}}]}',
      'invalid request body: pools.0: Unrecognized key: "egress"',
    ],
    ["a repeated member", '{"pools":[],"Pools":[]}', 'invalid request body: repeated member "pools"'],
    [
      "a negative count",
      '{"pools":[{"template":"a","warm":-1}]}',
      "invalid fork count: pool a|none|small: warm is negative",
    ],
    [
      "a low maximum",
      '{"pools":[{"template":"a","warm":2,"warm_max":1}]}',
      "invalid fork count: pool a|none|small: warm_max is below warm",
    ],
    [
      "the same key twice",
      '{"pools":[{"template":"a","warm":1},{"template":"a","net":"none","warm":1}]}',
      "invalid fork count: pool a|none|small: the key is there twice",
    ],
    ["a bad key", '{"pools":[{"template":"","warm":1}]}', "invalid pool key: template is empty"],
    [
      "an archive window alone",
      '{"pools":[{"template":"a","warm":1,"archive_after_seconds":5}]}',
      "invalid fork count: pool a|none|small: archive_after_seconds needs idle_hibernate_seconds",
    ],
  ])("answers 400 to %s", async (_, body, message) => {
    await using node = await startFakeNode({ token: TOKEN });
    const answer = await node.api.call("PUT", "/v1/pools", body);
    expect([answer.status, answer.json()]).toEqual([400, { error: message }]);
  });

  test("is 409 for an egress pool without a way out", async () => {
    await using node = await startFakeNode({ token: TOKEN });
    const answer = await node.api.call("PUT", "/v1/pools", { pools: [{ template: "a", net: "egress", warm: 1 }] });
    expect(answer.status).toBe(409);
  });

  test("rests after a guest could not be started, and says so", async () => {
    await using node = await startFakeNode({ token: TOKEN, start: () => Promise.reject(new Error("out of memory")) });
    await node.api.call("PUT", "/v1/pools", { pools: [{ template: "a", warm: 1 }] });
    while ((await node.api.info()).at_capacity !== true) {
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    expect(await node.api.info()).toMatchObject({
      at_capacity: true,
      at_capacity_reason: "out of memory",
      pools: [{ refilling: 0 }],
    });
  });
});

describe("the router", () => {
  test.each([
    ["GET", "/nope", 404, "404 page not found\n"],
    ["POST", "/v1/sandboxes/sb_1/exec", 404, "404 page not found\n"],
    ["GET", "/v1/sandboxes/sb_1/env", 404, "404 page not found\n"],
    ["GET", "/v1/checkpoints/ck_1/blob", 404, "404 page not found\n"],
    ["GET", "/v1/sandboxes/%zz", 404, "404 page not found\n"],
    ["GET", "/v1/claim", 405, "Method Not Allowed\n"],
    ["DELETE", "/v1/sandboxes/sb_1/ports/80", 405, "Method Not Allowed\n"],
    ["GET", "/healthz", 200, "ok"],
  ])("answers %s %s with %i in plain text", async (method, path, status, text) => {
    await using node = await startFakeNode({ token: TOKEN });
    const answer = await node.api.call(method, path, undefined, "");
    expect([answer.status, answer.text]).toEqual([status, text]);
    expect(answer.headers.get("content-type")).toMatch(/^text\/plain/);
    expect(answer.headers.has("allow")).toBe(status === 405);
  });

  test("answers an upgrade that is none of its own as the plain request it also is", async () => {
    await using node = await startFakeNode({ token: TOKEN });
    const answer = await new Promise<string>((resolve, reject) => {
      void import("node:net").then(({ connect }) => {
        const socket = connect(Number(node.address.split(":")[1]), "127.0.0.1");
        socket.on("error", reject);
        socket.on("data", (chunk: Buffer) => {
          resolve(chunk.toString("latin1"));
          socket.destroy();
        });
        const body = '{"template":"base"}';
        socket.write(
          `POST /v1/claim HTTP/1.1\r\nHost: n\r\nAuthorization: Bearer ${TOKEN}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
        );
        return undefined;
      });
    });
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  });
});
