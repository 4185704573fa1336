import { describe, expect, it, vi } from "vitest";
import { createNodePool, createSandboxdClient, SandboxdError, type NodePool, type SandboxdClient } from "./index.ts";
import { httpServer, tcpServer, type TestServer } from "./testing/servers.ts";

const KEY = { template: "t", net: "none", size: "small" };
const RECORD = { id: "ck_1", name: "n/x", sandbox_id: "sb_1", key: KEY, created_at: "2026-09-28T01:02:03Z" };
const CHILD = { id: "sb_2", token: "s3cret", deadline: "2026-09-28T01:02:03Z" };
const STATS = {
  id: "sb_1",
  cpu_count: 2,
  mem_total_bytes: 1024,
  mem_used_bytes: 512,
  mem_used_measured: true,
  hibernated: false,
  measured_at: "2026-09-28T01:02:03Z",
};
const INFO = { pools: [{ key: KEY, warm: 1, refilling: 0, target: 2, golden: true }], templates: [], claimed: 0 };

interface Row {
  readonly name: string;
  readonly call: (client: SandboxdClient) => Promise<unknown>;
  /** What is sent: method, path, body. */
  readonly sends: string;
  readonly reply: unknown;
  /** Good statuses. */
  readonly good: readonly number[];
  readonly gives?: unknown;
  /** What the node's own 404 is. @default an error */
  readonly gone?: "success" | "undefined";
}

/** Routes of which any 2xx is good; their replies are read, so one without a body is not. */
const ANY_WITH_BODY = [200, 201, 202, 203, 206];

/** Every call of the client that is one request with one answer. Node API §15 and the routes' own sections. */
const ROWS: readonly Row[] = [
  {
    name: "claim",
    call: (client) => client.claim({ template: "t" }),
    sends: 'POST /v1/claim {"template":"t"}',
    reply: CHILD,
    good: [200],
    gives: { kind: "delivered", reply: CHILD },
  },
  { name: "info", call: (client) => client.info(), sends: "GET /v1/info", reply: INFO, good: [200] },
  {
    name: "peers",
    call: (client) => client.peers(),
    sends: "GET /v1/peers",
    reply: { peers: ["b:1"] },
    good: [200],
    gives: ["b:1"],
  },
  {
    name: "index",
    call: (client) => client.index(),
    sends: "GET /v1/sandboxes",
    reply: { sandboxes: [{ id: "sb_1", key: KEY }] },
    good: [200],
  },
  {
    name: "sandbox",
    call: (client) => client.sandbox("sb_1"),
    sends: "GET /v1/sandboxes/sb_1",
    reply: { id: "sb_1", key: KEY },
    good: [200],
    gone: "undefined",
  },
  {
    name: "owner",
    call: (client) => client.owner("sb_1", "own"),
    sends: "GET /v1/sandboxes/sb_1/owner",
    reply: { owner_addr: "n:1" },
    good: [200],
    gives: "n:1",
    gone: "undefined",
  },
  {
    name: "release",
    call: (client) => client.release("sb_1"),
    sends: "POST /v1/sandboxes/sb_1/release",
    reply: "",
    good: [204],
    gone: "success",
  },
  {
    name: "hibernate",
    call: (client) => client.hibernate("sb_1"),
    sends: "POST /v1/sandboxes/sb_1/hibernate",
    reply: "",
    good: [204],
  },
  {
    name: "wake",
    call: (client) => client.wake("sb_1"),
    sends: "POST /v1/sandboxes/sb_1/wake",
    reply: "",
    good: [204],
  },
  {
    name: "renew",
    call: (client) => client.renew("sb_1", { ttl_seconds: 60 }),
    sends: 'POST /v1/sandboxes/sb_1/renew {"ttl_seconds":60}',
    reply: { deadline: "2026-09-28T01:02:03Z" },
    good: ANY_WITH_BODY,
    gives: new Date("2026-09-28T01:02:03Z"),
  },
  {
    name: "fork",
    call: (client) => client.fork("sb_1", { count: 1, claim_ref_prefix: "n/", ttl_seconds: undefined }),
    sends: 'POST /v1/sandboxes/sb_1/fork {"count":1,"claim_ref_prefix":"n/"}',
    reply: { children: [CHILD] },
    good: ANY_WITH_BODY,
    gives: [CHILD],
  },
  {
    name: "checkpoint",
    call: (client) => client.checkpoint("sb_1", { name: "n/x" }),
    sends: 'POST /v1/sandboxes/sb_1/checkpoint {"name":"n/x"}',
    reply: { checkpoint: RECORD },
    good: ANY_WITH_BODY,
    gives: RECORD,
  },
  {
    name: "checkpoints",
    call: (client) => client.checkpoints(),
    sends: "GET /v1/checkpoints",
    reply: { checkpoints: [RECORD] },
    good: [200],
    gives: [RECORD],
  },
  {
    name: "claimCheckpoint",
    call: (client) => client.claimCheckpoint("ck_1", {}),
    sends: "POST /v1/checkpoints/ck_1/claim {}",
    reply: { ...CHILD, from_checkpoint: "ck_1" },
    good: [200],
    gives: { kind: "delivered", reply: { ...CHILD, from_checkpoint: "ck_1" } },
  },
  {
    name: "deleteCheckpoint",
    call: (client) => client.deleteCheckpoint("ck_1"),
    sends: "DELETE /v1/checkpoints/ck_1",
    reply: "",
    good: [204],
    gone: "success",
  },
  {
    name: "promote",
    call: (client) => client.promote("sb_1", { template: "t" }),
    sends: 'POST /v1/sandboxes/sb_1/promote {"template":"t"}',
    reply: { key: KEY, content_digest: "sha256:00" },
    good: ANY_WITH_BODY,
    gives: { key: KEY, content_digest: "sha256:00" },
  },
  {
    name: "deleteTemplate",
    call: (client) => client.deleteTemplate({ template: "a/b:c&d ü", net: "", size: "large" }, "sha256:00"),
    sends: "DELETE /v1/templates?template=a%2Fb%3Ac%26d+%C3%BC&size=large&digest=sha256%3A00&no_redirect=1",
    reply: "",
    good: [204],
    gone: "success",
  },
  {
    name: "setTemplateLabels",
    call: (client) => client.setTemplateLabels({ template: "t" }, { k: "v" }),
    sends: 'PUT /v1/templates/labels?template=t {"labels":{"k":"v"}}',
    reply: "",
    good: [204],
  },
  {
    name: "setInstanceMetadata",
    call: (client) => client.setInstanceMetadata("sb_1", Buffer.from('{ "a" :1, "a":\n2}')),
    sends: 'PUT /v1/sandboxes/sb_1/instance-metadata { "a" :1, "a":\n2}',
    reply: "",
    good: [204],
  },
  {
    name: "setPools",
    call: (client) => client.setPools([{ template: "t", warm: 2, warm_max: undefined }]),
    sends: 'PUT /v1/pools {"pools":[{"template":"t","warm":2}]}',
    reply: INFO,
    good: ANY_WITH_BODY,
  },
  { name: "drain", call: (client) => client.drain(), sends: "POST /v1/drain", reply: INFO, good: [200] },
  { name: "undrain", call: (client) => client.undrain(), sends: "DELETE /v1/drain", reply: INFO, good: [200] },
  {
    name: "stats",
    call: (client) => client.stats("sb_1"),
    sends: "GET /v1/sandboxes/sb_1/stats",
    reply: STATS,
    good: [200],
    gives: STATS,
    gone: "undefined",
  },
  {
    name: "volumes",
    call: (client) => client.volumes(),
    sends: "GET /v1/volumes",
    reply: {
      volumes: [{ name: "data", default_mount: "/volumes/data", size_bytes: 5, available: true, nodes: ["a:1"] }],
    },
    good: [200],
    gives: [{ name: "data", default_mount: "/volumes/data", size_bytes: 5, available: true }],
  },
];

const STATUSES = [
  200, 201, 202, 203, 204, 206, 301, 304, 400, 401, 403, 404, 405, 409, 412, 413, 429, 500, 501, 502, 503,
];

function clientOf(pool: NodePool, address: string): SandboxdClient {
  return createSandboxdClient({ address, token: "root-token", pool });
}

async function failure(call: Promise<unknown>): Promise<SandboxdError> {
  const error: unknown = await call.then(
    (value) => new Error(`did not fail: ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  if (!(error instanceof SandboxdError)) {
    throw error;
  }
  return error;
}

/** A node that answers everything alike and remembers what it was asked. */
function answering(status: number, reply: unknown, seen: string[] = []): Promise<TestServer> {
  return httpServer(({ method, url, headers }, response, body) => {
    seen.push(`${method} ${url} ${body}`.trim());
    expect(headers.authorization).toBe(url?.endsWith("/owner") ? "Bearer own" : "Bearer root-token");
    response.writeHead(status).end(typeof reply === "string" ? reply : JSON.stringify(reply));
  });
}

describe.each(ROWS)("$name", ({ call, sends, reply, good, gives, gone }) => {
  it("sends what the node expects and gives what it answers", async () => {
    await using pool = createNodePool();
    for (const status of good) {
      const seen: string[] = [];
      await using node = await answering(status, reply, seen);
      const value = await call(clientOf(pool, node.address));
      expect(seen).toEqual([sends]);
      if (gives !== undefined) {
        expect(value).toEqual(gives);
      }
    }
  });

  it("takes no other status for success, and keeps the node's words", async () => {
    await using pool = createNodePool();
    const refused = STATUSES.filter((status) => !good.includes(status) && !(status === 404 && gone !== undefined));
    for (const status of refused) {
      await using node = await answering(status, { error: "the node's reason" });
      const error = await failure(call(clientOf(pool, node.address)));
      const empty = status === 204 || status === 304;
      expect(error, String(status)).toMatchObject({
        code: status < 300 ? "bad_reply" : "status",
        delivery: "maybe",
        routeMissing: false,
        nodeMessage: empty ? undefined : "the node's reason",
      });
      // A reply without its body is unreadable; any other odd one is named by its status.
      expect(error.status ?? 204).toBe(status);
      expect(error.message).toContain(`at ${node.address}: `);
      expect(error.message).not.toContain("root-token");
    }
  });

  it("takes the node's own 404 for what it is", async () => {
    await using node = await answering(404, { error: "unknown" });
    await using pool = createNodePool();
    const outcome = call(clientOf(pool, node.address));
    if (gone === undefined) {
      expect(await failure(outcome)).toMatchObject({ status: 404, routeMissing: false });
    } else {
      expect(await outcome).toBeUndefined();
    }
  });

  it.each([
    [404, "404 page not found\n"],
    [404, ""],
    [404, "<html>not found</html>"],
    [404, '"json, but no error"'],
    [405, "Method Not Allowed\n"],
  ])("says which route a node is too old for (%i %j)", async (status, body) => {
    await using node = await answering(status, body);
    await using pool = createNodePool();
    const error = await failure(call(clientOf(pool, node.address)));
    expect(error).toMatchObject({ code: "status", status, routeMissing: true });
    const [method, path] = sends.split(" ");
    const route = `${method} ${path?.replace(/\?.*/, "").replace("ck_1", "{id}")}`;
    expect(error.message).toBe(`${route} at ${node.address}: ${status}, the node is too old for this route`);
  });
});

describe("every call", () => {
  it("is bounded, and ends with its caller", async () => {
    await using node = await tcpServer((socket) => socket.resume());
    await using pool = createNodePool();
    const client = createSandboxdClient({ address: node.address, pool, requestTimeoutMs: 700, captureTimeoutMs: 700 });
    for (const error of await Promise.all(ROWS.map(({ call }) => failure(call(client))))) {
      expect(error).toMatchObject({ code: "timeout", delivery: "maybe" });
    }
  });

  it("is not sent for a caller that has left", async () => {
    await using node = await tcpServer((socket) => socket.resume());
    await using pool = createNodePool();
    const client = clientOf(pool, node.address);
    const options = { signal: AbortSignal.abort() };
    const calls = [
      client.fork("sb_1", { count: 1 }, options),
      client.checkpoint("sb_1", {}, options),
      client.checkpoints(options),
      client.claimCheckpoint("ck_1", {}, options),
      client.deleteCheckpoint("ck_1", options),
      client.promote("sb_1", { template: "t" }, options),
      client.deleteTemplate({ template: "t" }, undefined, options),
      client.setTemplateLabels({ template: "t" }, {}, undefined, options),
      client.setInstanceMetadata("sb_1", Buffer.from("{}"), options),
      client.setPools([], options),
      client.drain(options),
      client.undrain(options),
      client.stats("sb_1", options),
      client.volumes(options),
    ];
    for (const error of await Promise.all(calls.map(failure))) {
      expect(error).toMatchObject({ code: "aborted", delivery: "no" });
    }
    expect(node.accepted).toBe(0);
  });
});

describe("bounds", () => {
  const slow = (client: SandboxdClient): readonly (() => Promise<unknown>)[] => [
    () => client.fork("sb_1", { count: 1 }),
    () => client.checkpoint("sb_1", {}),
    () => client.promote("sb_1", { template: "t" }),
  ];
  const quick = (client: SandboxdClient): readonly (() => Promise<unknown>)[] => [
    () => client.claimCheckpoint("ck_1", {}),
    () => client.hibernate("sb_1"),
    () => client.checkpoints(),
    () => client.setPools([]),
  ];

  it("of captures are their own", async () => {
    await using node = await tcpServer((socket) => socket.resume());
    await using pool = createNodePool();
    const { address } = node;
    const patient = createSandboxdClient({ address, pool, requestTimeoutMs: 600_000, captureTimeoutMs: 50 });
    for (const call of slow(patient)) {
      const error = await failure(call());
      expect(error).toMatchObject({ code: "timeout" });
      expect(error.message).toContain("within 50 ms");
    }
    const hasty = createSandboxdClient({ address, pool, requestTimeoutMs: 50, captureTimeoutMs: 600_000 });
    for (const call of quick(hasty)) {
      expect((await failure(call())).message).toContain("within 50 ms");
    }
  });

  it("of captures are ten minutes unless something else is said", async () => {
    await using node = await httpServer((_request, response) => {
      response.end(JSON.stringify({ children: [CHILD], checkpoint: RECORD, key: KEY }));
    });
    await using pool = createNodePool();
    const client = createSandboxdClient({ address: node.address, pool });
    const timers = vi.spyOn(globalThis, "setTimeout");
    try {
      for (const call of [...slow(client), () => client.checkpoints()]) {
        await call();
      }
      const bounds = timers.mock.calls.map(([, delay]) => delay).filter((delay) => Number(delay) % 10_000 === 0);
      expect(bounds.filter(Boolean)).toEqual([600_000, 600_000, 600_000, 10_000]);
    } finally {
      timers.mockRestore();
    }
  });
});

describe("replies that cannot be believed", () => {
  const refuses: readonly (readonly [string, (client: SandboxdClient) => Promise<unknown>, unknown])[] = [
    ["the row of another sandbox", (client) => client.sandbox("sb_1"), { id: "sb_2", key: KEY }],
    ["a row without an id", (client) => client.sandbox("sb_1"), { key: KEY }],
    [
      "a checkpoint of another sandbox",
      (client) => client.checkpoint("sb_1", {}),
      { checkpoint: { ...RECORD, sandbox_id: "sb_2" } },
    ],
    ["a checkpoint of no sandbox", (client) => client.checkpoint("sb_1", {}), { checkpoint: { id: "ck_1" } }],
    ["a checkpoint without an id", (client) => client.checkpoint("sb_1", {}), { checkpoint: { ...RECORD, id: "" } }],
    ["no checkpoint", (client) => client.checkpoint("sb_1", {}), {}],
    ["stats of another sandbox", (client) => client.stats("sb_1"), { ...STATS, id: "sb_2" }],
    [
      "a promotion to another template",
      (client) => client.promote("sb_1", { template: "t" }),
      { key: { template: "u" } },
    ],
    [
      "a promotion without a key",
      (client) => client.promote("sb_1", { template: "t" }),
      { content_digest: "sha256:0" },
    ],
    ["a child without a token", (client) => client.fork("sb_1", { count: 1 }), { children: [{ id: "sb_2" }] }],
    ["a child without an id", (client) => client.fork("sb_1", { count: 1 }), { children: [{ token: "t" }] }],
    ["a child that is no object", (client) => client.fork("sb_1", { count: 1 }), { children: [null] }],
    [
      "a child with the parent's id",
      (client) => client.fork("sb_1", { count: 1 }),
      { children: [{ ...CHILD, id: "sb_1" }] },
    ],
    ["two children with one id", (client) => client.fork("sb_1", { count: 2 }), { children: [CHILD, CHILD] }],
    [
      "a child with a path for an id",
      (client) => client.fork("sb_1", { count: 1 }),
      { children: [{ ...CHILD, id: "../x" }] },
    ],
    [
      "a child whose token is no header",
      (client) => client.fork("sb_1", { count: 1 }),
      { children: [{ ...CHILD, token: "a\r\nb" }] },
    ],
    ["children that are no list", (client) => client.fork("sb_1", { count: 1 }), { children: "sb_2" }],
    ["checkpoints that are no list", (client) => client.checkpoints(), { checkpoints: {} }],
    ["volumes that are no list", (client) => client.volumes(), { volumes: 3 }],
    ["a branch without a token", (client) => client.claimCheckpoint("ck_1", {}), { id: "sb_2" }],
    ["a list instead of an object", (client) => client.drain(), []],
    ["text", (client) => client.setPools([]), "pools"],
    ["null", (client) => client.checkpoints(), null],
  ];

  it.each(refuses)("are refused: %s", async (_name, call, reply) => {
    await using node = await httpServer((_request, response) => response.end(JSON.stringify(reply)));
    await using pool = createNodePool();
    const error = await failure(call(clientOf(pool, node.address)));
    expect(error).toMatchObject({ code: "bad_reply", delivery: "maybe", status: undefined });
    expect(error.message).toMatch(/unreadable reply: [^\n]+$/);
    expect(error.message).not.toMatch(/s3cret|root-token/);
  });

  it.each([
    ["null", null],
    ["absent", undefined],
    ["empty", []],
  ])("are no matter with lists that are %s", async (_name, list) => {
    await using pool = createNodePool();
    await using node = await httpServer((_request, response) => {
      response.end(
        JSON.stringify({
          children: list,
          checkpoints: list,
          volumes: list,
          pools: list,
          templates: list,
          sandboxes: list,
          peers: list,
          redirect: list,
        }),
      );
    });
    const client = clientOf(pool, node.address);
    expect(await client.fork("sb_1", { count: 1 })).toEqual([]);
    expect(await client.checkpoints()).toEqual([]);
    expect(await client.volumes()).toEqual([]);
    expect(await client.setPools([])).toMatchObject({ pools: [], templates: [], peers: [] });
    expect(await client.drain()).toMatchObject({ pools: [] });
    expect(await client.claimCheckpoint("ck_1", {})).toEqual({ kind: "empty" });
  });

  it("hide no good element of a list behind a bad one", async () => {
    await using pool = createNodePool();
    await using node = await httpServer((_request, response) => {
      const odd = [null, 3, [], {}, { id: 7, name: 7 }];
      response.end(JSON.stringify({ checkpoints: [...odd, RECORD], volumes: [...odd, { name: "data" }] }));
    });
    const client = clientOf(pool, node.address);
    expect(await client.checkpoints()).toEqual([RECORD]);
    expect(await client.volumes()).toMatchObject([{ name: "data", size_bytes: 0, available: false }]);
  });

  it("over the cap fail and name it", async () => {
    await using pool = createNodePool();
    await using node = await httpServer((_request, response) => response.end(Buffer.alloc(17 * 1024 * 1024, 32)));
    for (const call of [
      () => clientOf(pool, node.address).checkpoints(),
      () => clientOf(pool, node.address).fork("sb_1", { count: 1 }),
    ]) {
      const error = await failure(call());
      expect(error).toMatchObject({ code: "bad_reply" });
      expect(error.message).toContain("cap of 16777216 bytes");
    }
  });
});

describe("a claim of a checkpoint", () => {
  it("reads a redirect, and asks the same with no_redirect", async () => {
    const seen: string[] = [];
    await using node = await answering(200, { redirect: ["a:1", "b:2", "c:3"] }, seen);
    await using pool = createNodePool();
    const client = clientOf(pool, node.address);
    const request = { ttl_seconds: 60, claim_ref: "n/x", metadata: { k: "v" }, on_expire: "archive" };
    expect(await client.claimCheckpoint("ck_1", request)).toEqual({
      kind: "redirect",
      targets: ["a:1", "b:2", "c:3"],
      requirePromoted: false,
    });
    await client.claimCheckpoint("ck_1", { no_redirect: true });
    expect(seen).toEqual([
      `POST /v1/checkpoints/ck_1/claim ${JSON.stringify(request)}`,
      'POST /v1/checkpoints/ck_1/claim {"no_redirect":true}',
    ]);
  });

  it("keeps the checkpoint's id out of errors: whoever has it may branch it", async () => {
    await using node = await answering(500, { error: "provisioning failed" });
    await using pool = createNodePool();
    const client = clientOf(pool, node.address);
    for (const call of [client.claimCheckpoint("ck_secret", {}), client.deleteCheckpoint("ck_secret")]) {
      expect((await failure(call)).message).not.toContain("ck_secret");
    }
  });

  it.each(["claimCheckpoint", "fork"] as const)("and %s say once that they are sent", async (name) => {
    await using node = await answering(200, { children: [] });
    await using pool = createNodePool();
    const client = clientOf(pool, node.address);
    let sent = 0;
    const options = { onSent: (): unknown => (sent += 1) };
    await (name === "fork" ? client.fork("sb_1", { count: 1 }, options) : client.claimCheckpoint("ck_1", {}, options));
    expect(sent).toBe(1);
  });
});

describe("ids that no request can carry", () => {
  it.each(["", ".", "..", "a b", "ä", "x\r\ny", "x".repeat(257)])("send nothing: %j", async (id) => {
    await using node = await answering(200, {});
    await using pool = createNodePool();
    const client = clientOf(pool, node.address);
    const calls = [
      client.fork(id, { count: 1 }),
      client.checkpoint(id, {}),
      client.claimCheckpoint(id, {}),
      client.deleteCheckpoint(id),
      client.promote(id, { template: "t" }),
      client.setInstanceMetadata(id, Buffer.from("{}")),
      client.stats(id),
    ];
    for (const error of await Promise.all(calls.map(failure))) {
      expect(error).toMatchObject({ code: "bad_request", delivery: "no" });
    }
    expect(node.accepted).toBe(0);
  });
});
