import { readFile, stat, writeFile, chmod, mkdir } from "node:fs/promises";
import { connect as connectHttp2, constants, type ClientHttp2Session } from "node:http2";
import { Agent, request } from "node:https";
import { connect as connectTcp, createServer } from "node:net";
import { text } from "node:stream/consumers";
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from "node:tls";
import { createSelfSigned } from "@org/certificates";
import { describe, expect, it, vi } from "vitest";
import { loopback, SERVING_AUTHORITY, startRig, temporaryFolder, type Rig } from "../testing/serve-rig.ts";
import { TestAuthority, type Pair } from "../testing/test-authority.ts";
import { serveApi } from "./serve-api.ts";

/** Shakes hands, and says who answered. */
async function shake(
  rig: Pick<Rig, "port">,
  options: ConnectionOptions = {},
): Promise<{ socket: TLSSocket; name: string }> {
  const socket = connectTls({
    host: "127.0.0.1",
    port: rig.port,
    rejectUnauthorized: false,
    servername: "localhost",
    ...options,
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("secureConnect", resolve).once("error", reject);
  });
  socket.on("error", () => undefined);
  return { socket, name: String(socket.getPeerX509Certificate()?.subject).replace("CN=", "") };
}

async function nameOf(rig: Pick<Rig, "port">, servername?: string): Promise<string> {
  const { socket, name } = await shake(rig, servername === undefined ? {} : { servername });
  socket.destroy();
  return name;
}

async function get(
  rig: Pick<Rig, "port" | "ca">,
  agent = new Agent(),
  headers: Record<string, string | string[]> = {},
) {
  return new Promise<{ status: number; body: string; headers: Record<string, unknown> }>((resolve, reject) => {
    request({ host: "127.0.0.1", servername: "localhost", port: rig.port, ca: rig.ca, agent, headers }, (response) => {
      text(response).then(
        (body) => resolve({ status: response.statusCode ?? 0, body, headers: response.headers }),
        reject,
      );
    })
      .on("error", reject)
      .end();
  });
}

function http2(rig: Pick<Rig, "port" | "ca">): ClientHttp2Session {
  const session = connectHttp2(`https://localhost:${rig.port}`, {
    ca: rig.ca,
    lookup: loopback,
    maxSendHeaderBlockLength: 1_000_000,
  });
  session.on("error", () => undefined);
  return session;
}

async function ask(session: ClientHttp2Session, headers: Record<string, string | string[]> = {}): Promise<string> {
  const stream = session.request({ ":path": "/", ...headers });
  const failed = Promise.withResolvers<never>();
  stream.on("error", failed.reject);
  return Promise.race([text(stream), failed.promise]);
}

describe("the protocol", () => {
  it.each<[offered: string[], spoken: string | false]>([
    [["h2", "http/1.1"], "h2"],
    [["http/1.1", "h2"], "h2"],
    [["http/1.1"], "http/1.1"],
    [[], false],
  ])("is agreed on in the handshake: of %j it is %j", async (offered, spoken) => {
    await using rig = await startRig();
    const { socket } = await shake(rig, offered.length === 0 ? {} : { ALPNProtocols: offered });
    expect(socket.alpnProtocol).toBe(spoken);
    socket.destroy();
  });

  it("is HTTP/1.1 alone when that is wanted", async () => {
    await using rig = await startRig({ http2: false });
    const { socket } = await shake(rig, { ALPNProtocols: ["h2", "http/1.1"] });
    expect(socket.alpnProtocol).toBe("http/1.1");
    socket.destroy();
    expect(await get(rig)).toMatchObject({ status: 200, body: "ok" });
    await expect(shake(rig, { ALPNProtocols: ["h2"] })).rejects.toThrow(/alert|ALPN|disconnected/i);
  });

  it("of HTTP/2 allows as many streams as is wanted", async () => {
    for (const [asked, allowed] of [
      [undefined, 250],
      [0, 250],
      [7, 7],
    ] as const) {
      await using rig = await startRig({ maxStreamsPerConnection: asked });
      const session = http2(rig);
      await new Promise((resolve) => session.once("remoteSettings", resolve));
      expect(session.remoteSettings.maxConcurrentStreams).toBe(allowed);
      session.destroy();
    }
  });

  it("is never TLS 1.1, and not 1.2 either when that is wanted", async () => {
    await using rig = await startRig();
    const old = { minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "DEFAULT@SECLEVEL=0" } as const;
    await expect(shake(rig, old)).rejects.toThrow();
    const { socket } = await shake(rig, { maxVersion: "TLSv1.2" });
    expect(socket.getProtocol()).toBe("TLSv1.2");
    socket.destroy();
    await using strict = await startRig({ tls: { minVersion: "TLSv1.3" } });
    await expect(shake(strict, { maxVersion: "TLSv1.2" })).rejects.toThrow(/version/);
    const newer = await shake(strict);
    expect(newer.socket.getProtocol()).toBe("TLSv1.3");
    newer.socket.destroy();
  });

  it("takes the cipher suites that are wanted, and those of TLS 1.3", async () => {
    await using rig = await startRig({
      tls: { cipherSuites: ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"], curves: [24] },
    });
    const { socket } = await shake(rig, { maxVersion: "TLSv1.2" });
    expect(socket.getCipher().standardName).toBe("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384");
    socket.destroy();
    await expect(shake(rig, { maxVersion: "TLSv1.2", ciphers: "ECDHE-ECDSA-AES128-GCM-SHA256" })).rejects.toThrow();
    const newer = await shake(rig);
    expect(newer.socket.getProtocol()).toBe("TLSv1.3");
    newer.socket.destroy();
    await expect(shake(rig, { ecdhCurve: "P-256" })).rejects.toThrow();
  });

  it("takes up no session again: its client would be without certificates", async () => {
    await using rig = await startRig();
    for (const maxVersion of ["TLSv1.2", "TLSv1.3"] as const) {
      const first = await shake(rig, { maxVersion });
      const session = first.socket.getSession();
      first.socket.destroy();
      const second = await shake(rig, { maxVersion, session });
      expect(second.socket.isSessionReused()).toBe(false);
      second.socket.destroy();
    }
  });
});

describe("a renegotiation", () => {
  it("is refused: the client could show other certificates in it", async () => {
    await using rig = await startRig();
    const { socket } = await shake(rig, { maxVersion: "TLSv1.2" });
    const outcome = await new Promise((resolve) => {
      socket.once("error", resolve);
      socket.once("close", () => resolve("closed"));
      socket.renegotiate({ rejectUnauthorized: false }, (error) => resolve(error ?? "renegotiated"));
    });
    expect(String(outcome)).toMatch(/no renegotiation|closed|handshake/i);
    socket.destroy();
    expect((await get(rig)).body).toBe("ok");
  });
});

describe("a server that cannot serve", () => {
  it.each<[what: string, options: object, code: string]>([
    ["an unknown cipher suite", { tls: { cipherSuites: ["TLS_NULL"] } }, "invalid_options"],
    ["an unknown curve", { tls: { curves: [1] } }, "invalid_options"],
    ["half a stream", { maxStreamsPerConnection: 0.5 }, "invalid_options"],
    ["no certificate", { certificate: { certFile: "/none", keyFile: "/none" } }, "certificates"],
    ["an address that is not ours", { address: "192.0.2.1" }, "listen_failed"],
  ])("says so: %s", async (_what, options, code) => {
    await expect(startRig(options)).rejects.toMatchObject({ name: "ApiServerError", code });
  });

  it("says so when the port is taken", async () => {
    await using rig = await startRig();
    await expect(startRig({ port: rig.port })).rejects.toMatchObject({ code: "listen_failed" });
  });

  it("says so when a key is another's", async () => {
    await using folder = await temporaryFolder();
    const certFile = await folder.write("a.crt", SERVING_AUTHORITY.server().cert);
    const keyFile = await folder.write("a.key", SERVING_AUTHORITY.server().key);
    await expect(startRig({ certificate: { certFile, keyFile } })).rejects.toMatchObject({
      code: "certificates",
      message: expect.stringContaining("a.key") as string,
    });
  });

  it("does nothing once its signal has fired", async () => {
    const api = { listener: () => Promise.resolve(), shutdown: () => undefined, close: () => undefined };
    await serveApi(api, { port: 0, certificate: { folder: "/none" }, signal: AbortSignal.abort() });
  });
});

describe("certificates", () => {
  const pair = (commonName: string): Pair => SERVING_AUTHORITY.server({ commonName });

  it("that change are those of new connections, while others stand", async () => {
    await using folder = await temporaryFolder();
    const first = pair("first");
    const certFile = await folder.write("a.crt", first.cert);
    const keyFile = await folder.write("a.key", first.key);
    const warn = vi.fn<() => void>();
    const logger = { debug: vi.fn<() => void>(), info: vi.fn<() => void>(), warn, error: vi.fn<() => void>() };
    await using rig = await startRig({ certificate: { certFile, keyFile }, intervalMs: 5, logger });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    expect((await get(rig, agent)).body).toBe("ok");
    const session = http2(rig);
    expect(await ask(session)).toBe("ok");

    const second = pair("second");
    await writeFile(certFile, second.cert);
    // The certificate without its key cannot be used.
    await vi.waitFor(() => expect(warn).toHaveBeenCalled());
    expect(await nameOf(rig)).toBe("first");
    await writeFile(keyFile, second.key);
    await vi.waitFor(async () => expect(await nameOf(rig)).toBe("second"));

    const kept = await get(rig, agent);
    expect(kept.body).toBe("ok");
    expect(Object.values(agent.freeSockets).flat()).toHaveLength(1);
    expect(await ask(session)).toBe("ok");
    session.destroy();
    agent.destroy();
  });

  it("go by the name that a client asks for", async () => {
    await using folder = await temporaryFolder();
    const files = async (name: string, { cert, key }: Pair) => ({
      certFile: await folder.write(`${name}.crt`, cert),
      keyFile: await folder.write(`${name}.key`, key),
    });
    const validity = { from: new Date(Date.now() - 60_000), to: new Date(Date.now() + 3_600_000) };
    const own = createSelfSigned("own", { dns: ["own.test", "*.own.test"], addresses: [] }, validity);
    const replaced = await files("b", pair("b"));
    await using rig = await startRig({
      intervalMs: 5,
      namedCertificates: [
        await files("own", own),
        { ...(await files("a", pair("a"))), names: ["a.test", "*.wild.test"] },
        { ...replaced, names: ["b.test", "a.test", "x.own.test", "own.test"] },
      ],
    });
    expect(await nameOf(rig)).toBe("localhost");
    expect(await nameOf(rig, "other.test")).toBe("localhost");
    expect(await nameOf(rig, "a.test")).toBe("a");
    expect(await nameOf(rig, "A.Test")).toBe("a");
    expect(await nameOf(rig, "x.wild.test")).toBe("a");
    expect(await nameOf(rig, "x.y.wild.test")).toBe("localhost");
    expect(await nameOf(rig, "b.test")).toBe("b");
    // What is given counts before what certificates say, in whatever order they come.
    expect(await nameOf(rig, "own.test")).toBe("b");
    expect(await nameOf(rig, "y.own.test")).toBe("own");
    expect(await nameOf(rig, "x.own.test")).toBe("b");
    const next = pair("next");
    await writeFile(replaced.keyFile, next.key);
    await writeFile(replaced.certFile, next.cert);
    await vi.waitFor(async () => expect(await nameOf(rig, "b.test")).toBe("next"));
  });

  it("are made in a folder, with a key for its owner alone, and used again", async () => {
    await using folder = await temporaryFolder();
    const certificate = { folder: `${folder.path}/deep/certificates` };
    const [certFile, keyFile] = [`${certificate.folder}/apiserver.crt`, `${certificate.folder}/apiserver.key`];
    {
      await using rig = await startRig({ certificate });
      const ca = await readFile(certFile, "utf8");
      expect(await get({ port: rig.port, ca })).toMatchObject({ status: 200 });
      const { socket } = await shake(rig, { rejectUnauthorized: true, ca, servername: "" });
      socket.destroy();
    }
    expect((await stat(keyFile)).mode & 0o777).toBe(0o600);
    const before = await readFile(certFile, "utf8");
    {
      await using rig = await startRig({ certificate });
      expect(await nameOf(rig)).toBe("localhost");
      expect(await readFile(certFile, "utf8")).toBe(before);
    }
  });

  it.each<[what: string, pair: () => { cert: string; key: string }]>([
    [
      "one is about to end",
      () =>
        createSelfSigned(
          "old",
          { dns: ["localhost"], addresses: [] },
          { from: new Date(0), to: new Date(Date.now() + 86_400_000) },
        ),
    ],
    ["one is broken", () => ({ cert: "x", key: "y" })],
    ["its key is another's", () => ({ cert: pair("a").cert, key: pair("b").key })],
  ])("are made anew when %s", async (_what, make) => {
    await using folder = await temporaryFolder();
    const { cert, key } = make();
    await folder.write("apiserver.crt", cert);
    await folder.write("apiserver.key", key);
    await chmod(`${folder.path}/apiserver.key`, 0o644);
    await using rig = await startRig({ certificate: { folder: folder.path } });
    expect(await nameOf(rig)).toBe("localhost");
    expect(await readFile(`${folder.path}/apiserver.crt`, "utf8")).not.toBe(cert);
    expect((await stat(`${folder.path}/apiserver.key`)).mode & 0o777).toBe(0o600);
  });

  it("that cannot be written end the start", async () => {
    await using folder = await temporaryFolder();
    const file = await folder.write("file", "");
    await expect(startRig({ certificate: { folder: `${file}/x` } })).rejects.toMatchObject({ code: "certificates" });
    await mkdir(`${folder.path}/apiserver.key`);
    await expect(startRig({ certificate: { folder: folder.path } })).rejects.toMatchObject({ code: "certificates" });
  });

  it("of clients are asked for, with the authorities that count", async () => {
    const users = TestAuthority.root("users");
    let change: (() => void) | undefined;
    const trust = { authorities: "", onChange: (listener: () => void) => ((change = listener), () => undefined) };
    const seen: (boolean | undefined)[] = [];
    await using rig = await startRig({
      trust,
      listener: async (incoming, outgoing) => {
        seen.push((incoming.socket as TLSSocket).authorized);
        outgoing.end("ok");
      },
    });
    const alice = users.issue({ commonName: "alice" });
    expect((await get(rig, new Agent({ ...alice }))).body).toBe("ok");
    trust.authorities = users.cert;
    change?.();
    expect((await get(rig, new Agent({ ...alice }))).body).toBe("ok");
    expect(seen).toEqual([false, true]);
  });
});

describe("the end", () => {
  it("comes in order: unready, watches, no more connections, what is in flight", async () => {
    const events: string[] = [];
    const watch = Promise.withResolvers<void>();
    const work = Promise.withResolvers<void>();
    const rig = await startRig({
      onShutdown: () => events.push("unready"),
      onClose: () => {
        events.push("watches end");
        watch.resolve();
      },
      listener: async (incoming, outgoing) => {
        if (incoming.url === "/watch") {
          await watch.promise;
          outgoing.end("watched");
        } else if (incoming.url === "/work") {
          await work.promise;
          outgoing.end("worked");
        } else {
          outgoing.end(events.join());
        }
      },
    });
    const session = http2(rig);
    const watched = ask(session, { ":path": "/watch" });
    const worked = ask(session, { ":path": "/work" });
    await ask(session);
    const { socket } = await shake(rig);
    const goaway = new Promise((resolve) => session.once("goaway", resolve));
    const stopped = rig.stop().then(() => events.push("over"));
    // Work is in flight: for two seconds clients still see why they should go.
    socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(await text(socket)).toMatch(/connection: close\r\n.*unready,watches end/is);
    expect(await watched).toBe("watched");
    await goaway;
    await vi.waitFor(() => expect(get(rig)).rejects.toThrow(/ECONNREFUSED/));
    expect(events).toEqual(["unready", "watches end"]);
    work.resolve();
    expect(await worked).toBe("worked");
    await stopped;
    expect(events.at(-1)).toBe("over");
    await rig.folder[Symbol.asyncDispose]();
  });

  it("is at once when nothing is in flight, whatever idle connections there are", async () => {
    const rig = await startRig();
    const agent = new Agent({ keepAlive: true });
    await get(rig, agent);
    const session = http2(rig);
    await ask(session);
    const silent = connectTcp(rig.port, "127.0.0.1");
    await new Promise((resolve) => silent.once("connect", resolve));
    const gone = new Promise((resolve) => silent.on("error", () => undefined).once("close", resolve));
    await rig.stop();
    await gone;
    agent.destroy();
    await rig.folder[Symbol.asyncDispose]();
  });

  it("cuts what takes too long, over both protocols", async () => {
    const rig = await startRig({ drainTimeoutMs: 50, listener: () => new Promise(() => undefined) });
    const first = get(rig).catch((error: unknown) => error);
    const session = http2(rig);
    const second = ask(session).catch((error: unknown) => error);
    await new Promise((resolve) => session.once("remoteSettings", resolve));
    await vi.waitFor(() => expect(session.state.lastProcStreamID).toBeDefined());
    await rig.stop();
    expect(await first).toBeInstanceOf(Error);
    await second;
    await rig.folder[Symbol.asyncDispose]();
  });

  it("closes connections behind the answers that are still given", async () => {
    const work = Promise.withResolvers<void>();
    const began = Promise.withResolvers<void>();
    const rig = await startRig({
      listener: async (_incoming, outgoing) => {
        began.resolve();
        await work.promise;
        outgoing.end("ok");
      },
    });
    const agent = new Agent({ keepAlive: true });
    const pending = get(rig, agent);
    await began.promise;
    const stopped = rig.stop();
    work.resolve();
    expect(await pending).toMatchObject({ body: "ok", headers: { connection: "close" } });
    await stopped;
    agent.destroy();
    await rig.folder[Symbol.asyncDispose]();
  });
});

describe("large heads", () => {
  it.each([
    [
      "HTTP/1.1",
      async (rig: Rig, groups: string[]) => (await get(rig, new Agent(), { "X-Remote-Group": groups })).body,
    ],
    [
      "HTTP/2",
      async (rig: Rig, groups: string[]) => {
        const session = http2(rig);
        const body = await ask(session, { "x-remote-group": groups });
        session.destroy();
        return body;
      },
    ],
  ])("arrive whole over %s: 3,000 groups in 90 KB", async (_protocol, send) => {
    await using rig = await startRig({
      listener: async ({ rawHeaders }, outgoing) => {
        outgoing.end(String(rawHeaders.filter((name) => name.toLowerCase() === "x-remote-group").length));
      },
    });
    expect(
      await send(
        rig,
        Array.from({ length: 3000 }, (_, each) => `group-${each}`),
      ),
    ).toBe("3000");
  });

  it("beyond that are refused with a Status", async () => {
    await using rig = await startRig();
    const { status, body } = await get(rig, new Agent(), { "X-Large": "x".repeat(140_000) });
    expect(status).toBe(431);
    expect(JSON.parse(body)).toMatchObject({ kind: "Status", code: 431 });
  });
});

describe("hostile clients", () => {
  it.each<[what: string, act: (rig: Rig) => Promise<void>]>([
    [
      "speak no TLS",
      async (rig) => {
        const socket = connectTcp(rig.port, "127.0.0.1", () => socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
        await new Promise((resolve) =>
          socket
            .on("error", () => undefined)
            .once("close", resolve)
            .resume(),
        );
      },
    ],
    [
      "reset the handshake",
      async (rig) => {
        const socket = connectTcp(rig.port, "127.0.0.1", () => {
          socket.write(Buffer.from("16030100", "hex"));
          socket.resetAndDestroy();
        });
        await new Promise((resolve) => socket.on("error", () => undefined).once("close", resolve));
      },
    ],
    [
      "reset an answer",
      async (rig) => {
        const { socket } = await shake(rig);
        socket.write("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
        await new Promise((resolve) => socket.once("data", resolve));
        socket.destroy();
      },
    ],
    [
      "speak garbage over TLS",
      async (rig) => {
        const { socket } = await shake(rig);
        socket.write("\u0000\u0001garbage\r\n\r\n");
        expect(await text(socket)).toMatch(/^HTTP\/1.1 400 .*"kind":"Status"/s);
      },
    ],
    [
      "speak garbage for HTTP/2",
      async (rig) => {
        const { socket } = await shake(rig, { ALPNProtocols: ["h2"] });
        socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        await new Promise((resolve) => socket.once("close", resolve).resume());
      },
    ],
    [
      "open tunnels",
      async (rig) => {
        const { socket } = await shake(rig);
        socket.write("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n");
        expect(await text(socket)).toMatch(/^HTTP\/1.1 405 .*"code":405/s);
        const session = http2(rig);
        const stream = session.request({ ":method": "CONNECT", ":authority": "a:1" });
        const headers = await new Promise<Record<string, unknown>>((resolve) => stream.once("response", resolve));
        expect(headers[":status"]).toBe(405);
        session.destroy();
      },
    ],
    [
      "expect what nobody gives",
      async (rig) => {
        const { status, body } = await get(rig, new Agent(), { Expect: "wonders" });
        expect([status, JSON.parse(body)]).toMatchObject([417, { code: 417 }]);
      },
    ],
    [
      "name no host",
      async (rig) => {
        const { socket } = await shake(rig);
        socket.write("GET / HTTP/1.1\r\n\r\n");
        expect(await text(socket)).toMatch(/^HTTP\/1.1 400 .*"code":400/s);
      },
    ],
    [
      "name two hosts",
      async (rig) => {
        const { socket } = await shake(rig);
        socket.write("GET / HTTP/1.1\r\nHost: x\r\nhost: y\r\n\r\n");
        expect(await text(socket)).toMatch(/^HTTP\/1.1 400 .*"code":400/s);
      },
    ],
    [
      "frame one request as two",
      async (rig) => {
        const { socket } = await shake(rig);
        socket.write(
          "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\nGET /second HTTP/1.1\r\nHost: x\r\n\r\n",
        );
        const answer = await text(socket);
        expect(answer).toMatch(/^HTTP\/1.1 501 /);
        expect(answer.match(/HTTP\/1\.1/g)).toHaveLength(1);
      },
    ],
    [
      "open streams only to take them back",
      async (rig) => {
        const session = http2(rig);
        const closed = new Promise((resolve) => session.once("close", resolve));
        await new Promise((resolve) => session.once("remoteSettings", resolve));
        for (let each = 0; each < 5000 && !session.closed; each += 1) {
          const stream = session.request({ ":path": "/slow" });
          stream.on("error", () => undefined);
          stream.close(constants.NGHTTP2_CANCEL);
          if (each % 100 === 99) {
            await new Promise((resolve) => setImmediate(resolve));
          }
        }
        await closed;
      },
    ],
  ])("that %s harm nobody else", async (_what, act) => {
    const urls: (string | undefined)[] = [];
    await using rig = await startRig({
      drainTimeoutMs: 100,
      listener: async (incoming, outgoing) => {
        urls.push(incoming.url);
        if (incoming.url === "/large") {
          outgoing.end(Buffer.alloc(16_000_000));
        } else if (incoming.url === "/slow") {
          await new Promise((resolve) => setTimeout(resolve, 50));
          outgoing.end();
        } else if (incoming.url === "/broken") {
          throw new Error("broken");
        } else {
          outgoing.end("ok");
        }
      },
    });
    await act(rig);
    // What came behind a request of unclear framing may be a part of its body.
    expect(urls).not.toContain("/second");
    expect((await get(rig)).body).toBe("ok");
    const session = http2(rig);
    expect(await ask(session)).toBe("ok");
    session.destroy();
  });

  it("and handlers that fail end their own request alone", async () => {
    await using rig = await startRig({
      listener: async (incoming, outgoing) => {
        if (incoming.url === "/broken") {
          throw new Error("broken");
        }
        outgoing.end("ok");
      },
    });
    const session = http2(rig);
    await expect(ask(session, { ":path": "/broken" })).rejects.toThrow(/INTERNAL_ERROR/);
    expect(await ask(session)).toBe("ok");
    session.destroy();
    const { socket } = await shake(rig);
    socket.write("GET /broken HTTP/1.1\r\nHost: x\r\n\r\n");
    await new Promise((resolve) => socket.once("close", resolve).resume());
    expect((await get(rig)).body).toBe("ok");
  });
});

describe("a port", () => {
  it("is shared with other processes when that is wanted", async () => {
    await using first = await startRig({ reusePort: true });
    await using second = await startRig({ reusePort: true, port: first.port });
    expect(second.port).toBe(first.port);
    const other = createServer();
    await new Promise((resolve) => other.once("error", resolve).listen(first.port, "127.0.0.1"));
  });
});
