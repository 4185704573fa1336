import { writeFile } from "node:fs/promises";
import { request } from "node:http";
import { connect, createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Flags as ConsoleFlags } from "@org/console";
import { Flags as E2bFlags } from "@org/e2bcompat";
import { bindListener, Flags as ProxyFlags } from "@org/envdproxy";
import type { Logger } from "@org/scale";
import { describe, expect, test } from "vitest";
import { prepare, serve } from "./compose.ts";
import type { ServeOptions, ServiceConfig, ServingAddresses } from "./compose.ts";
import { fakeNode } from "./testing/fake-node.ts";
import { scratchFolder } from "./testing/program.ts";

interface LogLine extends Readonly<Record<string, unknown>> {
  readonly level: string;
  readonly message: string;
}

function recorder(): Logger & { readonly lines: LogLine[] } {
  const lines: LogLine[] = [];
  const at =
    (level: string) =>
    (fields: object, message: string): void =>
      void lines.push({ ...fields, level, message });
  return { lines, debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

function configOf(values: Readonly<Record<string, unknown>>, mesh: Partial<ServiceConfig> = {}): ServiceConfig {
  const all = {
    "e2b-bind-address": "127.0.0.1:0",
    "e2b-domain": "sandbox.test",
    "e2b-allow-anonymous": true,
    ...values,
  };
  return {
    seeds: [],
    token: "",
    tokenFile: "",
    caFile: "",
    // A start fails after one interval without an answer, and a busy machine takes its time.
    pollIntervalMs: 5_000,
    ...mesh,
    e2b: E2bFlags.from(all),
    proxy: ProxyFlags.from(all, "envd-proxy-"),
    console: ConsoleFlags.from(all),
  };
}

interface Running extends AsyncDisposable {
  readonly at: ServingAddresses;
  readonly logger: ReturnType<typeof recorder>;
  readonly ended: Promise<void>;
  stop(): void;
}

/** Serves until the test ends. */
async function run(config: ServiceConfig, extra: Partial<ServeOptions> = {}): Promise<Running> {
  const logger = recorder();
  const stop = new AbortController();
  const up = Promise.withResolvers<ServingAddresses>();
  const ended = serve(await prepare(config), {
    signal: stop.signal,
    logger,
    onServing: async (at) => up.resolve(at),
    ...extra,
  });
  ended.catch(up.reject);
  const at = await up.promise;
  return {
    at,
    logger,
    ended,
    stop: () => stop.abort(),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await ended.catch(() => undefined);
    },
  };
}

const proxyHere = { "envd-proxy-bind-address": "127.0.0.1:0" };

async function portTakenBySomebody(): Promise<{ readonly address: string } & AsyncDisposable> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

describe("serving", () => {
  test("both surfaces answer, and the mesh line names seeds, nodes and interval", async () => {
    await using node = await fakeNode({ token: "t" });
    await using running = await run(configOf(proxyHere, { seeds: [node.address], token: "t" }));
    expect((await fetch(`http://${running.at.api}/health`)).status).toBe(204);
    expect((await fetch(`http://${running.at.proxy}/healthz`)).status).toBe(204);
    const list = [node.address];
    expect(running.logger.lines).toContainEqual({
      level: "info",
      func: "main.run",
      seeds: list,
      nodes: list,
      poll: "5s",
      message: `mesh inventory up seeds=[${node.address}] nodes=[${node.address}] poll=5s`,
    });
    expect(running.logger.lines.map((line) => line.message)).toContain(
      `serving envd-proxy address=${running.at.proxy} tls=false domain=sandbox.test`,
    );
  });

  test("without an address of the proxy there is no data plane", async () => {
    await using node = await fakeNode();
    await using running = await run(configOf({}, { seeds: [node.address] }));
    expect(running.at.proxy).toBeUndefined();
    expect(running.logger.lines.map((line) => line.message).join("\n")).not.toContain("serving envd-proxy");
  });

  test("the console is off without an address, and otherwise has a login of its own", async () => {
    await using folder = await scratchFolder();
    await using node = await fakeNode();
    const credential = join(folder.path, "credential");
    await writeFile(credential, "a-credential-of-the-console\n");
    await using without = await run(configOf({}, { seeds: [node.address] }));
    expect(without.at.console).toBeUndefined();
    const flags = { "console-bind-address": "127.0.0.1:0", "console-credential-file": credential };
    await using running = await run(configOf(flags, { seeds: [node.address] }));
    await fetch(`http://${running.at.api}/health`);
    const url = `http://${running.at.console}/data`;
    expect((await fetch(url)).status).toBe(401);
    const headers = { authorization: "Bearer a-credential-of-the-console" };
    const data = (await (await fetch(url, { headers })).json()) as { nodes: unknown[]; history: unknown[] };
    expect(data.nodes).toEqual([{ node: node.address, running: 0, paused: 0, warm: 1, target: 1 }]);
    expect(data.history).toBeInstanceOf(Array);
  });

  test.each([
    ["without a credential", {}, /needs a credential: set --console-credential-file/],
    ["with a file that is missing", { "console-credential-file": "/no/such/file" }, /read console credential file/],
  ])("a console %s does not start", async (_name, flags, message) => {
    await expect(prepare(configOf({ "console-bind-address": "127.0.0.1:0", ...flags }))).rejects.toThrow(message);
  });

  test("polls and claims use different connections", async () => {
    await using node = await fakeNode({
      handle: (incoming, response) => {
        if (incoming.url !== "/v1/claim") return false;
        response.writeHead(429, { "content-type": "application/json" }).end('{"error":"no capacity"}');
        return true;
      },
    });
    await using running = await run(configOf({}, { seeds: [node.address] }));
    const reply = await fetch(`http://${running.at.api}/sandboxes`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ templateID: "img" }),
    });
    expect(reply.status).toBe(503);
    const polls = node.clientPorts.get("/v1/info") ?? new Set();
    const claims = node.clientPorts.get("/v1/claim") ?? new Set();
    expect(claims.size).toBe(1);
    expect([...claims].filter((port) => polls.has(port))).toEqual([]);
  });

  test.each([
    ["none", 401],
    ["3000", 502],
    ["all", 502],
  ])("with public ports %s a request without a token for port 3000 is %i", async (ports, status) => {
    await using node = await fakeNode();
    const flags = { ...proxyHere, "envd-proxy-public-ports": ports };
    await using running = await run(configOf(flags, { seeds: [node.address] }));
    const headers = { "e2b-sandbox-id": "sb-0123456789abcdef", "e2b-sandbox-port": "3000" };
    expect((await fetch(`http://${running.at.proxy}/`, { headers })).status).toBe(status);
  });

  test.each([
    [false, "GET / HTTP/1.1\r\n"],
    [true, "PRI * HTTP/2.0\r\n"],
  ])("with HTTP/2 to guests %s, guests hear %j first", async (guestHttp2, line) => {
    const id = "sb_0123456789abcdef";
    const heard = Promise.withResolvers<string>();
    await using node = await fakeNode({
      handle: (incoming, response) => {
        if (incoming.url?.startsWith(`/v1/sandboxes/${id}`) !== true) return false;
        const key = { template: "img", net: "none", size: "small" };
        const row = { id, claim_ref: "default/one", key, token: "claim-token" };
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(row));
        return true;
      },
      relay: (socket) => socket.once("data", (bytes: Buffer) => heard.resolve(bytes.toString("latin1"))),
    });
    const flags = { ...proxyHere, "envd-proxy-guest-http2": guestHttp2 };
    await using running = await run(configOf(flags, { seeds: [node.address] }));
    const stop = new AbortController();
    const headers = {
      "e2b-sandbox-id": "sb-0123456789abcdef",
      "e2b-sandbox-port": "3000",
      "x-access-token": "claim-token",
    };
    const asked = fetch(`http://${running.at.proxy}/`, { headers, signal: stop.signal });
    expect((await heard.promise).slice(0, line.length)).toBe(line);
    stop.abort();
    await expect(asked).rejects.toThrow();
  });

  test("a listener that is bound already is used for the proxy", async () => {
    await using node = await fakeNode();
    await using listener = await bindListener("127.0.0.1:0");
    await using running = await run(configOf({}, { seeds: [node.address] }), { listener });
    expect(running.at.proxy).toBe(listener.address);
    expect((await fetch(`http://${listener.address}/healthz`)).status).toBe(204);
  });

  test("the API takes the first of its addresses that is free", async () => {
    await using node = await fakeNode();
    await using taken = await portTakenBySomebody();
    await using running = await run(configOf({}, { seeds: [node.address] }), {
      apiAddresses: [taken.address, "127.0.0.1:0"],
    });
    expect(running.at.api).not.toBe(taken.address);
    expect((await fetch(`http://${running.at.api}/health`)).status).toBe(204);
  });
});

describe("failures at start", () => {
  test("the address of the API is taken: nothing serves, the proxy's address is free again", async () => {
    await using node = await fakeNode();
    await using taken = await portTakenBySomebody();
    const listener = await bindListener("127.0.0.1:0");
    const config = configOf({ "e2b-bind-address": taken.address }, { seeds: [node.address] });
    await expect(run(config, { listener })).rejects.toThrow(`listen on e2b address "${taken.address}"`);
    await using again = await bindListener(listener.address);
    expect(again.address).toBe(listener.address);
  });

  test("the address of the proxy is taken: no node is asked", async () => {
    await using node = await fakeNode();
    await using taken = await portTakenBySomebody();
    const config = configOf({ "envd-proxy-bind-address": taken.address }, { seeds: [node.address] });
    await expect(run(config)).rejects.toThrow(`listen on envd-proxy address "${taken.address}"`);
    expect(node.requests).toEqual([]);
  });

  test.each<[string, Parameters<typeof fakeNode>[0], RegExp]>([
    ["refuses the token", { token: "other" }, /refused the token; GET \/v1\/info needs the fleet root api_token/],
    ["has no address for clients", { anonymous: true }, /reports no advertise_addr/],
  ])("a seed that %s ends the start", async (_name, options, message) => {
    await using node = await fakeNode(options);
    await expect(run(configOf(proxyHere, { seeds: [node.address], token: "t" }))).rejects.toThrow(message);
  });

  test("no seed that answers ends the start", async () => {
    await using taken = await portTakenBySomebody();
    const { address } = taken;
    await taken[Symbol.asyncDispose]();
    await expect(run(configOf({}, { seeds: [address] }))).rejects.toThrow(/no seed answered/);
  });

  test("what is to be done once both serve counts as a part of the start", async () => {
    await using node = await fakeNode();
    const onServing = (): Promise<void> => Promise.reject(new Error("cannot write"));
    const prepared = await prepare(configOf(proxyHere, { seeds: [node.address] }));
    await expect(
      serve(prepared, { signal: new AbortController().signal, logger: recorder(), onServing }),
    ).rejects.toThrow("cannot write");
  });

  test.each<[string, Readonly<Record<string, unknown>>, RegExp]>([
    ["a missing key file", { "e2b-api-key-file": "/nonexistent/keys" }, /read API key file "\/nonexistent\/keys"/],
    ["a missing alias file", { "e2b-template-aliases": "/nonexistent/a" }, /read template alias file/],
    ["a missing secret file", { "e2b-envd-secret-file": "/nonexistent/s" }, /read envd secret file/],
    ["no domain", { "e2b-domain": "" }, /a domain is required: set --e2b-domain/],
    ["no key", { "e2b-allow-anonymous": false }, /set --e2b-api-key-file or --e2b-allow-anonymous/],
    ["a certificate without a key", { ...proxyHere, "envd-proxy-tls-cert-file": "/c" }, /must be set together/],
    [
      "an unreadable certificate",
      {
        ...proxyHere,
        "envd-proxy-tls-cert-file": "/nonexistent/c",
        "envd-proxy-tls-private-key-file": "/nonexistent/k",
      },
      /read TLS/,
    ],
  ])("%s is found before a node is asked", async (_name, values, message) => {
    await using node = await fakeNode();
    await expect(prepare(configOf(values, { seeds: [node.address] }))).rejects.toThrow(message);
    expect(node.requests).toEqual([]);
  });

  test("an unreadable token file is named", async () => {
    await expect(prepare(configOf({}, { tokenFile: "/nonexistent/token" }))).rejects.toThrow(
      'sandboxd: read token file "/nonexistent/token"',
    );
  });

  test("a file without certificates for nodes is named before a node is asked", async () => {
    await using node = await fakeNode();
    await expect(prepare(configOf({}, { seeds: [node.address], caFile: "/nonexistent/ca" }))).rejects.toThrow(
      'sandboxd: CA file "/nonexistent/ca"',
    );
    expect(node.requests).toEqual([]);
  });

  test("a token file wins over the literal and loses its white space", async () => {
    await using folder = await scratchFolder();
    const tokenFile = join(folder.path, "token");
    await writeFile(tokenFile, " t \n");
    expect((await prepare(configOf({}, { tokenFile, token: "other" }))).token).toBe("t");
  });
});

describe("the end", () => {
  test("a data plane that ends by itself ends the service, the API too", async () => {
    await using node = await fakeNode();
    const config = configOf(proxyHere, { seeds: [node.address] });
    const dead = Promise.withResolvers<void>();
    config.proxy.serve = () => dead.promise;
    const running = await run(config);
    expect((await fetch(`http://${running.at.api}/health`)).status).toBe(204);
    dead.resolve();
    await expect(running.ended).rejects.toThrow("the listener of the data plane ended by itself");
    await expect(fetch(`http://${running.at.api}/health`)).rejects.toThrow();
  });

  test("a data plane that fails ends the service with its reason", async () => {
    await using node = await fakeNode();
    const config = configOf(proxyHere, { seeds: [node.address] });
    const dead = Promise.withResolvers<void>();
    config.proxy.serve = () => dead.promise;
    const running = await run(config);
    dead.reject(new Error("out of sockets"));
    await expect(running.ended).rejects.toThrow("out of sockets");
  });

  test("a request that runs is answered before serve returns", async () => {
    const claim = Promise.withResolvers<() => void>();
    await using node = await fakeNode({
      handle: (incoming, response) => {
        if (incoming.url !== "/v1/claim") return false;
        claim.resolve(() => response.writeHead(429, { "content-type": "application/json" }).end('{"error":"full"}'));
        return true;
      },
    });
    const running = await run(configOf(proxyHere, { seeds: [node.address] }));
    const reply = fetch(`http://${running.at.api}/sandboxes`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ templateID: "img" }),
    });
    const answer = await claim.promise;
    let returned = false;
    void running.ended.then(() => (returned = true));
    running.stop();
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(returned).toBe(false);
    answer();
    expect((await reply).status).toBe(503);
    await running.ended;
    await expect(fetch(`http://${running.at.api}/health`)).rejects.toThrow();
  });

  test("idle connections do not hold it up", async () => {
    await using node = await fakeNode();
    const running = await run(configOf(proxyHere, { seeds: [node.address] }));
    const sockets = [running.at.api, running.at.proxy ?? ""].map((address) => {
      const [host = "", port = ""] = address.split(":");
      return connect(Number(port), host).on("error", () => undefined);
    });
    await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once("connect", resolve))));
    running.stop();
    await running.ended;
    for (const socket of sockets) socket.destroy();
  });

  test("a signal during the start ends it without an error", async () => {
    await using node = await fakeNode({ handle: () => true });
    const stop = new AbortController();
    const prepared = await prepare(configOf(proxyHere, { seeds: [node.address], pollIntervalMs: 10_000 }));
    stop.abort();
    await serve(prepared, { signal: stop.signal, logger: recorder() });
  });

  test("clients that break off do not end the service", async () => {
    await using node = await fakeNode();
    await using running = await run(configOf(proxyHere, { seeds: [node.address] }));
    for (const address of [running.at.api, running.at.proxy ?? ""]) {
      const [host = "", port = ""] = address.split(":");
      for (const bytes of [
        "",
        "GET",
        "\u0000\u0001",
        "POST /sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
      ]) {
        const socket = connect(Number(port), host).on("error", () => undefined);
        await new Promise((resolve) => socket.once("connect", resolve));
        socket.write(bytes);
        await new Promise((resolve) => setTimeout(resolve, 10));
        socket.resetAndDestroy();
      }
      const status = await new Promise((resolve, reject) => {
        request({ host, port, path: "/none", headers: { host: "x" } }, (reply) => {
          reply.resume();
          resolve(reply.statusCode);
        })
          .on("error", reject)
          .end();
      });
      expect(status).toBeGreaterThanOrEqual(400);
    }
  });
});
