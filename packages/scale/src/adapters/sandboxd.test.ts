import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { createServer as createTcpServer } from "node:net";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import * as fc from "fast-check";
import { createNodePool } from "@org/sandboxd-client";
import { afterEach, describe, expect, it, vi } from "vitest";
import { createStore } from "../store.ts";
import { StaticInventorySource } from "../testing/index.ts";
import { createNodeClients, entryFromRow, poolsFromInfo, templatesFromInfo } from "./sandboxd.ts";

const TOKEN = "fleet-token";
const KEY = { template: "rt", net: "none", size: "small" };
const closing: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
});

interface Seen {
  readonly line: string;
  readonly authorization: string | undefined;
  readonly body: string;
}

type Answer = (request: Seen, response: ServerResponse) => void;

/** A node that answers every request with `answer`. */
async function node(answer: Answer): Promise<{ address: string; seen: Seen[]; server: Server }> {
  const seen: Seen[] = [];
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    void (async () => {
      const one: Seen = {
        line: `${request.method} ${request.url}`,
        authorization: request.headers.authorization,
        body: await text(request),
      };
      seen.push(one);
      answer(one, response);
    })();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closing.push(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, seen, server };
}

function json(status: number, body: unknown): Answer {
  return (_request, response) => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  };
}

function clients(requestTimeoutMs?: number): ReturnType<typeof createNodeClients> {
  const pool = createNodePool();
  closing.push(() => pool.destroy());
  return createNodeClients({ pool, token: TOKEN, requestTimeoutMs });
}

function storeOver(address: string, requestTimeoutMs?: number): ReturnType<typeof createStore> {
  const source = new StaticInventorySource([{ node: "key", address, pools: [{ ...KEY, warm: 1, target: 1 }] }]);
  // A busy machine must not turn a look-up into a miss.
  return createStore(source, { clients: clients(requestTimeoutMs), liveTimeoutMs: 20_000 });
}

describe("the node clients", () => {
  it("C1: C2: send a claim to the inventory address with the fleet token and leave out what was not asked", async () => {
    const { address, seen } = await node(
      json(200, {
        id: "sb_1",
        token: "secret",
        deadline: "2030-01-01T02:00:00+02:00",
        owner_addr: "owner:1",
        net_route: "relay",
      }),
    );
    const store = storeOver(address);
    const plain = await store.claim("ns", "s1", KEY, { ttlSeconds: 600 });
    expect(plain).toMatchObject({
      node: "key",
      address: "owner:1",
      token: "secret",
      deadline: new Date("2030-01-01T00:00:00Z"),
      netRoute: "relay",
    });
    await store.claim("ns", "s2", { template: "rt" }, { noEgress: true, metadata: { k: "v" }, onExpire: "archive" });
    expect(seen.map((request) => [request.line, request.authorization])).toStrictEqual([
      ["POST /v1/claim", `Bearer ${TOKEN}`],
      ["POST /v1/claim", `Bearer ${TOKEN}`],
    ]);
    expect(seen.map((request) => JSON.parse(request.body) as unknown)).toStrictEqual([
      { ...KEY, ttl_seconds: 600, claim_ref: "ns/s1" },
      { template: "rt", claim_ref: "ns/s2", metadata: { k: "v" }, on_expire: "archive", egress: false },
    ]);
  });

  it("C13: follow a redirect with the flags of the hop", async () => {
    const target = await node(json(200, { id: "sb_2", token: "t", deadline: "0001-01-01T00:00:00Z" }));
    const first = await node(json(200, { redirect: [target.address], require_promoted: true }));
    const source = new StaticInventorySource([
      { node: "a", address: first.address, pools: [{ ...KEY, warm: 1, target: 1 }] },
      { node: "b", address: target.address },
    ]);
    const store = createStore(source, { clients: clients() });
    await expect(store.claim("n", "x", KEY)).resolves.toMatchObject({ node: "b", deadline: undefined });
    expect(JSON.parse(target.seen[0]?.body ?? "")).toStrictEqual({
      ...KEY,
      claim_ref: "n/x",
      no_redirect: true,
      require_promoted: true,
    });
  });

  it("C5: tell an empty answer from a delivery", async () => {
    const { address } = await node(json(200, { redirect: null }));
    await expect(storeOver(address).claim("n", "x", KEY)).rejects.toMatchObject({ code: "no_warm_capacity" });
  });

  it.each([
    ["C9: a 503", json(503, { error: "busy" }), "no_warm_capacity", undefined],
    ["C5: a 429", json(429, { error: "node claim quota reached" }), "no_warm_capacity", undefined],
    ["a 409", json(409, { error: "no egress" }), "claim_refused", 409],
    ["C8: no answer in time", (): void => undefined, "claim_failed", undefined],
    ["C8: a lost connection", (_q: Seen, r: ServerResponse): void => void r.destroy(), "claim_failed", undefined],
    [
      "a reply that is not JSON",
      (_q: Seen, r: ServerResponse): void => void r.writeHead(200).end("{"),
      "claim_failed",
      undefined,
    ],
    ["a delivery without a token", json(200, { id: "sb_1" }), "claim_failed", undefined],
    [
      "a node too old for the route",
      (_q: Seen, r: ServerResponse): void => void r.writeHead(404).end("404 page not found"),
      "no_warm_capacity",
      undefined,
    ],
  ] as const)("sort %s", async (_case, answer, code, status) => {
    const { address, seen } = await node(answer);
    const claim = storeOver(address, code === "claim_failed" ? 1000 : undefined).claim("n", "x", KEY);
    await expect(claim).rejects.toMatchObject({ code, status });
    expect(seen).toHaveLength(1);
  });

  it("C7: move on from a node that refuses connections", async () => {
    const gone = await node(json(200, {}));
    await closing.pop()?.();
    const { address } = await node(json(200, { id: "sb_1", token: "t", deadline: "2030-01-01T00:00:00Z" }));
    const source = new StaticInventorySource([
      { node: "gone", address: gone.address, pools: [{ ...KEY, warm: 1000, target: 1 }] },
      { node: "odd", address: "no address at all", pools: [{ ...KEY, warm: 1000, target: 1 }] },
      { node: "here", address, pools: [{ ...KEY, warm: 1, target: 1 }] },
    ]);
    const store = createStore(source, { clients: clients() });
    for (let count = 0; count < 5; count += 1) {
      await expect(store.claim("n", "x", KEY)).resolves.toMatchObject({ node: "here" });
    }
  });

  it("C7: move on from a node that does not finish a connection in time", async () => {
    const silent = createTcpServer((socket) => socket.on("error", () => undefined).resume());
    silent.listen(0, "127.0.0.1");
    await once(silent, "listening");
    const { port } = silent.address() as AddressInfo;
    const { address, seen } = await node(json(200, { id: "sb_1", token: "t", deadline: "2030-01-01T00:00:00Z" }));
    const pool = createNodePool({ connectTimeoutMs: 100 });
    closing.push(
      () => pool.destroy(),
      () => once(silent.close(), "close"),
    );
    const source = new StaticInventorySource([
      // TLS that is never answered: connected, but not yet a connection.
      { node: "silent", address: `https://127.0.0.1:${port}`, pools: [{ ...KEY, warm: 1000, target: 1 }] },
      { node: "here", address, pools: [{ ...KEY, warm: 1, target: 1 }] },
    ]);
    const store = createStore(source, { clients: createNodeClients({ pool, token: TOKEN }), random: () => 0.9 });
    await expect(store.claim("n", "x", KEY)).resolves.toMatchObject({ node: "here" });
    expect(seen).toHaveLength(1);
  });

  it("do not abort a sent claim with its caller, and release what it brought", async () => {
    const late = Promise.withResolvers<void>();
    const { address, seen } = await node((request, response) => {
      if (request.line === "POST /v1/claim") {
        void late.promise.then(() => json(200, { id: "sb_1", token: "t", deadline: "" })(request, response));
      } else {
        response.writeHead(204).end();
      }
    });
    const store = storeOver(address);
    const caller = new AbortController();
    const claim = store.claim("n", "x", KEY, { signal: caller.signal });
    await vi.waitFor(() => expect(seen).toHaveLength(1), { timeout: 9000 });
    caller.abort();
    await expect(claim).rejects.toMatchObject({ code: "aborted" });
    late.resolve();
    await store.settled();
    expect(seen.map((request) => request.line)).toStrictEqual(["POST /v1/claim", "POST /v1/sandboxes/sb_1/release"]);
  });

  it("never send a claim whose caller left before", async () => {
    const { address, seen } = await node(json(200, {}));
    const fleet = clients();
    const claim = fleet.forAddress(address).claim({ pool: KEY, claimRef: "n/x" }, { signal: AbortSignal.abort() });
    const error: unknown = await claim.catch((reason: unknown) => reason);
    expect(fleet.failure(error).kind).toBe("aborted");
    expect(seen).toStrictEqual([]);
  });

  it("V7: V8: release at the inventory address; a missing sandbox is a success with one call", async () => {
    const { address, seen } = await node(json(404, { error: "unknown sandbox" }));
    await storeOver(address).release("key", "sb_1");
    expect(seen).toStrictEqual([
      { line: "POST /v1/sandboxes/sb_1/release", authorization: `Bearer ${TOKEN}`, body: "" },
    ]);
  });

  it("R6: read a row with its token, and by claim reference", async () => {
    const one = { id: "sb_1", key: KEY, claim_ref: "n/x", hibernated: false, deadline: "2030-01-01T00:00:00Z" };
    const { address, seen } = await node((request, response) => {
      const byRef = request.line.includes("?");
      json(200, byRef ? { sandboxes: [one] } : { ...one, token: "secret" })(request, response);
    });
    const store = storeOver(address);
    await expect(store.read("key", "sb_1")).resolves.toMatchObject({ token: "secret", paused: false });
    await expect(store.get("n", "x")).resolves.toMatchObject({ id: "sb_1", node: "key", template: "rt" });
    expect(seen.map((request) => request.line)).toStrictEqual([
      "GET /v1/sandboxes/sb_1",
      "GET /v1/sandboxes?claim_ref=n%2Fx",
    ]);
  });

  it.each(["a b", "..", "é", "a\r\nb", "x".repeat(300)])("know no sandbox %j: it fits into no request", async (id) => {
    const { address, seen } = await node(json(200, {}));
    const source = new StaticInventorySource([{ node: "n", address }]);
    const store = createStore(source, { clients: clients() });
    await expect(store.getByClaimId("", id, () => false)).rejects.toMatchObject({ code: "not_found", unanswered: 0 });
    await expect(store.read("n", id)).rejects.toMatchObject({ code: "not_found" });
    expect(seen).toEqual([]);
  });

  it.each([404, 405])("V1: do not take a node without the route (%i) for one without the sandbox", async (status) => {
    const { address } = await node((_request, response) => void response.writeHead(status).end("404 page not found"));
    const store = storeOver(address);
    const failed = {
      code: "node_failed",
      status: 501,
      message: expect.stringMatching(/\/v1\/.* is too old for this route/),
    };
    const calls = [
      () => store.pause("key", "sb_1"),
      () => store.release("key", "sb_1"),
      () => store.read("key", "sb_1"),
      () => store.fork("n", "key", "sb_1", { count: 1 }),
      () => store.snapshot("n", "key", "sb_1", "x"),
      () => store.snapshots("n", "key"),
      () => store.deleteSnapshot("key", "ck_1"),
      () => store.promote("key", "sb_1", "mine"),
      () => store.deleteTemplate("key", KEY),
      () => store.setTemplateLabels("key", KEY, {}),
      () => store.nodeTemplates("key"),
      () => store.setInstanceMetadata("key", "sb_1", Buffer.from("{}")),
    ];
    for (const call of calls) {
      await expect(call()).rejects.toMatchObject(failed);
    }
    await expect(store.claimSnapshot("n", "x", "key", "ck_1")).rejects.toMatchObject({
      code: "no_warm_capacity",
      message: expect.stringContaining("too old for this route"),
    });
  });

  it("V5: fork with count, lease and prefix, and read one child back", async () => {
    const { address, seen } = await node((request, response) => {
      const child = (id: string): object => ({ id, token: `t-${id}`, deadline: "2030-01-01T00:00:00Z" });
      if (request.line.endsWith("/fork")) {
        json(200, { children: [child("sb_2"), child("sb_3")] })(request, response);
      } else {
        json(200, { id: "sb_2", key: KEY, claim_ref: "team-a/sb_2", hibernated: false })(request, response);
      }
    });
    const store = storeOver(address);
    const children = await store.fork("team-a", "key", "sb_1", { count: 2, ttlSeconds: 60, onExpire: "archive" });
    expect(seen.map(({ line, body }) => `${line} ${body}`.trim())).toStrictEqual([
      'POST /v1/sandboxes/sb_1/fork {"count":2,"ttl_seconds":60,"claim_ref_prefix":"team-a/","on_expire":"archive"}',
      "GET /v1/sandboxes/sb_2",
    ]);
    expect(seen[0]?.authorization).toBe(`Bearer ${TOKEN}`);
    expect(children).toMatchObject([
      { id: "sb_2", token: "t-sb_2", node: "key", address, claimRef: "team-a/sb_2" },
      { id: "sb_3", token: "t-sb_3", node: "key", deadline: new Date("2030-01-01T00:00:00Z") },
    ]);
    expect(store.list({ namespace: "team-a" })).toMatchObject([
      { name: "sb_2", template: "rt" },
      { name: "sb_3", template: "rt" },
    ]);
  });

  it("do not end a sent fork with its caller, and release its children", async () => {
    const late = Promise.withResolvers<void>();
    const { address, seen } = await node((request, response) => {
      if (request.line.endsWith("/fork")) {
        const children = ["sb_2", "sb_3"].map((id) => ({ id, token: "t", deadline: "" }));
        void late.promise.then(() => json(200, { children })(request, response));
      } else if (request.line.startsWith("GET")) {
        json(200, { id: "sb_2", key: KEY, claim_ref: "n/sb_2", hibernated: false })(request, response);
      } else {
        response.writeHead(204).end();
      }
    });
    const store = storeOver(address);
    const caller = new AbortController();
    const fork = store.fork("n", "key", "sb_1", { count: 2 }, { signal: caller.signal });
    await vi.waitFor(() => expect(seen).toHaveLength(1), { timeout: 9000 });
    caller.abort();
    await expect(fork).rejects.toMatchObject({ code: "aborted" });
    late.resolve();
    await store.settled();
    expect(seen.map((request) => request.line).sort()).toStrictEqual([
      "GET /v1/sandboxes/sb_2",
      "POST /v1/sandboxes/sb_1/fork",
      "POST /v1/sandboxes/sb_2/release",
      "POST /v1/sandboxes/sb_3/release",
    ]);
  });

  it("claim a snapshot with the name of the claim, through a redirect, and read it back", async () => {
    const target = await node((request, response) => {
      if (request.line.startsWith("POST")) {
        const reply = { id: "sb_2", token: "t", deadline: "2030-01-01T00:00:00Z", from_checkpoint: "ck_1" };
        json(200, reply)(request, response);
      } else {
        json(200, { id: "sb_2", key: KEY, claim_ref: "n/x", hibernated: false })(request, response);
      }
    });
    const first = await node(json(200, { redirect: [target.address] }));
    const source = new StaticInventorySource([
      { node: "a", address: first.address },
      { node: "b", address: target.address },
    ]);
    const store = createStore(source, { clients: clients() });
    const options = { ttlSeconds: 60, metadata: { k: "v" } };
    await expect(store.claimSnapshot("n", "x", "a", "ck_1", options)).resolves.toMatchObject({
      node: "b",
      fromCheckpoint: "ck_1",
    });
    const body = { ttl_seconds: 60, claim_ref: "n/x", metadata: { k: "v" } };
    expect(first.seen).toMatchObject([{ line: "POST /v1/checkpoints/ck_1/claim", body: JSON.stringify(body) }]);
    expect(target.seen.map((request) => request.line)).toStrictEqual([
      "POST /v1/checkpoints/ck_1/claim",
      "GET /v1/sandboxes/sb_2",
    ]);
    expect(JSON.parse(target.seen[0]?.body ?? "")).toStrictEqual({ ...body, no_redirect: true });
  });

  it("snapshot, list and delete snapshots", async () => {
    const record = { id: "ck_1", name: "n/x", sandbox_id: "sb_1", key: KEY, created_at: "2030-01-01T00:00:00.5Z" };
    const { address, seen } = await node((request, response) => {
      if (request.line.startsWith("DELETE")) {
        response.writeHead(204).end();
      } else {
        json(200, request.line.startsWith("POST") ? { checkpoint: record } : { checkpoints: [record] })(
          request,
          response,
        );
      }
    });
    const store = storeOver(address);
    const createdAt = new Date("2030-01-01T00:00:00.500Z");
    const snapshot = { id: "ck_1", name: "x", sandboxId: "sb_1", pool: KEY, createdAt, node: "key" };
    await expect(store.snapshot("n", "key", "sb_1", "x")).resolves.toStrictEqual(snapshot);
    await expect(store.snapshots("n", "key")).resolves.toStrictEqual([snapshot]);
    await store.deleteSnapshot("key", "ck_1");
    expect(seen.map(({ line, body }) => `${line} ${body}`.trim())).toStrictEqual([
      'POST /v1/sandboxes/sb_1/checkpoint {"name":"n/x"}',
      "GET /v1/checkpoints",
      "DELETE /v1/checkpoints/ck_1",
    ]);
  });

  it("promote, label and delete templates on one node, and write documents", async () => {
    const template = { key: KEY, content_digest: "sha256:00", created_at: "2030-01-01T00:00:00Z", labels: { k: "v" } };
    const { address, seen } = await node((request, response) => {
      if (request.line.endsWith("/promote")) {
        json(200, { key: KEY, content_digest: "sha256:00" })(request, response);
      } else if (request.line === "GET /v1/info") {
        json(200, { templates: [template] })(request, response);
      } else {
        response.writeHead(204).end();
      }
    });
    const store = storeOver(address);
    await expect(store.promote("key", "sb_1", "rt")).resolves.toStrictEqual({ key: KEY, contentDigest: "sha256:00" });
    await expect(store.nodeTemplates("key")).resolves.toMatchObject([{ ...KEY, labels: { k: "v" }, tenant: "" }]);
    await store.setTemplateLabels("key", KEY, { k: "v" }, "sha256:00");
    await store.deleteTemplate("key", KEY, "sha256:00");
    await store.deleteTemplate("key", { template: "r&t" });
    await store.setInstanceMetadata("key", "sb_1", Buffer.from('{ "a":1}'));
    expect(seen.map(({ line, body }) => `${line} ${body}`.trim())).toStrictEqual([
      'POST /v1/sandboxes/sb_1/promote {"template":"rt"}',
      "GET /v1/info",
      'PUT /v1/templates/labels?template=rt&net=none&size=small&digest=sha256%3A00 {"labels":{"k":"v"}}',
      "DELETE /v1/templates?template=rt&net=none&size=small&digest=sha256%3A00&no_redirect=1",
      "DELETE /v1/templates?template=r%26t&no_redirect=1",
      'PUT /v1/sandboxes/sb_1/instance-metadata { "a":1}',
    ]);
  });

  it.each([302, 200, 206])("take the odd status %i for an answer that tells nothing", async (status) => {
    const { address } = await node(json(status, {}));
    await expect(storeOver(address).pause("key", "sb_1")).rejects.toMatchObject({
      code: "node_failed",
      status: undefined,
    });
    await expect(storeOver(address).deleteTemplate("key", KEY)).rejects.toMatchObject({ code: "node_failed" });
  });

  it("send renewals, pauses and resumes", async () => {
    const { address, seen } = await node((request, response) => {
      const renewed = request.line.endsWith("/renew");
      json(renewed ? 200 : 204, { deadline: "2030-01-01T00:00:00.5Z" })(request, response);
    });
    const store = storeOver(address);
    await expect(store.renew("key", "sb_1", { ttlSeconds: 60 })).resolves.toStrictEqual(
      new Date("2030-01-01T00:00:00.500Z"),
    );
    await store.pause("key", "sb_1");
    await store.resume("key", "sb_1");
    expect(seen.map((request) => `${request.line} ${request.body}`)).toStrictEqual([
      'POST /v1/sandboxes/sb_1/renew {"ttl_seconds":60}',
      "POST /v1/sandboxes/sb_1/hibernate ",
      "POST /v1/sandboxes/sb_1/wake ",
    ]);
  });

  it.each([
    ["with the sandbox's token", "secret", "Bearer secret"],
    ["passively with the fleet token", "", `Bearer ${TOKEN}`],
  ])("V4: dial a guest port %s", async (_case, token, authorization) => {
    const { address, server, seen } = await node(json(500, {}));
    const asked: string[] = [];
    server.on("upgrade", (request, socket) => {
      asked.push(`${request.url} ${request.headers.authorization}`);
      socket.on("error", () => undefined);
      socket.end("HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\nhello");
    });
    const relay = await storeOver(address).dialGuestPort("key", "sb_1", token, 49_983);
    await expect(text(relay)).resolves.toBe("hello");
    relay.destroy();
    expect(asked).toStrictEqual([`/v1/sandboxes/sb_1/ports/49983 ${authorization}`]);
    expect(seen).toStrictEqual([]);
  });

  it.each([
    [409, "sandbox is paused", "node_refused"],
    [404, "unknown sandbox", "not_found"],
    [502, "guest port unreachable", "node_failed"],
  ])("V4: keep the status %i of a refused dial", async (status, reason, code) => {
    const { address, server } = await node(json(500, {}));
    server.on("upgrade", (_request, socket) => {
      const body = JSON.stringify({ error: reason });
      socket.on("error", () => undefined);
      socket.end(
        `HTTP/1.1 ${status} X\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
    });
    await expect(storeOver(address).dialGuestPort("key", "sb_1", "", 80)).rejects.toMatchObject({
      code,
      status,
      nodeMessage: reason,
    });
  });

  it("never put the fleet token into an error", async () => {
    const { address } = await node(json(500, { error: "release failed" }));
    const error: unknown = await storeOver(address)
      .release("key", "sb_1")
      .catch((reason: unknown) => reason);
    const said: string[] = [];
    for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
      said.push(cause.message, cause.stack ?? "", JSON.stringify(cause));
    }
    expect(said.length).toBeGreaterThan(3);
    expect(said.join("\n")).not.toContain(TOKEN);
  });

  it("refuse a token that no header can carry, without repeating it", () => {
    const pool = createNodePool();
    closing.push(() => pool.destroy());
    expect(() => createNodeClients({ pool, token: "secret\nvalue" })).toThrow(
      new TypeError("the node token must be printable ASCII without spaces or line ends"),
    );
  });

  it("describe an error from elsewhere as uncertain", () => {
    expect(clients().failure(new Error("foreign"))).toMatchObject({ kind: "uncertain", detail: "foreign" });
    expect(clients().failure("text")).toMatchObject({ kind: "uncertain" });
  });
});

describe("a row", () => {
  it.each([
    ["running", { claim_ref: "n/x", hibernated: false }, { name: "n/x", phase: "Running" }],
    ["hibernated", { claim_ref: "n/x", hibernated: true }, { name: "n/x", phase: "Hibernated" }],
    ["archived", { claim_ref: "n/x", hibernated: false, archived: true }, { name: "n/x", phase: "Hibernated" }],
    ["unnamed", { hibernated: false }, { name: "sb_1", claimRef: "sb_1" }],
    ["with an empty name", { claim_ref: "", hibernated: false }, { name: "sb_1" }],
    ["that never expires", { hibernated: false, deadline: "0001-01-01T00:00:00Z" }, { deadline: undefined }],
    [
      "with times in another zone",
      { hibernated: false, deadline: "2030-01-01T02:00:00.25+02:00", claimed_at: "2030-01-01T00:00:00Z" },
      { deadline: new Date("2030-01-01T00:00:00.250Z"), claimedAt: new Date("2030-01-01T00:00:00Z") },
    ],
    ["with times that are none", { hibernated: false, deadline: "soon", claimed_at: "0" }, { deadline: undefined }],
    ["without metadata", { hibernated: false, metadata: {} }, { metadata: undefined }],
    [
      "with sizes that are none",
      { hibernated: false, cpu_count: -1, mem_total_bytes: Number.NaN },
      { cpuCount: undefined, memoryBytes: undefined },
    ],
    ["with sizes", { hibernated: false, cpu_count: 2, mem_total_bytes: 1 }, { cpuCount: 2, memoryBytes: 1 }],
  ])("R12: R14: %s becomes an entry", (_case, fields, entry) => {
    expect(entryFromRow({ id: "sb_1", key: KEY, ...fields })).toMatchObject({ id: "sb_1", template: "rt", ...entry });
  });
});

describe("an info reply", () => {
  it("keeps counts that can be counted and zeroes the rest", () => {
    fc.assert(
      fc.property(fc.oneof(fc.double(), fc.integer()), (warm) => {
        const [pool] = poolsFromInfo({
          pools: [{ key: KEY, warm, target: warm, refilling: 0, golden: true }],
        });
        expect(pool?.warm).toBe(Number.isSafeInteger(warm) && warm > 0 ? warm : 0);
        expect(pool?.target).toBe(pool?.warm);
        expect(pool).not.toHaveProperty("golden");
      }),
    );
  });

  it("gives templates with their tenant, and the operator's without", () => {
    const template = { key: KEY, content_digest: "sha256:1", created_at: "2030-01-01T00:00:00Z", labels: { a: "b" } };
    expect(
      templatesFromInfo({
        templates: [
          { ...template, tenant: "t", cpu_count: 2, mem_total_bytes: 3 },
          { key: KEY, content_digest: "" },
        ],
      }),
    ).toStrictEqual([
      {
        ...KEY,
        contentDigest: "sha256:1",
        tenant: "t",
        createdAt: new Date("2030-01-01T00:00:00Z"),
        cpuCount: 2,
        memoryBytes: 3,
        labels: { a: "b" },
      },
      {
        ...KEY,
        contentDigest: "",
        tenant: "",
        createdAt: undefined,
        cpuCount: undefined,
        memoryBytes: undefined,
        labels: undefined,
      },
    ]);
  });
});
