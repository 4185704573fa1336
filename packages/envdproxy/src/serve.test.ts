import { mkdtemp, rm, utimes, writeFile } from "node:fs/promises";
import { connect as connectHttp2, constants } from "node:http2";
import type { ClientHttp2Session } from "node:http2";
import { request as httpsRequest } from "node:https";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import type { TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { EnvdProxyError } from "./errors.ts";
import { Flags } from "./flags.ts";
import { bindListener } from "./listener.ts";
import { createProxy } from "./proxy.ts";
import { serve } from "./serve.ts";
import { DOMAIN, eventually, httpGuest, parseAnswer, rawClient, requestHead, startProxy } from "./testing/fixtures.ts";
import { ScriptedStore } from "./testing/scripted-store.ts";
import { selfSigned } from "./testing/self-signed.ts";
import { watchTlsPair } from "./tls-pair.ts";

const TOKEN = "X-Access-Token: token-of-sb_a";
const HOST = `49983-sb-a.${DOMAIN}`;

let folder = "";
let certFile = "";
let keyFile = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "envdproxy-"));
  certFile = join(folder, "tls.crt");
  keyFile = join(folder, "tls.key");
  const pair = selfSigned(`*.${DOMAIN}`);
  await writeFile(certFile, pair.cert);
  await writeFile(keyFile, pair.key);
});
afterAll(() => rm(folder, { recursive: true }));

function storeWith(port: number): ScriptedStore {
  const store = new ScriptedStore();
  store.put("sb_a", { ports: { 49983: port } });
  return store;
}

describe("bindListener", () => {
  it("holds connections until they are served", async () => {
    await using listener = await bindListener("127.0.0.1:0");
    using early = rawClient(listener.port, requestHead("GET /healthz"));
    using reset = rawClient(listener.port, requestHead("GET /healthz"));
    await sleep(50);
    reset.socket.resetAndDestroy();
    expect(early.text()).toBe("");
    const controller = new AbortController();
    const served = serve(listener, createProxy({ store: new ScriptedStore(), domain: DOMAIN }), {
      signal: controller.signal,
    });
    await early.until("204 No Content");
    using later = rawClient(listener.port, requestHead("GET /healthz"));
    await later.until("204 No Content");
    controller.abort();
    await served;
    using refused = rawClient(listener.port);
    expect((await refused.ended()).error).toBe("ECONNREFUSED");
  });

  it("names its address with the port in use", async () => {
    await using listener = await bindListener("127.0.0.1:0");
    expect(listener.address).toBe(`127.0.0.1:${listener.port}`);
    await using any = await bindListener(":0");
    expect(any.address).toBe(`:${any.port}`);
  });

  it.each(["", "8443", "localhost", "nonsense.invalid:80", "192.0.2.1:80"])(
    "refuses %j, naming it",
    async (address) => {
      await expect(bindListener(address)).rejects.toMatchObject({
        name: "EnvdProxyError",
        code: "listen_failed",
        message: expect.stringContaining(`listen on envd-proxy address ${JSON.stringify(address)}: `) as string,
      });
    },
  );

  it("refuses an address that is taken", async () => {
    await using listener = await bindListener("127.0.0.1:0");
    await expect(bindListener(listener.address)).rejects.toMatchObject({ code: "listen_failed" });
  });

  it("can be served once, and closes what nobody took", async () => {
    const listener = await bindListener("127.0.0.1:0");
    using waiting = rawClient(listener.port);
    await sleep(20);
    await listener.close();
    await listener.close();
    expect((await waiting.ended()).text).toBe("");
    listener.accept(() => undefined);
    expect(() => listener.accept(() => undefined)).toThrow(EnvdProxyError);
  });
});

describe("requests that can not be read", () => {
  it.each([
    ["no HTTP", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400],
    ["a broken line", "GET\r\n\r\n", 400],
    ["a broken header", requestHead("GET /", ["A b: c"]), 400],
    ["a broken length", requestHead("POST /", ["Content-Length: x"]), 400],
    ["two lengths", requestHead("POST /", ["Content-Length: 1", "Content-Length: 2"]), 400],
    ["length and chunks", requestHead("POST /", ["Content-Length: 1", "Transfer-Encoding: chunked"]), 400],
    ["too many header bytes", requestHead("GET /", [`A: ${"x".repeat(1_200_000)}`]), 431],
    ["no host", "GET / HTTP/1.1\r\n\r\n", 400],
  ])("with %s get a JSON error", async (_what, bytes, status) => {
    await using proxy = await startProxy({ store: new ScriptedStore() });
    using client = rawClient(proxy.port, bytes);
    const answer = parseAnswer(await client.until("}"));
    expect(answer.status).toBe(status);
    expect(JSON.parse(answer.body)).toMatchObject({ code: status, message: expect.any(String) as string });
    expect(answer.head).toContain("Content-Type: application/json");
  });

  it("accept large headers", async () => {
    await using guest = await httpGuest((request, response) => response.end(String(request.headers["x-big"]?.length)));
    await using proxy = await startProxy({ store: storeWith(guest.port) });
    const many = Array.from({ length: 3000 }, (_, i) => `a${i}: 1`);
    using client = rawClient(proxy.port, requestHead("GET /", [TOKEN, `X-Big: ${"x".repeat(100_000)}`, ...many]));
    expect(parseAnswer(await client.until("100000"))).toMatchObject({ status: 200 });
  });

  it("arrive in single bytes as well", async () => {
    await using proxy = await startProxy({ store: new ScriptedStore() });
    using client = rawClient(proxy.port);
    for (const byte of requestHead("PRIVATE /x")) {
      client.socket.write(byte);
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    }
    expect(parseAnswer(await client.until("}")).status).toBe(400);
    using second = rawClient(proxy.port);
    for (const byte of requestHead("GET /healthz")) {
      second.socket.write(byte);
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    }
    await second.until("204 No Content");
  });

  it("with a broken chunk in the middle do not get an error inside an answer", async () => {
    await using guest = await httpGuest((_request, response) => response.write("begun"));
    await using proxy = await startProxy({ store: storeWith(guest.port) });
    using client = rawClient(proxy.port, requestHead("POST /", [TOKEN, "Transfer-Encoding: chunked"]));
    client.socket.write("1\r\na\r\n");
    await client.until("begun");
    client.socket.write("zz\r\n");
    const { text } = await client.ended();
    expect(text.match(/HTTP\/1\.1/g)).toHaveLength(1);
    await eventually("the relay closes", () => proxy.store.relays.size === 0);
  });

  it.each([
    ["nothing at all", ""],
    ["half a preface", "PRI * HT"],
    ["a preface without settings", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["half a head", "GET / HTTP/1.1\r\nHost: x\r\n"],
    ["a preface that is none", "PRI * HTTP/1.1\r\n\r\n"],
  ])("that stop after %s do not stay", async (_what, bytes) => {
    await using proxy = await startProxy({ store: new ScriptedStore() }, { headTimeoutMs: 150 });
    using client = rawClient(proxy.port, bytes);
    const { text } = await client.ended();
    // HTTP/2 servers speak first.
    expect(text === "" || bytes.includes("SM") || parseAnswer(text).status === 408).toBe(true);
    expect(text.includes('"code":408')).toBe(bytes.includes("HTTP/1.1"));
  });

  it("have no time limit on their bodies and answers", async () => {
    await using guest = await httpGuest((request, response) => {
      request.resume();
      request.on("end", () => setTimeout(() => response.end("late"), 800));
    });
    await using proxy = await startProxy({ store: storeWith(guest.port) }, { headTimeoutMs: 500 });
    using client = rawClient(proxy.port, requestHead("POST /", [TOKEN, "Content-Length: 2"]));
    client.socket.write("a");
    await sleep(800);
    client.socket.write("b");
    expect(await client.until("late")).toContain("200 OK");
    await sleep(800);
    client.socket.write(requestHead("GET /healthz"));
    await client.until("204 No Content");
  });
});

describe("the drain", () => {
  it("M16: lets running requests finish before it returns, and closes idle connections", async () => {
    let finish: () => void = () => undefined;
    await using guest = await httpGuest((_request, response) => {
      finish = () => response.writeHead(204).end();
    });
    const store = storeWith(guest.port);
    const proxy = await startProxy({ store }, { drainTimeoutMs: 10_000 });
    using idle = rawClient(proxy.port, requestHead("GET /healthz"));
    await idle.until("204 No Content");
    using fresh = rawClient(proxy.port);
    using running = rawClient(proxy.port, requestHead("GET /", [TOKEN]));
    await eventually("the guest", () => guest.sockets.size === 1);
    let stopped = false;
    const stopping = proxy.stop().then(() => {
      stopped = true;
      return undefined;
    });
    await idle.ended();
    await fresh.ended();
    using refused = rawClient(proxy.port);
    expect((await refused.ended()).error).toBe("ECONNREFUSED");
    expect(stopped).toBe(false);
    finish();
    const { text, clean } = await running.ended();
    expect(text).toContain("HTTP/1.1 204 No Content");
    expect(clean).toBe(true);
    await stopping;
  });

  it.each(["HTTP/1.1", "HTTP/1.0"])("cuts what is left so that it does not look complete: %s", async (version) => {
    await using guest = await httpGuest((_request, response) => response.write("some"));
    const lines: string[] = [];
    const write = (_fields: object, message: string): void => void lines.push(message);
    const logger = { debug: () => undefined, info: () => undefined, warn: write, error: write };
    const proxy = await startProxy({ store: storeWith(guest.port), logger });
    using client = rawClient(proxy.port, requestHead("GET /", [TOKEN]).replace("HTTP/1.1", version));
    await client.until("some");
    const stopping = proxy.stop();
    const { text, clean } = await client.ended();
    expect(text).not.toMatch(/0\r\n\r\n$/);
    expect(clean && version === "HTTP/1.0").toBe(false);
    await stopping;
    expect(lines).toStrictEqual(["envd-proxy shutdown"]);
    await eventually("the relay closes", () => proxy.store.relays.size === 0);
  });

  it("does not wait for switched connections, and closes them in the end", async () => {
    await using guest = await httpGuest(() => undefined);
    const proxy = await startProxy({ store: storeWith(guest.port) }, { drainTimeoutMs: 60_000 });
    guest.sockets.forEach(() => undefined);
    await using switching = await httpGuest(() => undefined);
    proxy.store.put("sb_b", { ports: { 80: switching.port } });
    const headers = ["X-Access-Token: token-of-sb_b", "Connection: Upgrade", "Upgrade: x"];
    using client = rawClient(proxy.port, requestHead("GET /", headers, `80-sb-b.${DOMAIN}`));
    await eventually("the guest", () => switching.sockets.size === 1);
    for (const socket of switching.sockets) {
      socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhi");
    }
    await client.until("hi");
    await proxy.stop();
    await client.ended();
    await eventually("the relay closes", () => proxy.store.relays.size === 0);
  });

  it("tells HTTP/2 clients, lets their streams finish, and resets the rest", async () => {
    let finish: () => void = () => undefined;
    await using guest = await httpGuest((request, response) => {
      response.write("some");
      if (request.url === "/short") {
        finish = () => response.end("done");
      }
    });
    const proxy = await startProxy({ store: storeWith(guest.port) }, { drainTimeoutMs: 400 });
    const session = connectHttp2(`http://127.0.0.1:${proxy.port}`);
    session.on("error", () => undefined);
    let goneAway = false;
    session.on("goaway", () => {
      goneAway = true;
    });
    const open = (path: string): Promise<{ body: string; code: number }> => {
      const stream = session.request({ ":authority": HOST, ":path": path, "x-access-token": "token-of-sb_a" });
      let body = "";
      stream.on("error", () => undefined);
      stream.on("data", (chunk: Buffer) => {
        body += chunk.toString();
      });
      return new Promise((resolve) => {
        stream.once("close", () => resolve({ body, code: stream.rstCode ?? 0 }));
      });
    };
    const short = open("/short");
    const long = open("/long");
    await eventually("both", () => guest.sockets.size === 2);
    await sleep(20);
    const stopping = proxy.stop();
    await eventually("the GOAWAY", () => goneAway);
    finish();
    expect(await short).toStrictEqual({ body: "somedone", code: 0 });
    expect(await long).toStrictEqual({ body: "some", code: constants.NGHTTP2_INTERNAL_ERROR });
    await stopping;
    session.destroy();
    await eventually("the relays close", () => proxy.store.relays.size === 0);
  });

  it("is over at once when nothing runs, also before the first connection", async () => {
    const listener = await bindListener("127.0.0.1:0");
    const signal = AbortSignal.abort();
    await serve(listener, createProxy({ store: new ScriptedStore(), domain: DOMAIN }), { signal });
    const proxy = await startProxy({ store: new ScriptedStore() }, { drainTimeoutMs: 60_000 });
    const session = connectHttp2(`http://127.0.0.1:${proxy.port}`);
    session.on("error", () => undefined);
    await new Promise((resolve) => {
      session.once("remoteSettings", resolve);
    });
    await proxy.stop();
    session.destroy();
  });
});

describe("TLS", () => {
  function tlsClient(port: number, protocols: string[]): Promise<TLSSocket> {
    return new Promise((resolve, reject) => {
      const socket = connectTls({ host: "127.0.0.1", port, ALPNProtocols: protocols, rejectUnauthorized: false });
      socket.once("secureConnect", () => resolve(socket));
      socket.once("error", reject);
    });
  }

  it("takes one request, and no more, of whoever was still shaking hands when the drain began", async () => {
    let finish: () => void = () => undefined;
    await using guest = await httpGuest((_request, response) => {
      finish = () => response.end();
    });
    const tls = { certFile, keyFile };
    const proxy = await startProxy({ store: storeWith(guest.port) }, { tls, drainTimeoutMs: 60_000 });
    const running = await tlsClient(proxy.port, ["http/1.1"]);
    running.on("error", () => undefined).write(requestHead("GET /", [TOKEN]));
    const late = connect(proxy.port, "127.0.0.1");
    await eventually("both connections", () => proxy.handler.counters.connections().http1 === 2);
    await eventually("the guest", () => guest.sockets.size === 1);
    const stopping = proxy.stop();
    const client = connectTls({ socket: late, ALPNProtocols: ["http/1.1"], rejectUnauthorized: false });
    let text = "";
    client
      .on("error", () => undefined)
      .on("data", (bytes: Buffer) => {
        text += bytes.toString();
      });
    const closed = new Promise((resolve) => client.once("close", resolve));
    client.write(requestHead("GET /healthz"));
    await closed;
    expect(text).toMatch(/^HTTP\/1\.1 204 No Content\r\nConnection: close\r\n/);
    finish();
    await stopping;
    running.destroy();
  });

  it("offers HTTP/2 and HTTP/1.1 to those who ask", async () => {
    let forwarded: unknown;
    await using guest = await httpGuest((request, response) => {
      forwarded = request.headers["x-forwarded-proto"];
      response.end("hello");
    });
    await using proxy = await startProxy({ store: storeWith(guest.port) }, { tls: { certFile, keyFile } });
    for (const [asked, got] of [
      [["h2", "http/1.1"], "h2"],
      [["http/1.1"], "http/1.1"],
      [[], false],
    ] as const) {
      const socket = await tlsClient(proxy.port, [...asked]);
      expect(socket.alpnProtocol).toBe(got);
      socket.destroy();
    }

    const session: ClientHttp2Session = connectHttp2(`https://127.0.0.1:${proxy.port}`, { rejectUnauthorized: false });
    const stream = session.request({ ":authority": HOST, "x-access-token": "token-of-sb_a" });
    let body = "";
    for await (const chunk of stream) {
      body += String(chunk);
    }
    session.destroy();
    expect([body, forwarded]).toStrictEqual(["hello", "https"]);

    const status = await new Promise((resolve, reject) => {
      const headers = { Host: HOST, "X-Access-Token": "token-of-sb_a" };
      const request = httpsRequest(
        { host: "127.0.0.1", port: proxy.port, rejectUnauthorized: false, headers, agent: false },
        (response) => {
          response.resume();
          response.once("end", () => resolve(response.statusCode));
        },
      );
      request.once("error", reject);
      request.end();
    });
    expect(status).toBe(200);
  });

  it("upgrades WebSockets over TLS, half-close included", async () => {
    await using guest = await httpGuest(() => undefined);
    await using proxy = await startProxy({ store: storeWith(guest.port) }, { tls: { certFile, keyFile } });
    const socket = await tlsClient(proxy.port, ["http/1.1"]);
    let text = "";
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    socket.write(requestHead("GET /", [TOKEN, "Connection: Upgrade", "Upgrade: websocket"]));
    await eventually("the guest", () => guest.sockets.size === 1);
    for (const relay of guest.sockets) {
      relay.end("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nlast words");
    }
    await new Promise((resolve) => {
      socket.once("end", resolve);
    });
    expect(text).toContain("last words");
    socket.destroy();
    await eventually("the relay closes", () => proxy.store.relays.size === 0);
  });

  it("survives clients that speak something else or leave in the handshake", async () => {
    await using proxy = await startProxy(
      { store: new ScriptedStore() },
      { tls: { certFile, keyFile }, headTimeoutMs: 200 },
    );
    using plain = rawClient(proxy.port, requestHead("GET /healthz"));
    await plain.ended();
    using leaver = rawClient(proxy.port, "\x16\x03\x01");
    await sleep(10);
    leaver.socket.resetAndDestroy();
    using silent = rawClient(proxy.port);
    await silent.ended();
    const socket = await tlsClient(proxy.port, ["http/1.1"]);
    socket.destroy();
  });

  it("takes a changed pair up, and keeps the old one when the new one is no pair", async () => {
    const files = { certFile: join(folder, "watch.crt"), keyFile: join(folder, "watch.key") };
    const first = selfSigned("one");
    await writeFile(files.certFile, first.cert);
    await writeFile(files.keyFile, first.key);
    const onPair = vi.fn();
    const onError = vi.fn();
    const stop = watchTlsPair(files, { intervalMs: 5, onPair, onError });
    await sleep(50);
    expect(onPair).not.toHaveBeenCalled();
    const second = selfSigned("two");
    await writeFile(files.certFile, second.cert);
    await utimes(files.certFile, 1, 1);
    await vi.waitFor(() => expect(onError).toHaveBeenCalled());
    await writeFile(files.keyFile, second.key);
    await utimes(files.keyFile, 2, 2);
    await vi.waitFor(() => expect(onPair).toHaveBeenCalled());
    const pair = onPair.mock.lastCall?.[0] as { cert: Buffer };
    expect(pair.cert.toString()).toBe(second.cert);
    stop();
  });
});

describe("Flags", () => {
  const handler = createProxy({ store: new ScriptedStore(), domain: DOMAIN });

  it("declares the same flags under either prefix", () => {
    const names = [
      "bind-address",
      "tls-cert-file",
      "tls-private-key-file",
      "guest-http2",
      "public-ports",
      "relay-idle",
      "max-relays",
      "max-relays-per-sandbox",
      "access-log",
    ];
    // What watches a process is no matter of one of its surfaces.
    const shared = "metrics-bind-address";
    expect(Object.keys(Flags.options(""))).toStrictEqual([...names, shared]);
    expect(Object.keys(Flags.options("envd-proxy-"))).toStrictEqual([
      ...names.map((name) => `envd-proxy-${name}`),
      shared,
    ]);
    expect(Flags.options("")["bind-address"]?.default).toBe(":8443");
    expect(Flags.options("envd-proxy-")["envd-proxy-bind-address"]?.default).toBe("");
  });

  it("reads what the options say, and their defaults", () => {
    expect(Flags.from({}, "")).toMatchObject({ bindAddress: ":8443", guestHttp2: false, publicPorts: "none" });
    expect(Flags.from({}, "envd-proxy-")).toMatchObject({ bindAddress: "" });
    const argv = { "bind-address": "127.0.0.1:1", "guest-http2": true, "public-ports": "3000, 8080" };
    expect(Flags.from(argv, "")).toMatchObject({
      bindAddress: "127.0.0.1:1",
      guestHttp2: true,
      publicPorts: [3000, 8080],
    });
    expect(Flags.from({ "envd-proxy-public-ports": "all" }, "envd-proxy-").publicPorts).toBe("all");
  });

  it.each([
    ["bind-address", "8443"],
    ["bind-address", ""],
    ["bind-address", ["a", "b"]],
    ["guest-http2", "yes"],
    ["public-ports", "some"],
    ["public-ports", "80,,81"],
    ["public-ports", "80,49983"],
    ["public-ports", "70000"],
    ["tls-cert-file", 1],
  ])("refuses --%s %j by name", (name, value) => {
    expect(() => Flags.from({ [name]: value }, "")).toThrow(`--${name}: `);
  });

  it("serves, and says so in the pinned line", async () => {
    const info = vi.fn();
    const logger = { debug: vi.fn(), info, warn: vi.fn(), error: vi.fn() };
    const listener = await bindListener("127.0.0.1:0");
    const controller = new AbortController();
    const argv = { "envd-proxy-tls-cert-file": certFile, "envd-proxy-tls-private-key-file": keyFile };
    const served = Flags.from(argv, "envd-proxy-").serve(
      listener,
      createProxy({ store: new ScriptedStore(), domain: DOMAIN, logger }),
      { signal: controller.signal },
    );
    await vi.waitFor(() => expect(info).toHaveBeenCalled());
    expect(info.mock.calls).toStrictEqual([
      [
        { address: listener.address, tls: true, domain: DOMAIN },
        `serving envd-proxy address=${listener.address} tls=true domain=${DOMAIN}`,
      ],
    ]);
    controller.abort();
    await served;
  });

  it("refuses a TLS pair before any request: one half, unreadable, or not matching", async () => {
    const other = join(folder, "other.key");
    await writeFile(other, selfSigned("other").key);
    for (const [cert, key, message] of [
      [certFile, "", "certificate and private key must be set together"],
      ["", keyFile, "certificate and private key must be set together"],
      [join(folder, "none"), keyFile, "read TLS certificate"],
      [certFile, join(folder, "none"), "read TLS private key"],
      [certFile, other, "TLS certificate"],
      [keyFile, keyFile, "TLS certificate"],
    ] as const) {
      const listener = await bindListener("127.0.0.1:0");
      using client = rawClient(listener.port, requestHead("GET /healthz"));
      const flags = Flags.from({ "tls-cert-file": cert, "tls-private-key-file": key }, "");
      const failure: unknown = await flags.serve(listener, handler).catch((error: unknown) => error);
      expect(failure).toMatchObject({ name: "EnvdProxyError", code: "tls_files" });
      expect(String(failure)).toContain(message);
      expect(String(failure)).not.toContain("PRIVATE KEY");
      expect((await client.ended()).text).toBe("");
    }
  });
});
