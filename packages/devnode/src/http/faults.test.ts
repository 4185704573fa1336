import { createServer } from "node:net";
import { request as httpRequest } from "node:http";
import { describe, expect, test } from "vitest";
import { readAll } from "../testing/api.ts";
import { startFakeNode, type FakeNode, type FakeNodeOptions } from "../testing/fake-node.ts";

const TOKEN = "root-token";
const TENANTS = [{ name: "acme", token: "acme-token" }];

function start(options: FakeNodeOptions = {}): Promise<FakeNode> {
  return startFakeNode({ token: TOKEN, faults: true, ...options });
}

async function order(node: FakeNode, ...faults: object[]): Promise<void> {
  const answer = await node.api.call("PUT", "/debug/faults", { faults });
  expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
}

async function hits(node: FakeNode): Promise<number[]> {
  const { faults } = (await node.api.call("GET", "/debug/faults")).json() as { faults: { hits: number }[] };
  return faults.map((fault) => fault.hits);
}

async function until(check: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await check())) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** One request over a connection of its own: the status, or the code of what ended the connection. */
function outcome(node: FakeNode, method: string, path: string, body = "", signal?: AbortSignal): Promise<unknown> {
  const [host, port] = node.address.split(":");
  return new Promise((resolve) => {
    const request = httpRequest(
      { host, port, method, path, agent: false, headers: { authorization: `Bearer ${TOKEN}` }, signal },
      (response) => {
        response.resume();
        response.on("end", () => resolve(response.statusCode));
      },
    );
    request.on("error", (error: NodeJS.ErrnoException) => resolve(error.code));
    request.end(body);
  });
}

describe("the route of faults", () => {
  test.each(["GET", "PUT", "DELETE"])("%s is the router's plain 404 unless allowed", async (method) => {
    await using node = await startFakeNode({ token: TOKEN });
    const answer = await node.api.call(method, "/debug/faults", method === "PUT" ? { faults: [] } : undefined);
    expect([answer.status, answer.text]).toEqual([404, "404 page not found\n"]);
  });

  test.each(["GET", "PUT", "DELETE"])("%s is the operator's alone", async (method) => {
    await using node = await start({ tenants: TENANTS });
    const body = method === "PUT" ? { faults: [] } : undefined;
    expect((await node.api.call(method, "/debug/faults", body, "wrong")).status).toBe(401);
    expect((await node.api.call(method, "/debug/faults", body, "acme-token")).status).toBe(403);
    expect((await node.api.call(method, "/debug/faults", body)).status).toBeLessThan(300);
  });

  test("tells what is in force with the requests it met, and takes it away", async () => {
    await using node = await start();
    const full = { kind: "status", method: "POST", path: "/v1/claim", times: 2, delay_ms: 5, status: 429, body: "{}" };
    await order(node, { ...full, method: "post" }, { kind: "stop-accepting", delay_ms: 60_000, for_ms: 1 });
    expect((await node.api.call("POST", "/v1/claim", { template: "base" })).status).toBe(429);
    expect((await node.api.call("GET", "/debug/faults")).json()).toEqual({
      faults: [
        { ...full, hits: 1 },
        { kind: "stop-accepting", delay_ms: 60_000, for_ms: 1, hits: 0 },
      ],
    });
    expect((await node.api.call("DELETE", "/debug/faults")).status).toBe(204);
    expect((await node.api.call("GET", "/debug/faults")).json()).toEqual({ faults: [] });
    expect((await node.api.claim()).id).toMatch(/^sb_/);
  });

  test.each([
    ["no JSON", "faults", "invalid request body"],
    ["no list", {}, "faults: must be a list of at most 100"],
    ["another member", { faults: [], more: 1 }, 'unknown member "more"'],
    ["a repeated member", '{"faults":[],"Faults":[]}', 'repeated member "faults"'],
    [
      "an unknown kind",
      { faults: [{ kind: "explode" }] },
      'faults[0].kind: unknown kind "explode", want one of delay, status, refuse, drop-reply, hang, stop-accepting',
    ],
    ["no kind", { faults: [{}] }, "faults[0].kind: missing, want one of delay"],
    ["no object", { faults: ["hang"] }, "faults[0]: must be an object"],
    ["a member of another kind", { faults: [{ kind: "hang", status: 500 }] }, "faults[0].status: hang takes kind"],
    [
      "an unknown member",
      { faults: [{ kind: "hang" }, { kind: "hang", when: "now" }] },
      "faults[1].when: hang takes kind, delay_ms, method, path, times",
    ],
    ["a status without a status", { faults: [{ kind: "status" }] }, "faults[0].status: is needed by status"],
    ["a delay without a time", { faults: [{ kind: "delay" }] }, "faults[0].delay_ms: is needed by delay"],
    [
      "an end of accepting without an end",
      { faults: [{ kind: "stop-accepting" }] },
      "faults[0].for_ms: is needed by stop-accepting",
    ],
    ["no times", { faults: [{ kind: "hang", times: 0 }] }, "faults[0].times: must be a whole number from 1"],
    ["half a time", { faults: [{ kind: "hang", times: 1.5 }] }, "faults[0].times: must be a whole number"],
    ["a long delay", { faults: [{ kind: "hang", delay_ms: 600_001 }] }, "faults[0].delay_ms: must be a whole number"],
    ["an informational status", { faults: [{ kind: "status", status: 101 }] }, "faults[0].status: must be a whole"],
    ["a relative path", { faults: [{ kind: "hang", path: "v1" }] }, "faults[0].path: must be a path"],
    ["a path with a query", { faults: [{ kind: "hang", path: "/a?b" }] }, "faults[0].path: must be a path"],
    ["** inside", { faults: [{ kind: "hang", path: "/**/a" }] }, "faults[0].path: ** stands at the end only"],
    ["no method", { faults: [{ kind: "hang", method: "" }] }, "faults[0].method: must be a method"],
    ["a body that is no text", { faults: [{ kind: "status", status: 500, body: {} }] }, "faults[0].body: must be"],
  ])("refuses %s and changes nothing", async (_, body, message) => {
    await using node = await start();
    await order(node, { kind: "status", path: "/healthz", status: 503 });
    const answer = await node.api.call("PUT", "/debug/faults", body);
    expect([answer.status, answer.json()]).toEqual([400, { error: expect.stringContaining(message) }]);
    expect((await node.api.call("GET", "/healthz")).status).toBe(503);
  });
});

describe("a fault", () => {
  test.each([
    ["the method and the path", { method: "POST", path: "/v1/drain" }, ["POST /v1/drain"]],
    ["a path alone", { path: "/v1/drain" }, ["POST /v1/drain", "DELETE /v1/drain"]],
    ["a method alone", { method: "DELETE" }, ["DELETE /v1/drain", "DELETE /v1/templates"]],
    ["one part", { path: "/v1/sandboxes/*" }, ["GET /v1/sandboxes/x"]],
    ["a part in the middle", { path: "/v1/sandboxes/*/stats" }, ["GET /v1/sandboxes/x/stats"]],
    ["everything below", { path: "/v1/sandboxes/**" }, ["GET /v1/sandboxes/x", "GET /v1/sandboxes/x/stats"]],
    ["a query aside", { path: "/v1/peers" }, ["GET /v1/peers?a=b"]],
  ])("meets %s", async (_, filter, met) => {
    await using node = await start();
    await order(node, { kind: "status", status: 418, ...filter });
    const all = [
      "POST /v1/drain",
      "DELETE /v1/drain",
      "DELETE /v1/templates",
      "GET /v1/sandboxes",
      "GET /v1/sandboxes/x",
      "GET /v1/sandboxes/x/stats",
      "GET /v1/peers?a=b",
    ];
    const struck: string[] = [];
    for (const line of all) {
      const [method = "", path = ""] = line.split(" ");
      if ((await node.api.call(method, path)).status === 418) {
        struck.push(line);
      }
    }
    expect(struck).toEqual(met);
  });

  test("meets as many requests as it was told, then the next one in the list does", async () => {
    await using node = await start();
    await order(
      node,
      { kind: "status", path: "/healthz", status: 429, times: 2 },
      { kind: "status", path: "/healthz", status: 500, times: 1 },
    );
    const statuses = [];
    for (let call = 0; call < 4; call += 1) {
      statuses.push((await node.api.call("GET", "/healthz")).status);
    }
    expect(statuses).toEqual([429, 429, 500, 200]);
    expect(await hits(node)).toEqual([2, 1]);
  });

  test("status answers what it was told, before the gates, and the request has no effect", async () => {
    await using node = await start();
    await order(
      node,
      { kind: "status", status: 503, times: 1 },
      { kind: "status", status: 200, body: "{nonsense", times: 1 },
      { kind: "status", status: 204, times: 1 },
    );
    const answers = [];
    for (let call = 0; call < 3; call += 1) {
      const { status, text } = await node.api.call("POST", "/v1/claim", { template: "base" }, "wrong");
      answers.push([status, text]);
    }
    expect(answers).toEqual([
      [503, '{"error":"fault on demand"}\n'],
      [200, "{nonsense"],
      [204, ""],
    ]);
    expect((await node.api.info()).claimed).toBe(0);
  });

  test("delay lets the request through later", async () => {
    await using node = await start();
    await order(node, { kind: "delay", method: "POST", path: "/v1/claim", delay_ms: 60 });
    const began = performance.now();
    expect((await node.api.claim()).id).toMatch(/^sb_/);
    expect(performance.now() - began).toBeGreaterThan(50);
    const refused = await node.api.call("POST", "/v1/claim", "{");
    expect([refused.status, refused.json()]).toEqual([400, { error: "invalid request body" }]);
  });

  test("refuse cuts the connection and the request has no effect", async () => {
    await using node = await start();
    await order(node, { kind: "refuse", method: "POST", path: "/v1/claim", times: 1 });
    expect(await outcome(node, "POST", "/v1/claim", '{"template":"base"}')).toBe("ECONNRESET");
    expect((await node.api.info()).claimed).toBe(0);
    expect(await outcome(node, "POST", "/v1/claim", '{"template":"base"}')).toBe(200);
  });

  test("drop-reply keeps the claim whose reply it swallows", async () => {
    await using node = await start();
    await order(node, { kind: "drop-reply", method: "POST", path: "/v1/claim", times: 1 });
    expect(await outcome(node, "POST", "/v1/claim", '{"template":"base","claim_ref":"ns/a"}')).toBe("ECONNRESET");
    const [row, ...others] = await node.api.rows();
    expect([row?.claim_ref, others]).toEqual(["ns/a", []]);
    // A client that leaves by itself is another matter: that claim is given back.
    expect((await node.api.call("POST", `/v1/sandboxes/${row?.id}/release`)).status).toBe(204);
  });

  test("drop-reply keeps the children of a fork and the branch of a checkpoint", async () => {
    await using node = await start();
    const { id, token } = await node.api.claim();
    const taken = await node.api.call("POST", `/v1/sandboxes/${id}/checkpoint`, { token });
    const checkpoint = (taken.json() as { checkpoint: { id: string } }).checkpoint.id;
    await order(
      node,
      { kind: "drop-reply", path: "/v1/sandboxes/*/fork", times: 1 },
      { kind: "drop-reply", path: "/v1/checkpoints/*/claim", times: 1 },
    );
    expect(await outcome(node, "POST", `/v1/sandboxes/${id}/fork`, JSON.stringify({ token, count: 2 }))).toBe(
      "ECONNRESET",
    );
    expect((await node.api.rows()).length).toBe(3);
    expect(await outcome(node, "POST", `/v1/checkpoints/${checkpoint}/claim`, "{}")).toBe("ECONNRESET");
    expect((await node.api.rows()).map((row) => row.from_checkpoint)).toContain(checkpoint);
  });

  test("drop-reply keeps the claim also when the client left before it was carried out", async () => {
    const { promise: started, resolve: go } = Promise.withResolvers<void>();
    await using node = await start({ start: () => started });
    await order(node, { kind: "drop-reply", method: "POST", path: "/v1/claim", times: 1 });
    const leave = new AbortController();
    const gone = outcome(node, "POST", "/v1/claim", '{"template":"base"}', leave.signal);
    await until(async () => (await hits(node))[0] === 1);
    leave.abort();
    await gone;
    go();
    await until(async () => (await node.api.rows()).length === 1);
  });

  test("drop-reply tells no refusal either", async () => {
    await using node = await start();
    await order(node, { kind: "drop-reply", path: "/v1/claim", times: 1 });
    expect(await outcome(node, "POST", "/v1/claim", "{")).toBe("ECONNRESET");
    expect((await node.api.info()).claimed).toBe(0);
  });

  test("hang never answers, and is cut when the faults are taken away", async () => {
    await using node = await start();
    await order(node, { kind: "hang", path: "/v1/claim" });
    let ended: unknown;
    const call = outcome(node, "POST", "/v1/claim", '{"template":"base"}').then((end) => (ended = end));
    await until(async () => (await hits(node))[0] === 1);
    expect(ended).toBeUndefined();
    expect((await node.api.call("DELETE", "/debug/faults")).status).toBe(204);
    expect(await call).toBe("ECONNRESET");
    expect((await node.api.info()).claimed).toBe(0);
  });

  test("hang does not hold up the end of the node", async () => {
    const node = await start();
    await order(node, { kind: "hang", path: "/healthz" });
    const call = outcome(node, "GET", "/healthz");
    await until(async () => (await hits(node))[0] === 1);
    await node[Symbol.asyncDispose]();
    expect(await call).toBe("ECONNRESET");
  });

  test("does not cut the connection over which it is taken away", async () => {
    await using node = await start();
    // fetch keeps one connection, and the delay has passed over it.
    await order(node, { kind: "delay", path: "/healthz", delay_ms: 1 });
    expect((await node.api.call("GET", "/healthz")).status).toBe(200);
    expect((await node.api.call("DELETE", "/debug/faults")).status).toBe(204);
  });

  test("stop-accepting refuses connections for its time, and then the node is back at the same port", async () => {
    await using node = await start();
    await order(node, { kind: "stop-accepting", for_ms: 200 });
    await until(async () => (await outcome(node, "GET", "/healthz")) === "ECONNREFUSED");
    await until(async () => (await outcome(node, "GET", "/healthz")) === 200);
    expect(await hits(node)).toEqual([1]);
  });

  test("a node ends while it accepts nobody", async () => {
    const node = await start();
    await order(node, { kind: "stop-accepting", for_ms: 60_000 });
    await until(async () => (await outcome(node, "GET", "/healthz")) === "ECONNREFUSED");
    await node[Symbol.asyncDispose]();
    expect(await outcome(node, "GET", "/healthz")).toBe("ECONNREFUSED");
  });
});

describe("a fault of the relay", () => {
  const PATH = "/v1/sandboxes/*/ports/*";

  async function withEcho(fault: object) {
    const node = await start();
    let connections = 0;
    const echo = createServer({ allowHalfOpen: true }, (socket) => {
      connections += 1;
      socket.on("error", () => socket.destroy());
      socket.pipe(socket);
    });
    await new Promise<void>((resolve) => {
      echo.listen(0, "127.0.0.1", resolve);
    });
    const sandbox = await node.api.claim();
    node.guest(sandbox.id).ports.set(3000, (echo.address() as { port: number }).port);
    await order(node, { times: 1, path: PATH, ...fault });
    return {
      node,
      sandbox,
      connections: () => connections,
      relay: () => node.api.relay(sandbox.id, 3000, sandbox.token),
      [Symbol.asyncDispose]: async () => {
        await node[Symbol.asyncDispose]();
        echo.close();
      },
    };
  }

  test("delay lets it through later, with the bytes that came meanwhile", async () => {
    await using rig = await withEcho({ kind: "delay", delay_ms: 30 });
    const { head, socket } = await rig.node.api.relay(rig.sandbox.id, 3000, rig.sandbox.token, { pipelined: "early " });
    expect(head).toMatch(/^HTTP\/1.1 101 /);
    socket.end("and late");
    expect(await readAll(socket)).toBe("early and late");
  });

  test("status answers over HTTP and ends the connection", async () => {
    await using rig = await withEcho({ kind: "status", status: 500 });
    const { status, socket } = await rig.relay();
    expect([status, await readAll(socket)]).toEqual([500, '{"error":"fault on demand"}\n']);
    expect(rig.connections()).toBe(0);
    expect((await rig.relay()).status).toBe(101);
  });

  test.each([
    ["refuse", 0],
    ["drop-reply", 1],
  ])("%s cuts the connection without an answer", async (kind, connections) => {
    await using rig = await withEcho({ kind });
    await expect(rig.relay()).rejects.toThrow("ECONNRESET");
    await until(() => rig.connections() === connections);
    const { socket } = await rig.relay();
    socket.destroy();
    expect(await hits(rig.node)).toEqual([1]);
  });

  test("drop-reply wakes a paused sandbox all the same", async () => {
    await using rig = await withEcho({ kind: "drop-reply" });
    const path = `/v1/sandboxes/${rig.sandbox.id}`;
    await rig.node.api.call("POST", `${path}/hibernate`);
    await expect(rig.relay()).rejects.toThrow("ECONNRESET");
    expect((await rig.node.api.call("GET", path)).json()["hibernated"]).toBe(false);
  });

  test("hang holds the connection until the faults are taken away", async () => {
    await using rig = await withEcho({ kind: "hang" });
    const cut = expect(rig.relay()).rejects.toThrow("ECONNRESET");
    await until(async () => (await hits(rig.node))[0] === 1);
    await rig.node.api.call("DELETE", "/debug/faults");
    await cut;
  });
});
