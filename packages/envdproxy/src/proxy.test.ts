import { guestAccessToken, ScaleError } from "@org/scale";
import { describe, expect, it, vi } from "vitest";
import { EnvdProxyError } from "./errors.ts";
import { createProxy } from "./proxy.ts";
import type { ProxyOptions } from "./proxy.ts";
import { DOMAIN, httpGuest, parseAnswer, rawClient, requestHead, startProxy } from "./testing/fixtures.ts";
import type { Guest, RunningProxy } from "./testing/fixtures.ts";
import { ScriptedStore } from "./testing/scripted-store.ts";

const TOKEN = "X-Access-Token: token-of-sb_a";
const HOST = `49983-sb-a.${DOMAIN}`;
const SECRET = "s3cret";
const DERIVED = `X-Access-Token: ${guestAccessToken("token-of-sb_a", SECRET)}`;

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly raw: string[];
}

/** A proxy with one sandbox whose guest tells what it saw. */
interface Rig extends AsyncDisposable {
  readonly proxy: RunningProxy;
  readonly store: ScriptedStore;
  readonly guest: Guest;
  readonly seen: Seen[];
  ask(
    line: string,
    headers?: readonly string[],
    host?: string,
  ): Promise<{ status: number; head: string; body: string }>;
}

async function rig(options: Partial<Omit<ProxyOptions, "store">> = {}): Promise<Rig> {
  const seen: Seen[] = [];
  const guest = await httpGuest((request, response) => {
    seen.push({ method: request.method ?? "", url: request.url ?? "", raw: request.rawHeaders });
    response.setHeader("Set-Cookie", ["a=1", "b=2"]);
    response.end("from the guest");
  });
  const store = new ScriptedStore();
  store.put("sb_a", { ports: { 49983: guest.port, 3000: guest.port, 8080: guest.port, 22: guest.port } });
  const proxy = await startProxy({ store, ...options });
  return {
    proxy,
    store,
    guest,
    seen,
    async ask(line, headers = [TOKEN], host = HOST) {
      using client = rawClient(proxy.port, requestHead(line, [...headers, "Connection: close"], host));
      return parseAnswer((await client.ended()).text);
    },
    async [Symbol.asyncDispose]() {
      await proxy.stop();
      await guest[Symbol.asyncDispose]();
    },
  };
}

function error(code: number, message: string): string {
  return `${JSON.stringify({ code, message })}\n`;
}

describe("routing", () => {
  it("reaches the guest port", async () => {
    await using run = await rig();
    const answer = await run.ask("GET /files?path=/etc/hosts");
    expect(answer).toMatchObject({ status: 200, body: "from the guest" });
    expect(answer.head).toContain("Set-Cookie: a=1\r\nSet-Cookie: b=2");
    expect(run.seen).toMatchObject([{ method: "GET", url: "/files?path=/etc/hosts" }]);
    expect(run.store.calls.at(-1)).toStrictEqual({ verb: "dial", id: "sb_a", token: "token-of-sb_a", port: 49_983 });
  });

  it("routes by headers on a shared host", async () => {
    await using run = await rig();
    const headers = [TOKEN, "E2b-Sandbox-Id: sb_a", "E2b-Sandbox-Port: 8080"];
    expect(await run.ask("GET /", headers, "127.0.0.1:8443")).toMatchObject({ status: 200 });
    expect(run.store.calls.at(-1)).toMatchObject({ id: "sb_a", port: 8080 });
    expect(run.seen[0]?.raw.slice(0, 2)).toStrictEqual(["Host", `8080-sb_a.${DOMAIN}`]);
    expect(run.seen[0]?.raw).toEqual(expect.arrayContaining(["E2b-Sandbox-Id", "sb_a"]));
  });

  it("strips host credentials from the guest", async () => {
    await using run = await rig();
    await run.ask("GET /", [TOKEN, "X-API-KEY: e2b_key", "X-Kept: yes"]);
    const text = JSON.stringify(run.seen).toLowerCase();
    for (const secret of ["x-access-token", "token-of-sb_a", "x-api-key", "e2b_key"]) {
      expect(text).not.toContain(secret);
    }
    expect(text).toContain("x-kept");
  });

  it("takes the authority of an absolute target over the host", async () => {
    await using run = await rig();
    expect(await run.ask(`GET http://3000-sb-a.${DOMAIN}/p?q=1`, [TOKEN], "other.example")).toMatchObject({
      status: 200,
    });
    expect(run.seen).toMatchObject([{ url: "/p?q=1" }]);
    expect(run.seen[0]?.raw).toEqual(expect.arrayContaining(["X-Forwarded-Host", `3000-sb-a.${DOMAIN}`]));
  });

  it.each(["//a/../b", "/p?a=b;c=%zz&t=a%2Bb%3D%3D", "/%7Euser/%", "/a%2Fb"])(
    "passes %j through as it is",
    async (path) => {
      await using run = await rig();
      await run.ask(`GET ${path}`);
      expect(run.seen).toMatchObject([{ url: path }]);
    },
  );

  it.each([
    "example.com",
    `sb-abc.${DOMAIN}`,
    `-sb-abc.${DOMAIN}`,
    `0-sb-abc.${DOMAIN}`,
    `x-sb-abc.${DOMAIN}`,
    `a.b-sb.${DOMAIN}`,
    DOMAIN,
    "[::1]:8443",
    "127.0.0.1",
  ])("rejects the unroutable host %s, with or without a token", async (host) => {
    await using run = await rig();
    const expected = { status: 400, body: error(400, "no sandbox in the request host or headers") };
    expect(await run.ask("GET /", [], host)).toMatchObject(expected);
    expect(await run.ask("GET /files", [TOKEN], host)).toMatchObject(expected);
    expect(run.store.calls).toStrictEqual([]);
  });

  it("answers health itself, on any host and before anything else", async () => {
    await using run = await rig();
    for (const host of [HOST, "example.com"]) {
      expect(await run.ask("GET /healthz", [], host)).toMatchObject({ status: 204, body: "" });
      expect(await run.ask("HEAD /healthz?x", [], host)).toMatchObject({ status: 204 });
    }
    expect(run.store.calls).toStrictEqual([]);
    expect(await run.ask("POST /healthz")).toMatchObject({ status: 200 });
    expect(run.seen).toMatchObject([{ method: "POST", url: "/healthz" }]);
  });

  it.each([
    ["OPTIONS *", 204],
    ["CONNECT example.com:443", 400],
    ["GET *", 400],
  ])("does not route %s", async (line, status) => {
    await using run = await rig();
    const answer = await run.ask(line);
    expect(answer.status).toBe(status);
    expect(status === 204 || answer.body.includes('"code":400')).toBe(true);
    expect(run.store.calls).toStrictEqual([]);
  });

  it("refuses two hosts", async () => {
    await using run = await rig();
    expect(await run.ask("GET /", [TOKEN, `Host: 80-sb-b.${DOMAIN}`])).toMatchObject({ status: 400 });
  });
});

describe("credentials", () => {
  it("requires the access token on every port", async () => {
    await using run = await rig();
    for (const headers of [[], ["X-Access-Token: "], ["Authorization: Bearer token-of-sb_a"]]) {
      for (const port of [49_983, 3000]) {
        expect(await run.ask("GET /", headers, `${port}-sb-a.${DOMAIN}`)).toMatchObject({
          status: 401,
          body: error(401, "missing X-Access-Token"),
        });
      }
    }
    expect(run.store.calls).toStrictEqual([]);
  });

  it.each(["wrong", "", "token-of-sb_", "token-of-sb_aa", "TOKEN-OF-SB_A"])("refuses the token %j", async (token) => {
    await using run = await rig();
    const answer = await run.ask("GET /", [`X-Access-Token: ${token}`]);
    expect(answer.status).toBe(401);
    expect(run.store.count("dial")).toBe(0);
    expect(run.seen).toStrictEqual([]);
  });

  it("judges a wrong token against a known owner without asking a node again", async () => {
    await using run = await rig();
    await run.ask("GET /");
    expect(await run.ask("GET /", ["X-Access-Token: wrong"])).toMatchObject({
      status: 401,
      body: error(401, "invalid sandbox access token"),
    });
    expect(run.store.count("read")).toBe(1);
  });

  it("takes the first of several tokens, trimmed", async () => {
    await using run = await rig();
    expect(await run.ask("GET /", ["x-access-token:  token-of-sb_a  ", "X-Access-Token: wrong"])).toMatchObject({
      status: 200,
    });
    expect(await run.ask("GET /", ["X-Access-Token: wrong", TOKEN])).toMatchObject({ status: 401 });
  });

  it.each([
    "/init",
    "/INIT",
    "/init/",
    "/freeze",
    "/unfreeze",
    "/fsfreeze",
    "/fsthaw",
    "/collapse",
    "/upgrade",
    "/%69nit",
    "/x/../init",
  ])("refuses the internal path %s on every port before any other check", async (path) => {
    await using run = await rig({ publicPorts: "all" });
    for (const host of [HOST, `3000-sb-a.${DOMAIN}`, `49983-sb-unknown.${DOMAIN}`]) {
      for (const headers of [[], [TOKEN]]) {
        expect(await run.ask(`POST ${path}`, headers, host)).toMatchObject({
          status: 404,
          body: error(404, "not found"),
        });
      }
    }
    expect(run.store.calls).toStrictEqual([]);
  });

  describe("with a secret", () => {
    it("takes the derived token, shows it to the guest, and opens the relay with the sandbox's own", async () => {
      await using run = await rig({ envdSecret: SECRET });
      expect(await run.ask("GET /", [DERIVED])).toMatchObject({ status: 200 });
      expect(run.seen[0]?.raw).toContain(guestAccessToken("token-of-sb_a", SECRET));
      expect(run.store.calls.at(-1)).toMatchObject({ token: "token-of-sb_a" });
    });

    it("refuses the sandbox's own token", async () => {
      await using run = await rig({ envdSecret: SECRET });
      expect(await run.ask("GET /", [TOKEN])).toMatchObject({ status: 401 });
    });

    it("relays signed file URLs without waking", async () => {
      await using run = await rig({ envdSecret: SECRET });
      expect(await run.ask("GET /files?path=a&signature=v1_x", [])).toMatchObject({ status: 200 });
      expect(run.store.calls.at(-1)).toMatchObject({ token: "" });
      Object.assign(run.store.guests.get("sb_a") ?? {}, { paused: true });
      expect(await run.ask("GET /files?path=a&signature=v1_x", [])).toMatchObject({
        status: 502,
        body: error(502, "sandbox is paused"),
      });
      expect(run.store.wakes).toBe(0);
    });

    it.each([
      ["/files?path=a", HOST],
      ["/files?signature=", HOST],
      ["/files/x?signature=v1_x", HOST],
      ["/files?signature=v1_x", `3000-sb-a.${DOMAIN}`],
    ])("takes %s at %s for unsigned", async (path, host) => {
      await using run = await rig({ envdSecret: SECRET });
      expect(await run.ask(`GET ${path}`, [], host)).toMatchObject({ status: 401 });
    });

    it("can not serve nodes that tell no tokens, and does not blame the client", async () => {
      await using run = await rig({ envdSecret: SECRET });
      run.store.put("sb_open", { token: undefined });
      expect(await run.ask("GET /", [DERIVED], `49983-sb-open.${DOMAIN}`)).toMatchObject({ status: 500 });
    });
  });

  it("does not know signed file URLs without a secret", async () => {
    await using run = await rig();
    expect(await run.ask("GET /files?path=a&signature=v1_x", [])).toMatchObject({ status: 401 });
  });

  it("lets the node judge when it tells no token", async () => {
    await using run = await rig();
    run.store.put("sb_open", { token: undefined, ports: { 49983: run.guest.port } });
    expect(await run.ask("GET /", ["X-Access-Token: mine"], `49983-sb-open.${DOMAIN}`)).toMatchObject({ status: 200 });
    expect(run.store.calls.at(-1)).toMatchObject({ verb: "dial", token: "mine" });
  });

  it("serves public ports without a token, but never the guest daemon's", async () => {
    await using run = await rig({ publicPorts: [3000] });
    expect(await run.ask("GET /", [], `3000-sb-a.${DOMAIN}`)).toMatchObject({ status: 200 });
    expect(await run.ask("GET /", ["X-Access-Token: the app's own"], `3000-sb-a.${DOMAIN}`)).toMatchObject({
      status: 200,
    });
    expect(run.store.calls.at(-1)).toMatchObject({ token: "token-of-sb_a" });
    expect(await run.ask("GET /", [], `8080-sb-a.${DOMAIN}`)).toMatchObject({ status: 401 });
    await using all = await rig({ publicPorts: "all" });
    expect(await all.ask("GET /", [], `8080-sb-a.${DOMAIN}`)).toMatchObject({ status: 200 });
    expect(await all.ask("GET /", [], HOST)).toMatchObject({ status: 401 });
  });
});

describe("owners", () => {
  it("hides an unknown sandbox", async () => {
    await using run = await rig();
    for (const id of ["sb-unknown", "sb-0123456789abcdef", "x".repeat(50)]) {
      const answer = await run.ask("GET /", [TOKEN], `49983-${id}.${DOMAIN}`);
      expect(answer).toMatchObject({ status: 502, body: error(502, "The sandbox was not found") });
      expect(answer.head + answer.body).not.toContain(id);
    }
  });

  it.each(["..", "a/b", "a b", "%2e%2e", "x".repeat(129), "sb_ä"])("asks no node for the id %j", async (id) => {
    await using run = await rig();
    const headers = [TOKEN, `E2b-Sandbox-Id: ${id}`, "E2b-Sandbox-Port: 80"];
    expect(await run.ask("GET /", headers)).toMatchObject({ status: 502 });
    expect(run.store.calls).toStrictEqual([]);
  });

  it("finds a sandbox its node has not published, once", async () => {
    await using run = await rig();
    Object.assign(run.store.guests.get("sb_a") ?? {}, { listed: false });
    expect(await run.ask("GET /")).toMatchObject({ status: 200 });
    expect(await run.ask("GET /")).toMatchObject({ status: 200 });
    expect(await run.ask("GET /", [TOKEN, "E2b-Sandbox-Id: sb_a", "E2b-Sandbox-Port: 22"])).toMatchObject({
      status: 200,
    });
    expect(run.store.count("ask")).toBe(1);
    expect(run.store.calls.filter(({ verb }) => verb === "ask")).toStrictEqual([{ verb: "ask", id: "sb_a" }]);
  });

  it("requires the token of a sandbox it had to ask for, too", async () => {
    await using run = await rig();
    Object.assign(run.store.guests.get("sb_a") ?? {}, { listed: false });
    expect(await run.ask("GET /", ["X-Access-Token: wrong"])).toMatchObject({ status: 401 });
    expect(run.store.count("dial")).toBe(0);
  });

  it("stops asking past its limit", async () => {
    await using run = await rig({ askBurst: 2, asksPerSecond: 0 });
    for (let i = 0; i < 5; i += 1) {
      expect(await run.ask("GET /", [TOKEN], `49983-sb-no${i}.${DOMAIN}`)).toMatchObject({ status: 502 });
    }
    expect(run.store.count("ask")).toBe(2);
  });

  it("does not spend the limit on sandboxes that exist", async () => {
    await using run = await rig({ askBurst: 1, asksPerSecond: 0 });
    for (let i = 0; i < 5; i += 1) {
      run.store.put(`sb_${i}`, { ports: { 80: run.guest.port } });
      expect(await run.ask("GET /", [`X-Access-Token: token-of-sb_${i}`], `80-sb-${i}.${DOMAIN}`)).toMatchObject({
        status: 200,
      });
    }
  });

  it("looks one id up once for any number of requests at a time", async () => {
    await using run = await rig();
    const answers = await Promise.all(Array.from({ length: 20 }, () => run.ask("GET /")));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect(run.store.count("find")).toBe(1);
    expect(run.store.count("read")).toBe(1);
  });

  it("reads an owner again after a while, without asking the fleet", async () => {
    let now = 0;
    await using run = await rig({ now: () => now, askBurst: 1, asksPerSecond: 0 });
    await run.ask("GET /");
    now = 59_999;
    await run.ask("GET /");
    expect(run.store.count("read")).toBe(1);
    now = 60_000;
    expect(await run.ask("GET /")).toMatchObject({ status: 200 });
    expect([run.store.count("find"), run.store.count("read")]).toStrictEqual([1, 2]);
  });

  it("finds a sandbox that appears a moment after it was asked for", async () => {
    await using run = await rig();
    const host = `80-sb-late.${DOMAIN}`;
    expect(await run.ask("GET /", ["X-Access-Token: token-of-sb_late"], host)).toMatchObject({ status: 502 });
    run.store.put("sb_late", { listed: false, ports: { 80: run.guest.port } });
    expect(await run.ask("GET /", ["X-Access-Token: token-of-sb_late"], host)).toMatchObject({ status: 200 });
  });

  it("calls no sandbox gone while a node that may hold it is silent", async () => {
    await using run = await rig();
    const ask = () => run.ask("GET /", ["X-Access-Token: token-of-sb_late"], `80-sb-late.${DOMAIN}`);
    run.store.unanswered = 1;
    expect(await ask()).toMatchObject({ status: 500, body: error(500, "sandbox unreachable") });
    run.store.unanswered = 0;
    expect(await ask()).toMatchObject({ status: 502, body: error(502, "The sandbox was not found") });
  });

  it("answers 502 at once after a release through this store, whatever inventory still lists", async () => {
    await using run = await rig();
    await run.ask("GET /");
    await run.store.release("10.0.0.1:27777", "sb_a");
    const before = run.store.calls.length;
    for (const path of ["/health", "/files"]) {
      expect(await run.ask(`GET ${path}`)).toMatchObject({
        status: 502,
        body: error(502, "The sandbox was not found"),
      });
    }
    expect(run.store.calls).toHaveLength(before);
  });

  it("does not bring a sandbox back that was released during its look-up", async () => {
    await using run = await rig();
    run.store.beforeRead = () => run.store.release("n", "sb_a");
    Object.assign(run.store, { release: run.store.release.bind(run.store) });
    expect(await run.ask("GET /")).toMatchObject({ status: 502 });
    Object.assign(run.store.guests.get("sb_a") ?? {}, { alive: true });
    expect(await run.ask("GET /")).toMatchObject({ status: 502 });
  });

  it("answers 502 for a stale owner that is gone, even from inventory", async () => {
    await using run = await rig();
    await run.ask("GET /");
    Object.assign(run.store.guests.get("sb_a") ?? {}, { alive: false });
    expect(await run.ask("GET /health")).toMatchObject({ status: 502, body: error(502, "The sandbox was not found") });
    expect(await run.ask("GET /health")).toMatchObject({ status: 502, body: error(502, "The sandbox was not found") });
  });

  it("answers 401 for a stale owner whose sandbox has another token now", async () => {
    // A relay that is kept was opened with the token it had.
    await using run = await rig({ relayIdleMs: 0 });
    await run.ask("GET /");
    Object.assign(run.store.guests.get("sb_a") ?? {}, { token: "new" });
    expect(await run.ask("GET /")).toMatchObject({ status: 401, body: error(401, "invalid sandbox access token") });
    expect(await run.ask("GET /", ["X-Access-Token: new"])).toMatchObject({ status: 200 });
  });

  it("follows a sandbox to another node", async () => {
    await using run = await rig();
    await run.ask("GET /");
    let failed = false;
    run.store.beforeDial = () => {
      if (!failed) {
        failed = true;
        throw new ScaleError("not_found", "unknown sandbox", { status: 404 });
      }
    };
    expect(await run.ask("GET /")).toMatchObject({ status: 200 });
  });
});

describe("node refusals", () => {
  const at = { node: "10.0.0.9:27777", verb: "dial" };
  it.each([
    [
      new ScaleError("not_found", "10.0.0.9:27777: unknown", { ...at, status: 404 }),
      401,
      "invalid sandbox access token",
    ],
    [new ScaleError("node_refused", "10.0.0.9:27777", { ...at, status: 401 }), 500, "sandbox unreachable"],
    [new ScaleError("node_refused", "10.0.0.9:27777", { ...at, status: 403 }), 500, "sandbox unreachable"],
    [new ScaleError("node_refused", "10.0.0.9:27777", { ...at, status: 400 }), 400, "unsupported sandbox port"],
    [new ScaleError("node_refused", "10.0.0.9:27777", { ...at, status: 409 }), 500, "sandbox unreachable"],
    [new ScaleError("node_refused", "10.0.0.9:27777", { ...at, status: 426 }), 500, "sandbox unreachable"],
    [new ScaleError("node_failed", "10.0.0.9:27777", { ...at, status: 500 }), 500, "sandbox unreachable"],
    [
      new ScaleError("node_failed", "10.0.0.9:27777", { ...at, status: 502 }),
      502,
      "The sandbox is running but port is not open",
    ],
    [new ScaleError("node_failed", "10.0.0.9:27777", { ...at, status: 503 }), 500, "sandbox unreachable"],
    [new ScaleError("node_failed", "connect ECONNREFUSED 10.0.0.9:27777", at), 500, "sandbox unreachable"],
    [new ScaleError("routing_disabled", "10.0.0.9:27777", at), 500, "sandbox unreachable"],
    [new Error("10.0.0.9:27777"), 500, "sandbox unreachable"],
  ])("maps %o to %i and names no node", async (failure, status, message) => {
    await using run = await rig();
    run.store.beforeDial = () => {
      throw failure;
    };
    const answer = await run.ask("GET /", [TOKEN, "Origin: https://app.example"]);
    expect(answer).toMatchObject({ status, body: error(status, message) });
    expect(answer.head).toContain("Access-Control-Allow-Origin: *");
    expect(answer.head).toContain("Content-Type: application/json");
    expect(answer.head + answer.body).not.toContain("10.0.0.9");
  });

  it("does not blame the token for what a node refuses to the proxy itself", async () => {
    await using run = await rig();
    run.store.beforeDial = () => {
      throw new ScaleError("not_found", "10.0.0.9:27777: unknown sandbox", { status: 404 });
    };
    expect(await run.ask("GET /health")).toMatchObject({ status: 500, body: error(500, "sandbox unreachable") });
    expect(await run.ask("GET /other")).toMatchObject({
      status: 401,
      body: error(401, "invalid sandbox access token"),
    });
  });

  it("reports an unreachable node as its own trouble", async () => {
    await using run = await rig();
    run.store.beforeRead = () => {
      throw new ScaleError("node_failed", "connect ECONNREFUSED 10.0.0.9:27777");
    };
    expect(await run.ask("GET /health")).toMatchObject({ status: 500, body: error(500, "sandbox unreachable") });
  });

  it("logs trouble with nodes, but no token", async () => {
    const lines: string[] = [];
    const write = (fields: object, message: string): void => {
      lines.push(JSON.stringify(fields) + message);
    };
    const logger = { debug: write, info: write, warn: write, error: vi.fn(write) };
    await using run = await rig({ logger, accessLog: "info" });
    run.store.beforeDial = () => {
      throw new ScaleError("node_failed", "down", { status: 500 });
    };
    await run.ask("GET /p?signature=q-secret");
    await vi.waitFor(() => expect(lines.some((line) => line.includes("proxied request"))).toBe(true));
    expect(logger.error).toHaveBeenCalledTimes(1);
    expect(lines.find((line) => line.includes("proxied request"))).toMatch(/"path":"\/p".*"status":500/);
    expect(lines.join("\n")).not.toMatch(/token-of|q-secret/);
  });

  it("logs the path of any request, but not the user in an absolute target, and no more of it than is of use", async () => {
    const lines: string[] = [];
    const write = (fields: object): void => void lines.push(JSON.stringify(fields));
    await using run = await rig({
      logger: { debug: write, info: write, warn: write, error: write },
      accessLog: "info",
    });
    await run.ask(`GET http://me:u-secret@49983-sb-a.${DOMAIN}/absolute?q-secret`);
    await run.ask(`GET /${"x".repeat(5000)}`);
    await vi.waitFor(() => expect(lines.filter((line) => line.includes('"method"'))).toHaveLength(2));
    expect(lines.join("\n")).toMatch(/"path":"\/absolute".*"path":"\/x{1023}"/s);
    expect(lines.join("\n")).not.toMatch(/secret/);
  });

  it("says 502 for a closed port, in JSON whatever the client accepts", async () => {
    await using run = await rig();
    for (const accept of ["text/html", "*/*", "application/json"]) {
      expect(await run.ask("GET /", [TOKEN, `Accept: ${accept}`], `9999-sb-a.${DOMAIN}`)).toMatchObject({
        status: 502,
        body: error(502, "The sandbox is running but port is not open"),
      });
    }
  });
});

describe("waking", () => {
  it("does not wake for the health probe, and says that the sandbox is paused", async () => {
    await using run = await rig();
    Object.assign(run.store.guests.get("sb_a") ?? {}, { paused: true });
    for (const [line, headers] of [
      ["GET /health", [TOKEN]],
      ["GET /health/?x=1", [TOKEN]],
    ] as const) {
      expect(await run.ask(line, headers)).toMatchObject({ status: 502, body: error(502, "sandbox is paused") });
    }
    expect(run.store.wakes).toBe(0);
    expect(await run.ask("POST /process.Process/List")).toMatchObject({ status: 200 });
    expect(run.store.wakes).toBe(1);
    expect(await run.ask("GET /health")).toMatchObject({ status: 200 });
  });

  it("does not wake for the health probe of a sandbox it knew running", async () => {
    await using run = await rig();
    await run.ask("GET /");
    Object.assign(run.store.guests.get("sb_a") ?? {}, { paused: true });
    expect(await run.ask("GET /health")).toMatchObject({ status: 502, body: error(502, "sandbox is paused") });
    expect(run.store.wakes).toBe(0);
  });

  it("does not wake an open node's sandbox for the health probe either", async () => {
    await using run = await rig();
    run.store.put("sb_open", { token: undefined, paused: true, ports: { 49983: run.guest.port } });
    const host = `49983-sb-open.${DOMAIN}`;
    expect(await run.ask("GET /health", ["X-Access-Token: t"], host)).toMatchObject({ status: 502 });
    expect(run.store.wakes).toBe(0);
    expect(await run.ask("GET /", ["X-Access-Token: t"], host)).toMatchObject({ status: 200 });
    expect(await run.ask("GET /health", ["X-Access-Token: t"], host)).toMatchObject({ status: 200 });
  });

  it("treats /health on another port as any request", async () => {
    await using run = await rig({ publicPorts: [3000] });
    Object.assign(run.store.guests.get("sb_a") ?? {}, { paused: true });
    expect(await run.ask("GET /health", [], `3000-sb-a.${DOMAIN}`)).toMatchObject({ status: 200 });
    expect(run.store.wakes).toBe(1);
  });

  it("wakes once for many requests at a time", async () => {
    await using run = await rig();
    const guest = run.store.guests.get("sb_a");
    Object.assign(guest ?? {}, { paused: true });
    let dialingWhilePaused = 0;
    run.store.beforeDial = async () => {
      if (guest?.paused === true) {
        dialingWhilePaused += 1;
        await new Promise((resolve) => {
          setTimeout(resolve, 20);
        });
      }
    };
    const answers = await Promise.all(Array.from({ length: 10 }, () => run.ask("POST /run")));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect([run.store.wakes, dialingWhilePaused]).toStrictEqual([1, 1]);
  });

  it("answers all that wait for a wake that fails, and lets the next request wake", async () => {
    await using run = await rig();
    Object.assign(run.store.guests.get("sb_a") ?? {}, { paused: true });
    let dials = 0;
    run.store.beforeDial = async () => {
      dials += 1;
      await new Promise((resolve) => {
        setTimeout(resolve, 50);
      });
      throw new ScaleError("node_failed", "down", { status: 500 });
    };
    const answers = await Promise.all(Array.from({ length: 20 }, () => run.ask("POST /run")));
    expect(new Set(answers.map(({ status }) => status))).toStrictEqual(new Set([500]));
    // A request that came behind the failure has tried for itself.
    expect(dials).toBeLessThan(20);
    run.store.beforeDial = () => undefined;
    expect(await run.ask("POST /run")).toMatchObject({ status: 200 });
    expect(run.store.wakes).toBe(1);
  });

  it("wakes once, too, when the first request is for a closed port", async () => {
    await using run = await rig({ publicPorts: [9] });
    const guest = run.store.guests.get("sb_a");
    Object.assign(guest ?? {}, { paused: true });
    let sleeping = 0;
    run.store.beforeDial = async () => {
      sleeping += guest?.paused === true ? 1 : 0;
      await new Promise((resolve) => {
        setTimeout(resolve, 30);
      });
    };
    const closed = run.ask("GET /", [], `9-sb-a.${DOMAIN}`);
    const answers = await Promise.all(Array.from({ length: 10 }, () => run.ask("POST /run")));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect(await closed).toMatchObject({ status: 502 });
    expect([run.store.wakes, sleeping]).toStrictEqual([1, 1]);
  });
});

describe("CORS", () => {
  const asks = ["Origin: https://app.example", "Access-Control-Request-Method: POST"];
  it("answers a preflight without a token and without a sandbox", async () => {
    await using run = await rig();
    const answer = await run.ask("OPTIONS /process.Process/Start", [
      ...asks,
      "Access-Control-Request-Headers: x-access-token",
    ]);
    expect(answer.status).toBe(204);
    for (const line of [
      "Access-Control-Allow-Origin: *",
      "Access-Control-Allow-Methods: POST",
      "Access-Control-Allow-Headers: x-access-token",
      "Access-Control-Max-Age: 7200",
      "Vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
    ]) {
      expect(answer.head).toContain(line);
    }
    expect(run.store.calls).toStrictEqual([]);
  });

  it("routes a preflight like anything else first", async () => {
    await using run = await rig();
    const answer = await run.ask("OPTIONS /", asks, "example.com");
    expect(answer.status).toBe(400);
    expect(answer.head).toContain("Access-Control-Allow-Origin: *");
  });

  it("answers a preflight of a request that will name its sandbox in a header", async () => {
    await using run = await rig();
    const lines = [...asks, "Access-Control-Request-Headers: content-type,E2b-Sandbox-Id,e2b-sandbox-port"];
    const answer = await run.ask("OPTIONS /process.Process/Start", lines, "127.0.0.1:3628");
    expect(answer.status).toBe(204);
    expect(answer.head).toContain("Access-Control-Allow-Headers: content-type,E2b-Sandbox-Id,e2b-sandbox-port");
  });

  it("takes other OPTIONS requests for ordinary ones", async () => {
    await using run = await rig();
    expect(await run.ask("OPTIONS /", [asks[0] ?? ""])).toMatchObject({ status: 401 });
    expect(await run.ask("OPTIONS /")).toMatchObject({ status: 200 });
  });

  it("adds nothing to the guest's answers, and nothing to errors without an origin", async () => {
    await using run = await rig();
    expect((await run.ask("GET /", [TOKEN, "Origin: https://x.example"])).head).not.toContain("Access-Control");
    expect((await run.ask("GET /", [])).head).not.toContain("Access-Control");
  });
});

describe("createProxy", () => {
  const store = new ScriptedStore();
  it.each([
    [{ domain: "" }, "a domain is required"],
    [{ domain: "  " }, "a domain is required"],
    [{ domain: "." }, "a domain is required"],
    [{ domain: "d", envdSecret: " " }, "the envd secret must not be empty"],
    [{ domain: "d", publicPorts: [80, 49_983] }, "49983"],
    [{ domain: "d", askBurst: -1 }, "askBurst"],
    [{ domain: "d", keepOwnerMs: Number.NaN }, "keepOwnerMs"],
  ])("refuses %j", (options, message) => {
    expect(() => createProxy({ store, ...options })).toThrow(EnvdProxyError);
    expect(() => createProxy({ store, ...options })).toThrow(message);
  });
});
