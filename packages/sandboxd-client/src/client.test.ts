import { getEventListeners } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import {
  createNodePool,
  createSandboxdClient,
  SandboxdError,
  tokenFrom,
  type NodePool,
  type SandboxdClient,
} from "./index.ts";
import { closedAddress, fickleServer, httpServer, tcpServer, tlsServer, type TestServer } from "./testing/servers.ts";
import { selfSigned } from "./testing/self-signed.ts";

function clientOf(pool: NodePool, address: string, requestTimeoutMs?: number): SandboxdClient {
  return createSandboxdClient({ address, token: "root-token", pool, requestTimeoutMs });
}

async function failure(call: Promise<unknown>): Promise<SandboxdError> {
  const error: unknown = await call.then(
    () => new Error("did not fail"),
    (reason: unknown) => reason,
  );
  if (!(error instanceof SandboxdError)) {
    throw error;
  }
  return error;
}

interface Seen {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly authorization: string | undefined;
  readonly body: string;
}

/** A node that answers everything alike and remembers what it was asked. */
async function oneAnswer(status: number, body: string, seen: Seen[] = []): Promise<TestServer> {
  return httpServer((request, response, text) => {
    const { method, url, headers } = request;
    seen.push({ method, url, authorization: headers.authorization, body: text });
    response.writeHead(status, { "content-type": "application/json" }).end(body);
  });
}

describe("a claim", () => {
  it("sends the request with the bearer and reads a delivered sandbox", async () => {
    const seen: Seen[] = [];
    const reply = { id: "sb_1", token: "tok", deadline: "2026-09-28T01:02:03Z", owner_addr: "n1:7777", nope: 1 };
    await using node = await oneAnswer(200, JSON.stringify(reply), seen);
    await using pool = createNodePool();
    const outcome = await clientOf(pool, node.address).claim({ template: "t", net: undefined, claim_ref: "ns/a" });
    expect(outcome).toMatchObject({ kind: "delivered", reply: { id: "sb_1", token: "tok", owner_addr: "n1:7777" } });
    expect(seen).toEqual([
      {
        method: "POST",
        url: "/v1/claim",
        authorization: "Bearer root-token",
        body: '{"template":"t","claim_ref":"ns/a"}',
      },
    ]);
  });

  it.each([
    ['{"redirect":["a:1","b:2"]}', { kind: "redirect", targets: ["a:1", "b:2"], requirePromoted: false }],
    [
      '{"redirect":["a:1",""],"require_promoted":true}\n',
      { kind: "redirect", targets: ["a:1"], requirePromoted: true },
    ],
    ['{"id":"","redirect":["a:1"]}', { kind: "redirect", targets: ["a:1"], requirePromoted: false }],
    ['{"redirect":null}', { kind: "empty" }],
    ['{"redirect":[]}', { kind: "empty" }],
    ["{}", { kind: "empty" }],
  ])("reads %s", async (body, expected) => {
    await using node = await oneAnswer(200, body);
    await using pool = createNodePool();
    expect(await clientOf(pool, node.address).claim({ template: "t" })).toEqual(expected);
  });

  it.each([
    ["[]"],
    ["null"],
    ["not json"],
    [""],
    ['{"id":"sb_1"}'],
    ['{"redirect":"a:1"}'],
    ['{"id":"../../v1/drain","token":"t"}'],
    ['{"id":"..","token":"t"}'],
    ['{"id":"sb 1","token":"t"}'],
    ['{"id":"sb_é","token":"t"}'],
    [`{"id":"${"x".repeat(300)}","token":"t"}`],
    ['{"id":"sb_1","token":"a\\r\\nb: c"}'],
  ])("refuses the reply %j, which may hide a sandbox", async (body) => {
    await using node = await oneAnswer(200, body);
    await using pool = createNodePool();
    const error = await failure(clientOf(pool, node.address).claim({ template: "t" }));
    expect(error).toMatchObject({ code: "bad_reply", delivery: "maybe" });
  });

  it("says once when it is sent, and not when it never was", async () => {
    await using node = await oneAnswer(200, "{}");
    await using pool = createNodePool();
    let sent = 0;
    await clientOf(pool, node.address).claim({ template: "t" }, { onSent: () => (sent += 1) });
    expect(sent).toBe(1);
    await failure(clientOf(pool, await closedAddress()).claim({ template: "t" }, { onSent: () => (sent += 1) }));
    expect(sent).toBe(1);
  });
});

describe("reads and verbs", () => {
  it("ask the documented routes", async () => {
    const seen: Seen[] = [];
    const body = JSON.stringify({
      id: "sb_1",
      owner_addr: "n1:7777",
      deadline: "2026-09-28T01:02:03Z",
      peers: ["b:1"],
    });
    await using node = await httpServer(({ method, url, headers }, response, text) => {
      seen.push({ method, url, authorization: headers.authorization, body: text });
      response.writeHead(/\/(release|hibernate|wake)$/.test(url ?? "") ? 204 : 200).end(body);
    });
    await using pool = createNodePool();
    const client = clientOf(pool, node.address);
    await client.info();
    expect(await client.peers()).toEqual(["b:1"]);
    expect(await client.index()).toEqual([]);
    await client.index({ claimRef: "ns/a&b=ü" });
    expect(await client.sandbox("sb_1")).toMatchObject({ id: "sb_1" });
    expect(await client.owner("sb_1", "own")).toBe("n1:7777");
    await client.release("sb_1");
    await client.hibernate("sb_1");
    await client.wake("sb_1");
    expect(await client.renew("sb_1", { ttl_seconds: 60 })).toEqual(new Date("2026-09-28T01:02:03Z"));
    expect(seen.map((one) => `${one.method} ${one.url} ${one.authorization?.slice(7)} ${one.body}`.trim())).toEqual([
      "GET /v1/info root-token",
      "GET /v1/peers root-token",
      "GET /v1/sandboxes root-token",
      "GET /v1/sandboxes?claim_ref=ns%2Fa%26b%3D%C3%BC root-token",
      "GET /v1/sandboxes/sb_1 root-token",
      "GET /v1/sandboxes/sb_1/owner own",
      "POST /v1/sandboxes/sb_1/release root-token",
      "POST /v1/sandboxes/sb_1/hibernate root-token",
      "POST /v1/sandboxes/sb_1/wake root-token",
      'POST /v1/sandboxes/sb_1/renew root-token {"ttl_seconds":60}',
    ]);
  });

  it("send no Authorization without a token", async () => {
    const seen: Seen[] = [];
    await using node = await oneAnswer(200, "{}", seen);
    await using pool = createNodePool();
    await createSandboxdClient({ address: `http://${node.address}/`, pool }).info();
    expect(seen[0]?.authorization).toBeUndefined();
  });

  it("take the node's own 404 for gone, and a router's 404 for a node too old", async () => {
    await using gone = await oneAnswer(404, '{"error":"unknown sandbox"}');
    await using old = await oneAnswer(404, "404 page not found\n");
    await using pool = createNodePool();
    const client = clientOf(pool, gone.address);
    await client.release("sb_1");
    expect(await client.sandbox("sb_1")).toBeUndefined();
    expect(await client.owner("sb_1", "own")).toBeUndefined();
    expect(await failure(client.hibernate("sb_1"))).toMatchObject({
      code: "status",
      status: 404,
      nodeMessage: "unknown sandbox",
      routeMissing: false,
      delivery: "maybe",
    });
    const ancient = clientOf(pool, old.address);
    for (const call of [ancient.release("sb_1"), ancient.sandbox("sb_1"), ancient.wake("sb_1")]) {
      expect(await failure(call)).toMatchObject({ status: 404, routeMissing: true, nodeMessage: "404 page not found" });
    }
  });

  it("stand the dialed address in for an owner that advertises none", async () => {
    await using node = await oneAnswer(200, '{"owner_addr":""}');
    await using pool = createNodePool();
    expect(await clientOf(pool, node.address).owner("sb_1", "own")).toBe(node.address);
  });

  it.each([[401], [403], [409], [429], [500], [503], [301]])(
    "keep status %i and the node's message",
    async (status) => {
      await using node = await oneAnswer(status, '{"error":"a\\nb"}');
      await using pool = createNodePool();
      const error = await failure(clientOf(pool, node.address).wake("sb_1"));
      expect(error).toMatchObject({ code: "status", status, nodeMessage: "a\nb" });
      expect(error.message).toBe(`POST /v1/sandboxes/sb_1/wake at ${node.address}: ${status} a b`);
    },
  );
});

describe("a failure to connect", () => {
  it("is told from later failures, and nothing was sent", async () => {
    await using pool = createNodePool();
    const refused = await failure(clientOf(pool, await closedAddress()).wake("sb_1"));
    expect(refused).toMatchObject({ code: "unreachable", delivery: "no" });
    expect(refused.cause).toMatchObject({ code: "ECONNREFUSED" });
    const unknown = await failure(clientOf(pool, "no-such-host.invalid:1").wake("sb_1"));
    expect(unknown).toMatchObject({ code: "unreachable", delivery: "no" });
  });

  it("covers a TLS handshake that never ends", async () => {
    await using node = await tcpServer((socket) => socket.resume());
    await using pool = createNodePool({ connectTimeoutMs: 100 });
    const error = await failure(clientOf(pool, `https://${node.address}`).wake("sb_1"));
    expect(error).toMatchObject({ code: "unreachable", delivery: "no" });
    expect(error.cause).toMatchObject({ code: "UND_ERR_CONNECT_TIMEOUT" });
  });

  it("covers a certificate that is not trusted, and a peer that does not speak TLS", async () => {
    await using tls = await tlsServer(selfSigned(), (socket) => socket.resume());
    await using plain = await tcpServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
    await using pool = createNodePool();
    for (const address of [tls.address, plain.address]) {
      const error = await failure(clientOf(pool, `https://${address}`).wake("sb_1"));
      expect(error).toMatchObject({ code: "unreachable", delivery: "no" });
    }
  });

  it("covers a closed pool", async () => {
    const pool = createNodePool();
    await pool.close();
    const error = await failure(clientOf(pool, "127.0.0.1:9").wake("sb_1"));
    expect(error).toMatchObject({ code: "unreachable", delivery: "no" });
  });
});

describe("the reading of one sandbox", () => {
  it.each([
    ["Tue, 01 Dec 2026 10:00:07 GMT", new Date("2026-12-01T10:00:07Z")],
    ["yesterday", undefined],
    [undefined, undefined],
  ])("with the date %j tells the node's clock as %j", async (date, answeredAt) => {
    const key = { template: "t", net: "none", size: "small" };
    await using node = await httpServer((_request, response) => {
      response.sendDate = false;
      if (date !== undefined) {
        response.setHeader("date", date);
      }
      response.end(JSON.stringify({ id: "sb_1", key, hibernated: false }));
    });
    await using pool = createNodePool();
    expect((await clientOf(pool, node.address).sandbox("sb_1"))?.answeredAt).toEqual(answeredAt);
  });
});

describe("a connection that the node closes as it is used again", () => {
  const row = JSON.stringify({ sandboxes: [] });

  it("costs a read nothing", async () => {
    const seen: string[] = [];
    await using node = await fickleServer(row, seen);
    await using pool = createNodePool();
    const client = clientOf(pool, node.address);
    await client.index();
    await turn();
    await expect(client.index()).resolves.toEqual([]);
    expect(seen).toEqual(["GET /v1/sandboxes", "GET /v1/sandboxes", "GET /v1/sandboxes"]);
  });

  it.each([
    ["a claim", (client: SandboxdClient) => client.claim({ template: "t" })],
    ["a release", (client: SandboxdClient) => client.release("sb_1")],
    ["a template's end", (client: SandboxdClient) => client.deleteTemplate({ template: "t" })],
  ] as const)("fails %s, which is never sent twice", async (_name, call) => {
    const seen: string[] = [];
    await using node = await fickleServer(row, seen);
    await using pool = createNodePool();
    const client = clientOf(pool, node.address);
    await client.index();
    await turn();
    const error = await failure(call(client));
    expect(error).toMatchObject({ code: "connection_lost", delivery: "maybe" });
    expect(seen).toHaveLength(2);
  });

  it("ends a read that breaks twice", async () => {
    await using node = await tcpServer((socket) => socket.once("data", () => socket.destroy()));
    await using pool = createNodePool();
    expect((await failure(clientOf(pool, node.address).index())).code).toBe("connection_lost");
    expect(node.accepted).toBe(2);
  });
});

describe("a failure after the request was sent", () => {
  it("is uncertain when the connection breaks before or inside the reply", async () => {
    const heads = ["", "HTTP/1.1 200 OK\r\nContent-Le", 'HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{"id"'];
    for (const head of heads) {
      await using node = await tcpServer((socket) => {
        socket.once("data", () => (head === "" ? socket.resetAndDestroy() : socket.end(head)));
      });
      await using pool = createNodePool();
      const error = await failure(clientOf(pool, node.address).claim({ template: "t" }));
      expect(error).toMatchObject({ code: "connection_lost", delivery: "maybe" });
    }
  });

  it.each([
    ["no head", ""],
    ["a head and no body", "HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n"],
    ["half a body", 'HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{"id"'],
    ["half an error body", 'HTTP/1.1 500 No\r\nContent-Length: 90\r\n\r\n{"id"'],
    ["interim heads only", "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"],
  ])("is bounded when the node sends %s and stalls", async (_name, head) => {
    await using node = await tcpServer((socket) => socket.once("data", () => socket.write(head)));
    await using pool = createNodePool();
    const error = await failure(clientOf(pool, node.address, 400).claim({ template: "t" }));
    expect(error).toMatchObject({ code: "timeout", delivery: "maybe" });
    await expect.poll(() => node.sockets.size, { timeout: 10_000 }).toBe(0);
  });
});

describe("an abort", () => {
  it("before the call sends nothing", async () => {
    await using node = await oneAnswer(200, "{}");
    await using pool = createNodePool();
    const reason = new Error("left");
    const call = clientOf(pool, node.address).claim({ template: "t" }, { signal: AbortSignal.abort(reason) });
    expect(await failure(call)).toMatchObject({ code: "aborted", delivery: "no", cause: reason });
    expect(node.accepted).toBe(0);
  });

  it("while connecting rejects at once, and the request is never sent", async () => {
    const identity = selfSigned();
    let requests = 0;
    await using node = await tlsServer(identity, (socket) => socket.on("data", () => (requests += 1)));
    await using pool = createNodePool({ ca: identity.cert });
    const abort = new AbortController();
    let sent = 0;
    const options = { signal: abort.signal, onSent: (): unknown => (sent += 1) };
    const call = failure(clientOf(pool, `https://${node.address}`).claim({ template: "t" }, options));
    abort.abort();
    expect(await call).toMatchObject({ code: "aborted", delivery: "no" });
    await expect.poll(() => node.accepted, { timeout: 10_000 }).toBe(1);
    await expect.poll(() => node.sockets.size, { timeout: 10_000 }).toBe(0);
    expect([requests, sent]).toEqual([0, 0]);
  });

  it("after the request was sent is uncertain and frees the connection", async () => {
    const abort = new AbortController();
    await using node = await tcpServer((socket) => socket.once("data", () => abort.abort()));
    await using pool = createNodePool();
    const options = { signal: abort.signal, untilSent: false };
    const error = await failure(clientOf(pool, node.address).claim({ template: "t" }, options));
    expect(error).toMatchObject({ code: "aborted", delivery: "maybe" });
    await expect.poll(() => node.sockets.size, { timeout: 10_000 }).toBe(0);
  });

  it("signal keeps no listeners of calls that ended", async () => {
    await using good = await oneAnswer(200, "{}");
    await using bad = await oneAnswer(500, "{}");
    await using pool = createNodePool();
    const { signal } = new AbortController();
    for (let round = 0; round < 5; round += 1) {
      await clientOf(pool, good.address).info({ signal });
      await failure(clientOf(pool, bad.address).info({ signal }));
    }
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });
});

describe("replies", () => {
  it("over the cap fail and name it, announced or not", async () => {
    for (const announced of [true, false]) {
      await using node = await httpServer((_request, response) => {
        const size = 17 * 1024 * 1024;
        response.writeHead(200, announced ? { "content-length": size } : {});
        response.end(Buffer.alloc(size, 32));
      });
      await using pool = createNodePool();
      const error = await failure(clientOf(pool, node.address).info());
      expect(error).toMatchObject({ code: "bad_reply" });
      expect(error.message).toContain("cap of 16777216 bytes");
    }
  });

  it("just under the cap are read", async () => {
    const text = `{"peers":["a:1"]}`;
    await using node = await httpServer((_request, response) => response.end(text.padEnd(16 * 1024 * 1024, " ")));
    await using pool = createNodePool();
    expect(await clientOf(pool, node.address).peers()).toEqual(["a:1"]);
  });

  it("come after interim ones, which say nothing", async () => {
    await using node = await httpServer((_request, response) => {
      response.writeProcessing();
      response.writeEarlyHints({ link: "</x>; rel=preload" }, () =>
        response.writeHead(409).end(JSON.stringify({ error: "sandbox is paused" })),
      );
    });
    await using pool = createNodePool();
    const error = await failure(clientOf(pool, node.address).renew("sb_1", {}));
    expect(error).toMatchObject({ code: "status", status: 409, nodeMessage: "sandbox is paused" });
  });

  it("with an endless error body end, and little is kept of them", async () => {
    await using node = await httpServer((_request, response) => {
      response.writeHead(500);
      const pump = (): void => {
        while (response.write("x".repeat(10_000)));
      };
      response.on("drain", pump);
      pump();
    });
    await using pool = createNodePool();
    const error = await failure(clientOf(pool, node.address).info());
    expect(error).toMatchObject({ code: "status", status: 500 });
    expect(error.nodeMessage).toBe(`${"x".repeat(1024)}…`);
    expect(error.message.length).toBeLessThan(400);
  });

  it("with a long reason keep its beginning, in whole characters", async () => {
    const reason = `${"y".repeat(1023)}😀${"z".repeat(50_000)}`;
    await using node = await httpServer((_request, response) =>
      response.writeHead(409).end(JSON.stringify({ error: reason })),
    );
    await using pool = createNodePool();
    const error = await failure(clientOf(pool, node.address).hibernate("sb_1"));
    expect(error).toMatchObject({ status: 409, routeMissing: false });
    expect(error.nodeMessage).toBe(`${"y".repeat(1023)}\ufffd…`);
    expect(error.message.length).toBeLessThan(400);
  });

  it("are read to the end, so that connections are used again, after errors too", async () => {
    let count = 0;
    await using node = await httpServer((_request, response) => {
      count += 1;
      response.writeHead([200, 404, 500][count % 3] ?? 200).end(`{"error":"${"x".repeat(9000)}"}`);
    });
    await using pool = createNodePool();
    const client = clientOf(pool, node.address);
    for (let round = 0; round < 30; round += 1) {
      await client.release("sb_1").catch(() => undefined);
    }
    expect(count).toBe(30);
    expect(node.accepted).toBeLessThanOrEqual(2);
  });

  it("of many calls at once do not wait for each other", async () => {
    const held: (() => void)[] = [];
    await using node = await httpServer((_request, response) => {
      held.push(() => response.end("{}"));
      if (held.length === 300) {
        for (const answer of held) {
          answer();
        }
      }
    });
    await using pool = createNodePool();
    const client = clientOf(pool, node.address);
    await Promise.all(Array.from({ length: 300 }, () => client.claim({ template: "t" })));
    expect(held).toHaveLength(300);
  });
});

describe("addresses, ids and tokens", () => {
  it("reach a node behind TLS over HTTP/1.1, and one with an IPv6 address", async () => {
    const identity = selfSigned();
    const protocols: unknown[] = [];
    await using tls = await tlsServer(identity, (socket) => {
      protocols.push(socket.alpnProtocol);
      socket.once("data", () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{"peers":["a:1"]}'));
    });
    await using pool = createNodePool({ ca: identity.cert });
    expect(await clientOf(pool, `https://localhost:${tls.port}`).peers()).toEqual(["a:1"]);
    expect(protocols).toEqual(["http/1.1"]);
    await using six = await tcpServer(
      (socket) => {
        socket.once("data", () => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"));
      },
      { host: "::1" },
    );
    expect(six.address).toMatch(/^\[::1\]:/);
    expect(await clientOf(pool, six.address).peers()).toEqual([]);
  });

  it.each([
    "",
    " a:1",
    "a:1\r\n",
    "a:99999",
    "a:0",
    "ftp://a:1",
    "http://u:p@a:1",
    "u@a:1",
    "http://a:1/x",
    "a:1?x",
    "http://a:1/#",
    "ü:1",
    "http://",
  ])("of the form %j are refused", (address) => {
    expect(() => createSandboxdClient({ address, pool: createNodePool() })).toThrow(SandboxdError);
  });

  it("with control characters never reach a node, and the message does not repeat a token", async () => {
    await using node = await oneAnswer(200, "{}");
    await using pool = createNodePool();
    const client = clientOf(pool, node.address);
    for (const id of ["", ".", "..", "sb_\r\n1", "sb_\u0000", "a b", "sb_é", "x".repeat(257)]) {
      expect(await failure(client.release(id))).toMatchObject({ code: "bad_request", delivery: "no" });
    }
    for (const token of ["se\r\ncret", "se\u0000cret", "se cret", "sécret"]) {
      const error = await failure(client.owner("sb_1", token));
      expect(error).toMatchObject({ code: "bad_request", delivery: "no" });
      expect(error.message).not.toContain("cret");
      expect(() => createSandboxdClient({ address: node.address, token, pool })).toThrow(SandboxdError);
    }
    expect(node.accepted).toBe(0);
  });

  it("with reserved characters are one path segment", async () => {
    const seen: Seen[] = [];
    await using node = await oneAnswer(204, "", seen);
    await using pool = createNodePool();
    await clientOf(pool, node.address).release("a/../b?c#d");
    expect(seen[0]?.url).toBe("/v1/sandboxes/a%2F..%2Fb%3Fc%23d/release");
  });
});

describe("tokenFrom", () => {
  it("prefers the file, drops white space around the token and falls back to the literal", async () => {
    const dir = await mkdtemp(join(tmpdir(), "token-"));
    try {
      const file = join(dir, "token");
      await writeFile(file, "  from-file \n\n");
      expect(await tokenFrom("literal", file)).toBe("from-file");
      expect(await tokenFrom(" literal\n", "")).toBe("literal");
      expect(await tokenFrom(undefined, undefined)).toBe("");
    } finally {
      await rm(dir, { recursive: true });
    }
  });

  it.each([
    ["", "is blank"],
    [" \n\t\n", "is blank"],
    ["two tokens", "must be printable ASCII"],
    ["line\nline", "must be printable ASCII"],
    ["\u0000\u0001", "must be printable ASCII"],
    ["töken", "must be printable ASCII"],
  ])("refuses a file with %j, by name and without showing it", async (content, why) => {
    const dir = await mkdtemp(join(tmpdir(), "token-"));
    try {
      const file = join(dir, "token");
      await writeFile(file, content);
      const error = await failure(tokenFrom("literal", file));
      expect(error).toMatchObject({ code: "token_file" });
      expect(error.message).toContain(`sandboxd: token file ${JSON.stringify(file)}`);
      expect(error.message).toContain(why);
      expect(content.trim() !== "" && error.message.includes(content.trim())).toBe(false);
    } finally {
      await rm(dir, { recursive: true });
    }
  });

  it("refuses a literal that no header can carry, without showing it", async () => {
    const error = await failure(tokenFrom("two tokens", ""));
    expect(error).toMatchObject({ code: "bad_request", message: expect.stringContaining("printable ASCII") });
    expect(error.message).not.toContain("two");
  });

  it("names a file that cannot be read", async () => {
    const error = await failure(tokenFrom("literal", "/nonexistent/token"));
    expect(error).toMatchObject({ code: "token_file" });
    expect(error.message).toMatch(/^sandboxd: read token file "\/nonexistent\/token": ENOENT/);
  });
});
