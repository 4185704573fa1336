import { request } from "node:http";
import { connect } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { MAX_BODY_BYTES } from "./body.ts";
import { E2bError } from "./errors.ts";
import { createFleet, KEY_1 } from "./testing/fleet.ts";
import type { Fleet, FleetOptions } from "./testing/fleet.ts";
import { asJavaScriptClient, asPythonClient } from "./testing/metadata-encodings.ts";

interface Served extends Fleet {
  readonly port: number;
  /** Ends the service and waits for the drain. */
  readonly stop: () => Promise<void>;
}

async function serveFleet(options: FleetOptions = {}): Promise<Served> {
  const fleet = createFleet(options);
  const end = new AbortController();
  const { promise: bound, resolve, reject } = Promise.withResolvers<AddressInfo>();
  const done = fleet.server.serve("127.0.0.1:0", { signal: end.signal, onListening: resolve });
  done.catch(reject);
  const stop = (): Promise<void> => {
    end.abort();
    return done;
  };
  onTestFinished(stop);
  return { ...fleet, port: (await bound).port, stop };
}

/** A raw connection whose whole answer can be awaited. */
function open(port: number): Socket {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  onTestFinished(() => void socket.destroy());
  return socket;
}

interface RawAnswer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

function parseAnswer(raw: string): RawAnswer {
  const cut = raw.indexOf("\r\n\r\n");
  return { status: Number(raw.slice(9, 12)), head: raw.slice(0, cut).toLowerCase(), body: raw.slice(cut + 4) };
}

/** Sends bytes on a fresh connection and reads until the server closes it. */
async function exchange(port: number, ...parts: readonly (string | Buffer)[]): Promise<RawAnswer> {
  const socket = open(port);
  for (const part of parts) {
    socket.write(part);
  }
  return parseAnswer(await text(socket));
}

const HEAD = `Host: localhost\r\nX-API-Key: ${KEY_1}\r\nConnection: close\r\n`;

/** One chunk of a chunked body. */
function chunk(data: string): string {
  return `${Buffer.byteLength(data).toString(16)}\r\n${data}\r\n`;
}

describe("the framing of a request body", () => {
  const framings: readonly (readonly [string, string])[] = [
    ["no body at all", "\r\n"],
    ["content-length 0", "Content-Length: 0\r\n\r\n"],
    ["chunked and empty", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    ["{} with a length", "Content-Length: 2\r\n\r\n{}"],
    ["{} in chunks", `Transfer-Encoding: chunked\r\n\r\n${chunk("{")}${chunk("}")}0\r\n\r\n`],
    ["null", "Content-Length: 4\r\n\r\nnull"],
    ["null in chunks", `Transfer-Encoding: chunked\r\n\r\n${chunk("null")}0\r\n\r\n`],
    ["a content type and nothing else", "Content-Type: application/json\r\n\r\n"],
  ];
  const optional = ["pause", "connect", "refreshes"];

  it.each(optional.flatMap((verb) => framings.map(([what, rest]) => [verb, what, rest] as const)))(
    "of %s makes no difference: %s",
    async (verb, _what, rest) => {
      const fleet = await serveFleet();
      const id = await fleet.create();
      const answer = await exchange(fleet.port, `POST /sandboxes/${id}/${verb} HTTP/1.1\r\n${HEAD}${rest}`);
      expect(answer.status).toBe(verb === "connect" ? 200 : 204);
    },
  );

  it.each(framings)("of resume makes no difference: %s", async (_what, rest) => {
    const fleet = await serveFleet();
    const id = await fleet.create();
    await fleet.send("POST", `/sandboxes/${id}/pause`);
    const answer = await exchange(fleet.port, `POST /sandboxes/${id}/resume HTTP/1.1\r\n${HEAD}${rest}`);
    expect(answer.status).toBe(201);
  });

  it("may be chunked without a length at create, cut at any byte, in UTF-8", async () => {
    const fleet = await serveFleet();
    const body = Buffer.from('{"templateID":"base","metadata":{"ü":"€"}}');
    const socket = open(fleet.port);
    socket.write(`POST /v2/sandboxes HTTP/1.1\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\n`);
    for (const byte of body) {
      socket.write(Buffer.concat([Buffer.from("1\r\n"), Buffer.of(byte), Buffer.from("\r\n")]));
      await new Promise(setImmediate);
    }
    socket.write("0\r\n\r\n");
    const answer = parseAnswer(await text(socket));
    expect(answer.status).toBe(201);
    expect(fleet.calls("claim")[0]?.claim?.metadata).toStrictEqual({ ü: "€" });
  });
});

describe("the body cap", () => {
  const padded = (size: number): string => {
    const frame = '{"templateID":"base","pad":""}';
    return frame.replace('""', `"${"x".repeat(size - frame.length)}"`);
  };

  it.each([
    [MAX_BODY_BYTES, 201],
    [MAX_BODY_BYTES + 1, 400],
  ])("counts %i bytes with a length and in chunks alike: %i", async (size, status) => {
    const fleet = await serveFleet();
    const body = padded(size);
    const head = `POST /v2/sandboxes HTTP/1.1\r\n${HEAD}`;
    const plain = await exchange(fleet.port, `${head}Content-Length: ${size}\r\n\r\n${body}`);
    expect(plain.status).toBe(status);
    const chunked = `Transfer-Encoding: chunked\r\n\r\n${chunk(body.slice(0, 1000))}${chunk(body.slice(1000))}0\r\n\r\n`;
    const second = await exchange(fleet.port, head + chunked);
    expect(second.status).toBe(status);
    if (status === 400) {
      expect(JSON.parse(second.body)).toStrictEqual({ code: 400, message: expect.stringContaining("1048576") });
      expect(fleet.calls("claim")).toHaveLength(0);
    }
  });

  it("counts bytes of web requests too, and does not wait for a source that never ends", async () => {
    const fleet = createFleet();
    let cancelled = false;
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(65_536)),
      cancel: () => {
        cancelled = true;
      },
    });
    const headers = { "x-api-key": KEY_1 };
    const init = { method: "POST", headers, body, duplex: "half" } as RequestInit;
    const response = await fleet.server.fetch(new Request("http://localhost/v2/sandboxes", init));
    expect(response.status).toBe(400);
    expect(cancelled).toBe(true);
  });
});

describe("a request body that stops coming", () => {
  it.each([
    "Content-Length: 100\r\n\r\n{",
    "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    "Content-Length: 100\r\n\r\n",
  ])("is answered and its connection closed: %j", async (rest) => {
    const fleet = await serveFleet({ bodyIdleTimeoutMs: 50 });
    const answer = await exchange(fleet.port, `POST /sandboxes HTTP/1.1\r\n${HEAD}${rest}`);
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body).message).toContain("stopped coming");
  });
});

describe("the framing of answers", () => {
  it("gives JSON its length, 204 no body, and keeps the connection", async () => {
    const fleet = await serveFleet();
    const socket = open(fleet.port);
    const answers: string[] = [];
    socket.on("data", (data: Buffer) => answers.push(data.toString()));
    const ask = async (line: string): Promise<string> => {
      const before = answers.length;
      socket.write(`${line} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${KEY_1}\r\n\r\n`);
      await expect.poll(() => answers.length, { timeout: 10_000 }).toBe(before + 1);
      return answers.at(-1)?.toLowerCase() ?? "";
    };
    const list = await ask("GET /sandboxes");
    expect(list).toContain("content-type: application/json\r\n");
    expect(list).toContain("content-length: 2\r\n");
    expect(list).not.toContain("transfer-encoding");
    const health = await ask("GET /health");
    expect(health).toMatch(/^http\/1\.1 204 /);
    expect(health).not.toContain("content-length");
    expect(health).not.toContain("transfer-encoding");
    const head = await ask("HEAD /sandboxes");
    expect(head).toMatch(/^http\/1\.1 200 /);
    expect(head.endsWith("\r\n\r\n")).toBe(true);
  });

  it("promises to keep idle connections longer than clients do", async () => {
    const fleet = await serveFleet();
    const socket = open(fleet.port);
    socket.write("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const head = await new Promise<string>((resolve) => socket.once("data", (data) => resolve(data.toString())));
    expect(Number(/timeout=(\d+)/.exec(head)?.[1])).toBeGreaterThanOrEqual(305);
  });

  it("sends the page token as a header only when more follows", async () => {
    const fleet = await serveFleet();
    await fleet.create();
    await fleet.create();
    const page = await exchange(fleet.port, `GET /v2/sandboxes?limit=1 HTTP/1.1\r\n${HEAD}\r\n`);
    const [, token] = /x-next-token: (\S+)/.exec(page.head) ?? [];
    expect(token).toBeDefined();
    const all = await exchange(fleet.port, `GET /v2/sandboxes?limit=2 HTTP/1.1\r\n${HEAD}\r\n`);
    expect(all.head).not.toContain("x-next-token");
  });
});

describe("what is not HTTP, or not for us", () => {
  const get = "GET /sandboxes HTTP/1.1\r\n";
  it.each([
    ["garbage", "\x16\x03\x01 hello\r\n\r\n", 400],
    ["a bad method", "G@T / HTTP/1.1\r\n\r\n", 400],
    ["a bad version", "GET / HTTP/9.9\r\nHost: x\r\n\r\n", 400],
    ["a bad header", `${get}Host: x\r\nbad header\r\n\r\n`, 400],
    ["two lengths", `POST /sandboxes HTTP/1.1\r\n${HEAD}Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}`, 400],
    [
      "a length and chunks",
      `POST /sandboxes HTTP/1.1\r\n${HEAD}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`,
      400,
    ],
    ["a bad chunk", `POST /sandboxes HTTP/1.1\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n`, 400],
    ["no host", `${get}Connection: close\r\n\r\n`, 400],
    ["a bad host", `${get}Host: a b\r\nConnection: close\r\n\r\n`, 400],
    ["a host with a path", `${get}Host: a/b\r\nConnection: close\r\n\r\n`, 400],
    ["a target without a slash", `GET nope HTTP/1.1\r\n${HEAD}\r\n`, 400],
    ["a backslash", `GET /sandboxes\\x HTTP/1.1\r\n${HEAD}\r\n`, 400],
    ["headers that are too large", `${get}Host: x\r\nX-Big: ${"x".repeat(70_000)}\r\n\r\n`, 431],
    ["a tunnel", "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", 405],
    ["an expectation", `POST /sandboxes HTTP/1.1\r\n${HEAD}Expect: magic\r\nContent-Length: 0\r\n\r\n`, 417],
    ["an upgrade", `GET /nope HTTP/1.1\r\nHost: x\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n\r\n`, 404],
  ])("is answered in JSON: %s", async (_what, bytes, status) => {
    const fleet = await serveFleet();
    const answer = await exchange(fleet.port, bytes);
    expect(answer.status).toBe(status);
    expect(answer.head).toContain("content-type: application/json");
    expect(JSON.parse(answer.body)).toStrictEqual({
      code: status,
      message: expect.any(String),
    });
    expect((await fleet.send("GET", "/health")).status).toBe(204);
  });

  it.each([asJavaScriptClient, asPythonClient])(
    "takes a filter with all the metadata that a sandbox can have (%o)",
    async (encode) => {
      const metadata = Object.fromEntries(Array.from({ length: 16 }, (_, index) => [`k${index}`, "漢".repeat(84)]));
      const fleet = await serveFleet();
      await fleet.create({ metadata });
      await fleet.create();
      const target = `/v2/sandboxes?metadata=${encode(Object.entries(metadata))}`;
      expect(target.length).toBeGreaterThan(27_000);
      const answer = await exchange(fleet.port, `GET ${target} HTTP/1.1\r\n${HEAD}\r\n`);
      expect(answer.status).toBe(200);
      expect(JSON.parse(answer.body)).toMatchObject([{ metadata }]);
      expect(JSON.parse(answer.body)).toHaveLength(1);
    },
  );

  it("takes requests of old clients without a host", async () => {
    const fleet = await serveFleet();
    expect((await exchange(fleet.port, "GET /health HTTP/1.0\r\n\r\n")).status).toBe(204);
  });

  it.each([
    ["no HTTP", "\u0016\u0003\u0001garbage\r\n\r\n"],
    ["too large a head", `GET / HTTP/1.1\r\nX: ${"a".repeat(20_000)}\r\n\r\n`],
    ["CONNECT", "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"],
  ])("closes a connection after %s, also when the client keeps its side open and goes on", async (_name, bytes) => {
    const { port } = await serveFleet();
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    onTestFinished(() => void socket.destroy());
    const closed = new Promise((resolve) => socket.once("error", resolve));
    const chatter = setInterval(() => socket.write("and on"), 100);
    onTestFinished(() => clearInterval(chatter));
    socket.write(bytes);
    const answer = parseAnswer(await text(socket));
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(JSON.parse(answer.body)).toMatchObject({ code: answer.status });
    await closed;
  });

  it.each([
    ["a body over the cap", "POST", "/sandboxes", KEY_1, 400],
    ["a wrong key", "POST", "/sandboxes", "wrong", 401],
    ["an unknown path", "PUT", "/nope", KEY_1, 404],
    ["a route without a body", "GET", "/v2/sandboxes", KEY_1, 200],
  ])("answers %s while the client still sends, and lets it finish", async (_name, method, path, key, status) => {
    const { port } = await serveFleet();
    const socket = open(port);
    const answer = text(socket);
    socket.write(`${method} ${path} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nConnection: close\r\n`);
    socket.write("Transfer-Encoding: chunked\r\n\r\n");
    const piece = chunk("a".repeat(65_536));
    for (let sent = 0; sent < 64; sent += 1) {
      await new Promise<void>((resolve, reject) => {
        socket.write(piece, (error) => (error ? reject(error) : resolve()));
      });
    }
    socket.write("0\r\n\r\n");
    expect(parseAnswer(await answer)).toMatchObject({ status });
  });

  it("does not read on for ever behind its answer", async () => {
    const { port } = await serveFleet();
    const socket = open(port);
    const ended = new Promise((resolve) => socket.once("close", resolve));
    socket.write(`POST /nope HTTP/1.1\r\nHost: x\r\nX-API-Key: ${KEY_1}\r\nContent-Length: 99999999\r\n\r\n`);
    const chatter = setInterval(() => socket.write("and on"), 50);
    onTestFinished(() => clearInterval(chatter));
    await ended;
    expect(socket.destroyed).toBe(true);
  });

  it("refuses a body that is not UTF-8 instead of changing it", async () => {
    const { port } = await serveFleet();
    const body = Buffer.from('{"templateID":"\u00ff"}', "latin1");
    const answer = await exchange(
      port,
      `POST /sandboxes HTTP/1.1\r\n${HEAD}Content-Length: ${body.length}\r\n\r\n`,
      body,
    );
    expect([answer.status, JSON.parse(answer.body)]).toEqual([
      400,
      { code: 400, message: "the request body is not UTF-8" },
    ]);
  });

  it("survives connections that break at every byte of a request", async () => {
    const fleet = await serveFleet();
    const whole = `POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-Key: ${KEY_1}\r\nContent-Length: 21\r\n\r\n{"templateID":"base"}`;
    for (let cut = 0; cut < whole.length; cut += 1) {
      const socket = open(fleet.port);
      await new Promise<void>((resolve) => socket.write(whole.slice(0, cut) || " ", () => resolve()));
      socket.resetAndDestroy();
    }
    expect((await exchange(fleet.port, "GET /health HTTP/1.0\r\n\r\n")).status).toBe(204);
    expect(fleet.calls("claim")).toHaveLength(0);
  });
});

describe("a client that closes its connection while its sandbox is made", () => {
  it("leaves none behind", async () => {
    const fleet = await serveFleet();
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    const { promise: late, resolve: deliver } = Promise.withResolvers<void>();
    fleet.node.script("claim", async (call) => {
      resolve();
      await late;
      return fleet.node.claim(call.claim!);
    });
    const socket = open(fleet.port);
    const body = '{"templateID":"base"}';
    socket.write(`POST /v2/sandboxes HTTP/1.1\r\n${HEAD}Content-Length: ${body.length}\r\n\r\n${body}`);
    await asked;
    socket.destroy();
    await expect
      .poll(() => fleet.lines.find((line) => line.message === "request")?.fields["status"], { timeout: 10_000 })
      .toBe(499);
    deliver();
    await fleet.server.settled();
    expect(fleet.calls("release")).toHaveLength(1);
    expect(fleet.node.sandboxes).toHaveLength(0);
  });

  it("leaves none behind when the answer cannot be written any more", async () => {
    const { promise: client, resolve } = Promise.withResolvers<Socket>();
    const fleet = await serveFleet({
      store: (store) => ({
        ...store,
        release: (node, id) => store.release(node, id),
        settled: () => store.settled(),
        claim: async (namespace, name, pool, options) => {
          const assignment = await store.claim(namespace, name, pool, options);
          const socket = await client;
          socket.resetAndDestroy();
          // Long enough for the reset to arrive, and nothing looks at the signal in between.
          await new Promise((later) => socket.once("close", later));
          return assignment;
        },
      }),
    });
    const socket = open(fleet.port);
    const body = '{"templateID":"base"}';
    socket.write(`POST /v2/sandboxes HTTP/1.1\r\n${HEAD}Content-Length: ${body.length}\r\n\r\n${body}`);
    resolve(socket);
    await expect.poll(() => fleet.calls("claim").length, { timeout: 10_000 }).toBe(1);
    await expect.poll(() => fleet.node.sandboxes.length, { timeout: 10_000 }).toBe(0);
  });
});

describe("the drain", () => {
  async function slowCreate(
    fleet: Served,
  ): Promise<{ readonly answer: Promise<number>; readonly deliver: () => void }> {
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    const { promise: late, resolve: deliver } = Promise.withResolvers<void>();
    fleet.node.script("claim", async (call) => {
      resolve();
      await late;
      return fleet.node.claim(call.claim!);
    });
    const answer = new Promise<number>((done, failed) => {
      const headers = { "x-api-key": KEY_1 };
      const post = request({ port: fleet.port, method: "POST", path: "/v2/sandboxes", headers }, (response) => {
        response.resume().once("end", () => done(response.statusCode ?? 0));
      });
      post.once("error", failed).end('{"templateID":"base"}');
    });
    answer.catch(() => undefined);
    await asked;
    return { answer, deliver };
  }

  it("lets a request in flight finish, and takes no new connection", async () => {
    const fleet = await serveFleet();
    const idle = open(fleet.port);
    const kept = open(fleet.port);
    kept.write("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    await new Promise((resolve) => kept.once("data", resolve));
    const { answer, deliver } = await slowCreate(fleet);
    const gone = Promise.all([idle, kept].map((socket) => new Promise((resolve) => socket.once("close", resolve))));
    const stopped = fleet.stop();
    await gone;
    const refused = new Promise<string>((resolve) => {
      connect(fleet.port, "127.0.0.1").once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? ""));
    });
    expect(await refused).toBe("ECONNREFUSED");
    deliver();
    expect(await answer).toBe(201);
    await stopped;
    expect(fleet.node.sandboxes).toHaveLength(1);
    expect(fleet.lines.filter((line) => line.level === "error")).toHaveLength(0);
  });

  it("answers requests that have arrived and were not read yet", async () => {
    const fleet = await serveFleet();
    const sockets = Array.from({ length: 20 }, () => open(fleet.port));
    await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once("connect", resolve))));
    const answers = sockets.map((socket) => text(socket));
    for (const socket of sockets) {
      socket.write("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    await fleet.stop();
    expect((await Promise.all(answers)).map((answer) => parseAnswer(answer).status)).toEqual(sockets.map(() => 204));
  });

  it("is not held up by connections that have left HTTP and whose clients keep them", async () => {
    const fleet = await serveFleet({ drainTimeoutMs: 100 });
    const ended = ["CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", "no HTTP\r\n\r\n"].map(async (bytes) => {
      const socket = connect({ port: fleet.port, host: "127.0.0.1", allowHalfOpen: true });
      socket.on("error", () => undefined);
      onTestFinished(() => void socket.destroy());
      socket.write(bytes);
      return text(socket);
    });
    await Promise.all(ended);
    await fleet.stop();
  });

  it("cuts what is not finished in time, and says so", async () => {
    const fleet = await serveFleet({ drainTimeoutMs: 100 });
    const { answer, deliver } = await slowCreate(fleet);
    const stopped = fleet.stop();
    await expect(answer).rejects.toThrow(/socket hang up|ECONNRESET/);
    await stopped;
    expect(fleet.lines.find((line) => line.level === "error")?.message).toBe("e2b-compatible API server shutdown");
    deliver();
    await fleet.server.settled();
    expect(fleet.node.sandboxes).toHaveLength(0);
  });

  it("tells a kept connection with its last answer that it closes", async () => {
    const fleet = await serveFleet();
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    const { promise: late, resolve: deliver } = Promise.withResolvers<void>();
    fleet.node.script("claim", async (call) => {
      resolve();
      await late;
      return fleet.node.claim(call.claim!);
    });
    const socket = open(fleet.port);
    const answer = text(socket);
    const body = '{"templateID":"base"}';
    socket.write(`POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-Key: ${KEY_1}\r\n`);
    socket.write(`Content-Length: ${body.length}\r\n\r\n${body}`);
    await asked;
    const stopped = fleet.stop();
    deliver();
    const { status, head } = parseAnswer(await answer);
    expect([status, /^connection: (.*)$/m.exec(head)?.[1]?.trim()]).toEqual([201, "close"]);
    await stopped;
  });

  it("waits for the release of a sandbox whose client was cut off", async () => {
    const fleet = await serveFleet({ drainTimeoutMs: 100 });
    const { answer, deliver } = await slowCreate(fleet);
    const stopped = fleet.stop();
    await expect(answer).rejects.toThrow(/socket hang up|ECONNRESET/);
    deliver();
    await stopped;
    expect(fleet.calls("release")).toHaveLength(1);
    expect(fleet.node.sandboxes).toHaveLength(0);
  });

  it("is the same when it is asked for twice, and immediate when it comes before the start", async () => {
    const fleet = await serveFleet();
    await Promise.all([fleet.stop(), fleet.stop()]);
    await fleet.server.serve("127.0.0.1:0", {
      signal: AbortSignal.abort(),
      onListening: () => expect.fail("must not listen"),
    });
  });
});

describe("the start", () => {
  it("logs the address, the namespace and whether keys are asked for", async () => {
    const fleet = await serveFleet({ namespace: "team" });
    expect(fleet.lines).toStrictEqual([
      {
        level: "info",
        message: `serving e2b-compatible API address=127.0.0.1:${fleet.port} namespace=team authenticated=true`,
        fields: {
          func: "e2bcompat.Serve",
          address: `127.0.0.1:${fleet.port}`,
          namespace: "team",
          authenticated: true,
        },
      },
    ]);
  });

  it.each(["127.0.0.1", "not an address", "256.256.256.256:1"])("fails for %j and names it", async (address) => {
    const { server } = createFleet();
    const error = await server.serve(address, { signal: new AbortController().signal }).catch((reason) => reason);
    expect(error).toBeInstanceOf(E2bError);
    expect(error.code).toBe("listen_failed");
    expect(error.message).toContain(address);
  });

  it("fails when the port is taken", async () => {
    const first = await serveFleet();
    const { server } = createFleet();
    const address = `127.0.0.1:${first.port}`;
    await expect(server.serve(address, { signal: new AbortController().signal })).rejects.toThrow(
      `listen on e2b address "${address}"`,
    );
  });
});
