import { createHash } from "node:crypto";
import { connect } from "node:net";
import { StaticInventorySource } from "@org/scale/testing";
import { createStore } from "@org/scale";
import { Counter, Histogram, Registry } from "prom-client";
import { afterEach, describe, expect, it } from "vitest";
import { type Console, createConsole } from "./console.ts";
import { RequestHistory } from "./request-history.ts";

const CREDENTIAL = "a-credential-of-the-console";
/** As they were before anything was served. */
const { Request: request, Response: response } = globalThis;
const open: Console[] = [];
afterEach(() => open.splice(0).forEach((one) => one[Symbol.dispose]()));

function fleet(): StaticInventorySource {
  const inventory = new StaticInventorySource();
  for (const [node, running, paused] of [
    ["10.0.0.1:7777", 2, 1],
    ["10.0.0.2:7777", 1, 0],
  ] as const) {
    const entry = (phase: "Running" | "Hibernated", index: number) => ({
      name: `default/${node}-${phase}-${index}`,
      id: `sb_${createHash("sha256").update(`${node}${phase}${index}`).digest("hex").slice(0, 16)}`,
      phase,
      template: "image",
      claimedAt: new Date(Date.UTC(2026, 0, 1, index)),
      deadline: new Date(Date.UTC(2027, 0, 1)),
      metadata: { secret: "metadata-of-a-user" },
    });
    inventory.put({
      node,
      address: node,
      pools: [{ template: "image", net: "none", size: "small", warm: 3, target: 4 }],
      templates: [],
      entries: [
        ...Array.from({ length: running }, (_, index) => entry("Running", index)),
        ...Array.from({ length: paused }, (_, index) => entry("Hibernated", 10 + index)),
      ],
      asOfMs: 0,
    });
  }
  return inventory;
}

function page(registry?: Registry): Console {
  const inventory = fleet();
  const made = createConsole({ inventory, store: createStore(inventory), credential: CREDENTIAL, registry });
  open.push(made);
  return made;
}

async function login(to: Console, credential = CREDENTIAL): Promise<Response> {
  const body = new URLSearchParams({ credential }).toString();
  const headers = { "content-type": "application/x-www-form-urlencoded", "content-length": String(body.length) };
  return to.app.request("/login", { method: "POST", body, headers });
}

async function cookieOf(to: Console): Promise<string> {
  return (await login(to)).headers.get("set-cookie")?.split(";")[0] ?? "";
}

describe("the console", () => {
  it("shows nothing but the form to who has not logged in", async () => {
    const made = page();
    const asked = await made.app.request("/");
    expect(asked.status).toBe(401);
    expect(await asked.text()).toContain('type="password"');
    const data = await made.app.request("/data");
    expect([data.status, await data.json()]).toEqual([401, { code: 401, message: "log in first" }]);
  });

  it("lets in with the credential by a cookie that no script and no other site can use", async () => {
    const made = page();
    const wrong = await login(made, "not-the-credential-of-it");
    expect([wrong.status, wrong.headers.get("set-cookie")]).toEqual([401, null]);
    const right = await login(made);
    expect([right.status, right.headers.get("location")]).toEqual([303, "/"]);
    expect(right.headers.get("set-cookie")).toMatch(
      /^sandbox_console=\d+\.[0-9a-f]{64}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/,
    );
    const asked = await made.app.request("/", { headers: { cookie: await cookieOf(made) } });
    expect([asked.status, (await asked.text()).includes('id="node-table"')]).toEqual([200, true]);
    const left = await made.app.request("/logout", { method: "POST" });
    expect(left.headers.get("set-cookie")).toContain("Max-Age=0");
  });

  it("tells of nodes, pools and the newest sandboxes, and nothing that lets anybody in", async () => {
    const made = page();
    const answer = await made.app.request("/data", { headers: { authorization: `Bearer ${CREDENTIAL}` } });
    const text = await answer.text();
    const data = JSON.parse(text) as {
      nodes: unknown[];
      pools: unknown[];
      sandboxes: { id: string }[];
      history?: unknown;
    };
    expect(data.nodes).toEqual([
      { node: "10.0.0.1:7777", running: 2, paused: 1, warm: 3, target: 4 },
      { node: "10.0.0.2:7777", running: 1, paused: 0, warm: 3, target: 4 },
    ]);
    expect(data.pools).toEqual([{ template: "image", net: "none", size: "small", warm: 6, target: 8, nodes: 2 }]);
    expect(data.sandboxes).toHaveLength(4);
    expect(Object.keys(data.sandboxes[0] ?? {})).toEqual([
      "id",
      "namespace",
      "template",
      "node",
      "phase",
      "startedAt",
      "endsAt",
    ]);
    expect(data.history).toBeUndefined();
    expect(text).not.toMatch(/token|metadata-of-a-user/);
  });

  it("judges no credential of programs any more once too many were wrong, and says so", async () => {
    const made = page();
    const ask = async (credential: string): Promise<number> => {
      const answer = await made.app.request("/data", { headers: { authorization: `Bearer ${credential}` } });
      return answer.status;
    };
    const cookie = await cookieOf(made);
    const statuses: number[] = [];
    for (let index = 0; index < 20; index += 1) statuses.push(await ask("a-guess"));
    expect(new Set(statuses)).toEqual(new Set([401]));
    expect([await ask("a-guess"), await ask(CREDENTIAL)]).toEqual([429, 429]);
    expect((await made.app.request("/data", { headers: { cookie } })).status).toBe(200);
  });

  it("has a policy that fits its own style and script, and forbids everything else", async () => {
    const made = page();
    const asked = await made.app.request("/", { headers: { cookie: await cookieOf(made) } });
    const html = await asked.text();
    const policy = asked.headers.get("content-security-policy") ?? "";
    for (const tag of ["style", "script"]) {
      const [, inner = ""] = new RegExp(`<${tag}>([\\s\\S]*?)</${tag}>`).exec(html) ?? [];
      expect(inner.length).toBeGreaterThan(100);
      expect(policy).toContain(`${tag}-src 'sha256-${createHash("sha256").update(inner).digest("base64")}'`);
    }
    expect(policy).toMatch(/^default-src 'none'/);
    expect(policy).toContain("frame-ancestors 'none'");
    // The namespace of drawings is a name and no address.
    expect(html.replaceAll("http://www.w3.org/2000/svg", "")).not.toMatch(/https?:\/\/|<link[^>]+stylesheet|src=/);
    expect(asked.headers.get("cache-control")).toBe("no-store");
  });

  it.each([
    ["a form without a length", {}, 413],
    ["a form that is too large", { "content-length": "5000" }, 413],
  ])("refuses %s", async (_name, headers, status) => {
    const answer = await page().app.request("/login", { method: "POST", body: "credential=x", headers });
    expect(answer.status).toBe(status);
  });

  it("serves until it is told to stop, whoever hangs on, and leaves the globals of its program alone", async () => {
    const made = page();
    const stop = new AbortController();
    const up = Promise.withResolvers<string>();
    const served = made.serve("127.0.0.1:0", { signal: stop.signal, onListening: up.resolve });
    const address = await up.promise;
    expect((await fetch(`http://${address}/data`)).status).toBe(401);
    const idle = connect(Number(address.split(":")[1]), "127.0.0.1");
    const closed = new Promise((resolve) => idle.once("close", resolve));
    idle.on("error", () => undefined);
    await new Promise((resolve) => idle.once("connect", resolve));
    stop.abort();
    await served;
    await closed;
    expect(globalThis.Request).toBe(request);
    expect(globalThis.Response).toBe(response);
  });

  it.each([
    ["no address", "nonsense", /not host:port/],
    ["an address of somebody else", "203.0.113.1:1", /listen on console address "203\.0\.113\.1:1"/],
  ])("rejects when it cannot listen: %s", async (_name, address, message) => {
    await expect(page().serve(address, { signal: new AbortController().signal })).rejects.toThrow(message);
  });
});

describe("the history of requests", () => {
  it("is what was added between two looks, with the bounds that half and most of the creates lie in", async () => {
    const registry = new Registry();
    const registers = [registry];
    const total = new Counter({
      name: "e2bcompat_requests_total",
      help: "x",
      labelNames: ["method", "route", "status"],
      registers,
    });
    const seconds = new Histogram({
      name: "e2bcompat_request_seconds",
      help: "x",
      labelNames: ["method", "route"],
      buckets: [0.01, 0.1, 1],
      registers,
    });
    const answered = (method: string, route: string, status: number, took: number): void => {
      total.inc({ method, route, status });
      seconds.observe({ method, route }, took);
    };
    let now = 0;
    using history = new RequestHistory(registry, () => (now += 5000));
    answered("POST", "/v2/sandboxes", 201, 0.9);
    await history.look();
    const before = history.points.length;
    for (let index = 0; index < 18; index += 1) answered("POST", "/v2/sandboxes", 201, 0.005);
    answered("POST", "/sandboxes", 503, 0.05);
    answered("POST", "/sandboxes", 201, 5);
    answered("GET", "/v2/sandboxes", 200, 0.5);
    await history.look();
    expect(history.points[before]).toMatchObject({
      requests: 21,
      errors: 1,
      creates: 20,
      createP50: 0.01,
      createP95: 0.1,
    });
    await history.look();
    expect(history.points[before + 1]).toMatchObject({ requests: 0, creates: 0, createP50: undefined });
    for (let index = 0; index < 200; index += 1) await history.look();
    expect(history.points).toHaveLength(120);
  });

  it("has a gap where the registry fails, and nobody else hears of it", async () => {
    const registry = new Registry();
    let fails = true;
    const total = new Counter({
      name: "e2bcompat_requests_total",
      help: "x",
      registers: [registry],
      collect: () => {
        if (fails) throw new Error("no count");
      },
    });
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on("unhandledRejection", note);
    try {
      using history = new RequestHistory(registry, () => 1);
      await new Promise((resolve) => setImmediate(resolve));
      fails = false;
      await history.look();
      total.inc(3);
      await history.look();
      expect(history.points.map(({ requests }) => requests)).toEqual([3]);
      expect(unhandled).toEqual([]);
    } finally {
      process.off("unhandledRejection", note);
    }
  });
});
