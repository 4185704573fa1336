import { createHash, randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import {
  eventually,
  httpGuest,
  parseAnswer,
  rawClient,
  rawGuest,
  requestHead,
  startProxy,
} from "./testing/fixtures.ts";
import type { Guest, RunningProxy } from "./testing/fixtures.ts";
import { ScriptedStore } from "./testing/scripted-store.ts";

const TOKEN = "X-Access-Token: token-of-sb_a";

interface Rig extends AsyncDisposable {
  readonly proxy: RunningProxy;
  readonly store: ScriptedStore;
}

async function proxyTo(guest: Guest): Promise<Rig> {
  const store = new ScriptedStore();
  store.put("sb_a", { ports: { 49983: guest.port } });
  const proxy = await startProxy({ store });
  return { proxy, store, [Symbol.asyncDispose]: () => proxy.stop() };
}

function get(path: string, headers: readonly string[] = []): string {
  return requestHead(`GET ${path}`, [TOKEN, ...headers]);
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) {
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks);
}

describe("answers", () => {
  it("arrive piece by piece, the head before any body", async () => {
    let step: (text: string) => void = () => undefined;
    let close: () => void = () => undefined;
    await using guest = await httpGuest((_request, response) => {
      response.writeHead(200, { "Content-Type": "application/connect+json" });
      response.flushHeaders();
      step = (text) => response.write(text);
      close = () => response.end();
    });
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, get("/watch"));
    expect(await client.until("\r\n\r\n")).toContain("X-Accel-Buffering: no");
    for (const letter of "abc") {
      step(letter);
      await client.until(`1\r\n${letter}\r\n`);
    }
    close();
    expect(await client.until("0\r\n\r\n")).toMatch(/1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n$/);
  });

  it("carry trailers in both directions", async () => {
    let trailers: string[] = [];
    await using guest = await httpGuest((request, response) => {
      void bodyOf(request).then(() => {
        trailers = request.rawTrailers;
        response.writeHead(200, { Trailer: "X-Sum" });
        response.write("body");
        response.addTrailers({ "X-Sum": "out" });
        response.end();
        return undefined;
      });
    });
    await using run = await proxyTo(guest);
    const body = "4\r\nbody\r\n0\r\nX-Sum: in\r\nHost: evil\r\n\r\n";
    const head = requestHead("POST /", [TOKEN, "Trailer: X-Sum", "Transfer-Encoding: chunked"]);
    using client = rawClient(run.proxy.port, head + body);
    const answer = await client.until("X-Sum: out\r\n\r\n");
    expect(answer).toContain("Trailer: X-Sum");
    expect(answer).toMatch(/0\r\nX-Sum: out\r\n\r\n$/);
    expect(trailers).toStrictEqual(["X-Sum", "in"]);
  });

  it("pass interim answers on, but no 100 that nobody asked for", async () => {
    await using guest = await rawGuest((socket) => {
      socket.once("data", () => {
        socket.write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: x\r\n\r\n");
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
      });
    });
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, get("/"));
    expect(await client.until("ok")).toMatch(/^HTTP\/1\.1 103 Early Hints\r\nLink: <\/a>\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
  });

  it("keep every byte of their heads", async () => {
    const value = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte))
      .filter((text) => text === "\t" || (text >= " " && text !== "\x7f"))
      .join("");
    await using guest = await rawGuest((socket) => {
      socket.once("data", () => {
        socket.write("HTTP/1.1 103 Early Hints\r\nX-Bytes: \xc3\xa9\xff\r\n\r\n", "latin1");
        socket.end(`HTTP/1.1 200 \xc3\xa9t\xe9\r\nX-Bytes: .${value}.\r\nContent-Length: 2\r\n\r\nok`, "latin1");
      });
    });
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, get("/"));
    const text = await client.until("\r\n\r\nok");
    expect(text).toContain("X-Bytes: \xc3\xa9\xff\r\n");
    expect(text).toContain(`HTTP/1.1 200 \xc3\xa9t\xe9\r\nX-Bytes: .${value}.\r\n`);
  });

  it.each([
    ["GET", "1.1", "204 No Content", ""],
    ["GET", "1.1", "304 Not Modified", ""],
    ["HEAD", "1.1", "200 OK", ""],
    ["GET", "1.0", "200 OK", "body"],
    ["HEAD", "1.0", "200 OK", ""],
  ])("that announce trailers arrive where none can follow: %s HTTP/%s, %s", async (method, version, status, body) => {
    await using guest = await rawGuest((socket) => {
      socket.once("data", () => {
        const chunks = method === "GET" && status === "200 OK" ? "4\r\nbody\r\n0\r\nX-Sum: 1\r\n\r\n" : "";
        socket.end(`HTTP/1.1 ${status}\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n${chunks}`);
      });
    });
    await using run = await proxyTo(guest);
    const head = requestHead(`${method} /`, [TOKEN, "Connection: close"]).replace("HTTP/1.1", `HTTP/${version}`);
    using client = rawClient(run.proxy.port, head);
    const { text, clean } = await client.ended();
    expect(text).toContain(`HTTP/1.1 ${status}\r\n`);
    expect(parseAnswer(text).body).toBe(body);
    expect(clean).toBe(true);
  });

  it("are never recoded", async () => {
    const packed = gzipSync("x".repeat(5000));
    await using guest = await httpGuest((request, response) => {
      response.setHeader("Content-Type", "application/connect+json");
      if (request.url === "/packed") {
        response.setHeader("Content-Encoding", "gzip");
      }
      response.end(request.url === "/packed" ? packed : "x".repeat(5000));
    });
    await using run = await proxyTo(guest);
    for (const [path, body] of [
      ["/packed", packed.toString("latin1")],
      ["/plain", "x".repeat(5000)],
    ] as const) {
      using client = rawClient(run.proxy.port, get(path, ["Accept-Encoding: gzip", "Connection: close"]));
      const answer = parseAnswer((await client.ended()).text);
      expect(answer.body).toBe(body);
      expect(answer.head.includes("Content-Encoding: gzip")).toBe(path === "/packed");
    }
  });

  it.each([
    ["HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"],
    ["GET", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 No Content\r\n"],
    ["GET", 'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n', 'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n'],
    ["GET", "HTTP/1.1 299 Very Odd\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 299 Very Odd\r\nContent-Length: 0\r\n"],
    ["GET", "HTTP/1.0 200 OK\r\n\r\nuntil the end", "HTTP/1.1 200 OK\r\n"],
  ])("without a body or length keep their form: %s %j", async (method, bytes, expected) => {
    await using guest = await rawGuest((socket) => {
      socket.once("data", () => socket.end(bytes));
    });
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, requestHead(`${method} /`, [TOKEN]) + requestHead("GET /healthz"));
    const text = await client.until("204 No Content\r\nConnection");
    expect(text.startsWith(expected)).toBe(true);
  });

  it("follow each other on a kept and on a pipelined connection", async () => {
    await using guest = await httpGuest((request, response) => {
      setTimeout(() => response.end(request.url), request.url === "/1" ? 30 : 0);
    });
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, get("/1") + get("/2") + get("/3"));
    const text = await client.until("/3");
    expect(text.indexOf("/1")).toBeLessThan(text.indexOf("/2"));
    client.socket.write(get("/4"));
    await client.until("/4");
    // The pipelined ones run side by side.
    expect(run.store.count("dial")).toBeGreaterThanOrEqual(3);
    await eventually("the relays close", () => run.store.relays.size === 0);
  });
});

describe("uploads", () => {
  const payload = randomBytes(3 * 1024 * 1024);
  const sum = createHash("sha256").update(payload).digest("hex");

  it.each(["sized", "chunked"])("arrive whole: %s", async (kind) => {
    await using guest = await httpGuest((request, response) => {
      void bodyOf(request).then((body) => response.end(createHash("sha256").update(body).digest("hex")));
    });
    await using run = await proxyTo(guest);
    const framing = kind === "sized" ? `Content-Length: ${payload.length}` : "Transfer-Encoding: chunked";
    using client = rawClient(run.proxy.port, requestHead("POST /files", [TOKEN, framing]));
    if (kind === "sized") {
      client.socket.write(payload);
    } else {
      client.socket.write(`${payload.length.toString(16)}\r\n`);
      client.socket.write(payload);
      client.socket.write("\r\n0\r\n\r\n");
    }
    expect(await client.until(sum)).toContain(sum);
  });

  it.each([
    ["all in one packet", [Infinity]],
    ["one packet, then the end", [20, Infinity]],
    ["a byte at a time", Array.from({ length: 64 }, () => 1)],
    ["pieces that split sizes, data and the end", [3, 5, 1, 7, 2, 4, 9, 6, 8, 1, 1, 1, Infinity]],
  ])("in chunks arrive in order with the end behind them: %s", async (_case, sizes) => {
    await using guest = await httpGuest((request, response) => {
      void bodyOf(request).then((body) => response.end(`<${body.toString()}> ${request.rawTrailers.join(" ")}.`));
    });
    await using run = await proxyTo(guest);
    const head = requestHead("POST /files", [TOKEN, "Transfer-Encoding: chunked", "Trailer: X-Sum"]);
    const body = "3\r\nhel\r\n2\r\nlo\r\n1\r\n!\r\n4\r\nmore\r\n0\r\nX-Sum: 9\r\n\r\n";
    // The head alone, and the head together with the first piece, since what is there with the head is sent with it.
    for (const together of [false, true]) {
      using client = rawClient(run.proxy.port, together ? "" : head);
      let rest = together ? head + body : body;
      for (const size of together ? [head.length + (sizes[0] ?? 0), ...sizes.slice(1)] : sizes) {
        client.socket.write(rest.slice(0, size));
        rest = rest.slice(size);
        await new Promise((resolve) => setImmediate(resolve));
      }
      client.socket.write(rest);
      expect(await client.until("X-Sum 9.")).toContain("<hello!more> X-Sum 9.");
    }
  });

  it("reach the guest before they are complete", async () => {
    await using guest = await httpGuest((request, response) => {
      request.once("data", (chunk: Buffer) => response.write(`got ${chunk.toString()}`));
      request.once("end", () => response.end("done"));
    });
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, requestHead("POST /", [TOKEN, "Transfer-Encoding: chunked"]));
    client.socket.write("2\r\nab\r\n");
    await client.until("got ab");
    client.socket.write("0\r\n\r\n");
    await client.until("done");
  });

  it("are asked for only once the guest is reached", async () => {
    let expected: string | undefined = "unset";
    await using guest = await httpGuest((request, response) => {
      expected = request.headers.expect;
      void bodyOf(request).then((body) => response.end(body));
    });
    await using run = await proxyTo(guest);
    let reached: () => void = () => undefined;
    run.store.beforeDial = () =>
      new Promise((resolve) => {
        reached = resolve;
      });
    const headers = [TOKEN, "Expect: 100-continue", "Content-Length: 4"];
    using client = rawClient(run.proxy.port, requestHead("POST /", headers));
    await eventually("the dial", () => run.store.count("dial") === 1);
    expect(client.text()).toBe("");
    reached();
    expect(await client.until("\r\n\r\n")).toBe("HTTP/1.1 100 Continue\r\n\r\n");
    client.socket.write("body");
    expect(await client.until("body")).toContain("HTTP/1.1 200 OK");
    expect(expected).toBeUndefined();
  });

  it("are not asked for when the request is refused", async () => {
    await using guest = await httpGuest((_request, response) => response.end());
    await using run = await proxyTo(guest);
    const headers = ["X-Access-Token: wrong", "Expect: 100-continue", "Content-Length: 4"];
    using client = rawClient(run.proxy.port, requestHead("POST /", headers));
    expect(await client.until("}")).toMatch(/^HTTP\/1\.1 401 Unauthorized\r\n/);
  });

  it("may not expect anything else", async () => {
    await using guest = await httpGuest((_request, response) => response.end());
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, requestHead("POST /", [TOKEN, "Expect: a-miracle", "Content-Length: 4"]));
    expect(await client.until("}")).toMatch(/^HTTP\/1\.1 417 .*"code":417/s);
  });

  it("may be answered before they end, and the answer is not lost", async () => {
    await using guest = await rawGuest((socket) => {
      socket.once("data", () => socket.end("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig"));
    });
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, requestHead("POST /", [TOKEN, "Content-Length: 100000000"]));
    const feed = setInterval(() => client.socket.write(Buffer.alloc(16_384)), 5);
    try {
      expect(await client.until("big")).toContain("HTTP/1.1 413 Too Large");
      const { text } = await client.ended();
      expect(parseAnswer(text).body).toBe("big");
    } finally {
      clearInterval(feed);
    }
    await eventually("the relay closes", () => run.store.relays.size === 0);
  });

  it.each([
    ["gzip, chunked", 501],
    ["chunked, chunked", 400],
    ["identity", 501],
  ])("with the transfer encoding %j are refused with %i", async (encoding, status) => {
    await using guest = await httpGuest((_request, response) => response.end());
    await using run = await proxyTo(guest);
    using client = rawClient(
      run.proxy.port,
      requestHead("POST /", [TOKEN, `Transfer-Encoding: ${encoding}`]) + "0\r\n\r\n",
    );
    const { text } = await client.ended();
    expect(parseAnswer(text)).toMatchObject({ status });
    expect(text).toContain("Connection: close");
    expect(run.store.count("dial")).toBe(0);
  });
});

describe("backpressure", () => {
  it("stalls the guest when the client does not read, and loses nothing when it does", async () => {
    const total = 64 * 1024 * 1024;
    const chunk = Buffer.alloc(64 * 1024, 7);
    let written = 0;
    await using guest = await httpGuest((_request, response) => {
      response.setHeader("Content-Length", String(total));
      const feed = (): void => {
        while (written < total) {
          written += chunk.length;
          if (!response.write(chunk)) {
            response.once("drain", feed);
            return;
          }
        }
        response.end();
      };
      feed();
    });
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port);
    client.socket.setEncoding("latin1");
    client.socket.pause();
    client.socket.write(get("/big", ["Connection: close"]));
    let before = -1;
    await eventually("the guest stalls", () => {
      const stalled = written > 0 && written === before;
      before = written;
      return stalled;
    });
    await sleep(50);
    expect(written).toBeLessThan(total / 2);
    client.socket.resume();
    const { text, clean } = await client.ended();
    expect(clean).toBe(true);
    expect(parseAnswer(text).body).toHaveLength(total);
  });

  it("stalls the client when the guest does not read", async () => {
    await using guest = await rawGuest((socket) => {
      socket.pause();
    });
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, requestHead("POST /", [TOKEN, "Content-Length: 1000000000"]));
    let sent = 0;
    const feed = (): void => {
      while (sent < 256 * 1024 * 1024 && client.socket.write(Buffer.alloc(64 * 1024))) {
        sent += 64 * 1024;
      }
    };
    client.socket.on("drain", feed);
    feed();
    await eventually("the dial", () => run.store.relays.size === 1);
    let before = -1;
    await eventually("the client stalls", () => {
      const stalled = sent === before;
      before = sent;
      return stalled && client.socket.writableLength > 0;
    });
    await sleep(50);
    expect(sent).toBeLessThan(64 * 1024 * 1024);
  });
});

describe("a client that goes away", () => {
  it.each(["FIN", "RST"])("destroys the relay at once in every phase: %s", async (how) => {
    const phases = ["resolve", "dial", "upload", "wait", "head", "body"] as const;
    await using guest = await httpGuest((request, response) => {
      if (request.url === "/head" || request.url === "/body") {
        response.writeHead(200);
        response.flushHeaders();
      }
      if (request.url === "/body") {
        response.write("some");
      }
    });
    for (const phase of phases) {
      await using run = await proxyTo(guest);
      let waiting = false;
      const hang = (_id: string): Promise<void> => {
        waiting = true;
        return sleep(100);
      };
      if (phase === "resolve") {
        run.store.beforeRead = hang;
      }
      if (phase === "dial") {
        run.store.beforeDial = async (id, options) => {
          await hang(id);
          options?.signal?.throwIfAborted();
        };
      }
      const upload = phase === "upload" ? ["Content-Length: 1000"] : [];
      using client = rawClient(run.proxy.port, requestHead(`POST /${phase}`, [TOKEN, ...upload]));
      if (phase === "upload") {
        client.socket.write("x".repeat(500));
      }
      if (phase === "resolve" || phase === "dial") {
        await eventually(phase, () => waiting);
      } else {
        await eventually(phase, () => guest.sockets.size === 1);
      }
      if (phase === "head") {
        await client.until("\r\n\r\n");
      }
      if (phase === "body") {
        await client.until("some");
      }
      if (how === "FIN") {
        client.socket.end();
      } else {
        client.socket.resetAndDestroy();
      }
      await sleep(phase === "resolve" || phase === "dial" ? 150 : 0);
      await eventually(`the guest is rid of ${phase}`, () => guest.sockets.size === 0 && run.store.relays.size === 0);
      await run.proxy.stop();
    }
  });

  it("leaves nothing behind after 500 times of reading the head and hanging up", { timeout: 120_000 }, async () => {
    await using guest = await httpGuest((_request, response) => {
      response.writeHead(200, { "Content-Length": "100000000" });
      response.write(Buffer.alloc(100_000));
    });
    await using run = await proxyTo(guest);
    for (let round = 0; round < 10; round += 1) {
      await Promise.all(
        Array.from({ length: 50 }, async () => {
          using client = rawClient(run.proxy.port, get("/download"));
          await client.until("\r\n\r\n");
        }),
      );
    }
    await eventually("all relays close", () => run.store.relays.size === 0 && guest.sockets.size === 0);
  });
});

describe("a guest that breaks", () => {
  const before: [string, string][] = [
    ["closes before it answers", ""],
    ["closes within its head", "HTTP/1.1 200 OK\r\nContent-Le"],
    ["speaks something else", "SSH-2.0-OpenSSH_9.2\r\n"],
    ["sends a status of two digits", "HTTP/1.1 99 Odd\r\n\r\n"],
    ["sends status 000", "HTTP/1.1 000 None\r\nContent-Length: 0\r\n\r\n"],
    ["sends status 999", "HTTP/1.1 999 Much\r\nContent-Length: 0\r\n\r\n"],
    ["sends a broken header", "HTTP/1.1 200 OK\r\nA b: c\r\n\r\n"],
    ["sends two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"],
    ["sends no chunk behind its head", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\nzz\r\n"],
    ["switches protocols unasked", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"],
  ];
  it.each(before.flatMap((row) => [[...row, "FIN"] as const, [...row, "RST"] as const]))(
    "and %s (%j, %s) is a 502",
    async (_what, bytes, how) => {
      await using guest = await rawGuest((socket) => {
        socket.once("data", () => {
          socket.write(bytes, () => {
            if (how === "FIN") {
              socket.end();
            } else {
              // Only after what was written had a chance to arrive.
              setTimeout(() => socket.resetAndDestroy(), 20);
            }
          });
        });
      });
      await using run = await proxyTo(guest);
      using client = rawClient(run.proxy.port, get("/", ["Origin: https://x.example"]));
      const answer = parseAnswer(await client.until("}"));
      expect(answer).toMatchObject({ status: 502, body: '{"code":502,"message":"sandbox unreachable"}\n' });
      expect(answer.head).toContain("Access-Control-Allow-Origin: *");
      client.socket.write(requestHead("GET /healthz"));
      await client.until("204 No Content");
      await eventually("the relay closes", () => run.store.relays.size === 0);
    },
  );

  const within: [string, string, string][] = [
    ["a chunked body", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n", "HTTP/1.1"],
    ["a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nsome", "HTTP/1.1"],
    ["a sized body", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome", "HTTP/1.1"],
    [
      "a chunked body for an HTTP/1.0 client",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n",
      "HTTP/1.0",
    ],
    ["trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n0\r\nX-S", "HTTP/1.1"],
  ];
  it.each(within.flatMap((row) => [[...row, "FIN"] as const, [...row, "RST"] as const]))(
    "within %s (%j to %s, %s) never looks like a complete answer",
    async (_what, bytes, version, how) => {
      await using guest = await rawGuest((socket) => {
        socket.once("data", () => socket.write(bytes));
      });
      await using run = await proxyTo(guest);
      using client = rawClient(run.proxy.port, get("/").replace("HTTP/1.1", version));
      await client.until("some");
      for (const socket of guest.sockets) {
        if (how === "FIN") {
          socket.end();
        } else {
          socket.resetAndDestroy();
        }
      }
      const { text, clean } = await client.ended();
      expect(text).not.toMatch(/0\r\n\r\n$/);
      // Where only the end of the connection ends the body, it has to be a reset.
      expect(clean && version === "HTTP/1.0").toBe(false);
      await eventually("the relay closes", () => run.store.relays.size === 0);
    },
  );

  it("by bytes that are no chunk, after its answer has begun, breaks the client's off", async () => {
    let breakOff: () => void = () => undefined;
    await using guest = await rawGuest((socket) => {
      socket.once("data", () => {
        socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n");
        breakOff = () => socket.write("zz\r\n");
      });
    });
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, get("/"));
    await client.until("some");
    breakOff();
    const { text } = await client.ended();
    expect(text).not.toMatch(/0\r\n\r\n$/);
    await eventually("the relay closes", () => run.store.relays.size === 0);
  });
});
