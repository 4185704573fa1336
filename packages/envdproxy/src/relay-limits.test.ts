import { describe, expect, it } from "vitest";
import { createProxy } from "./proxy.ts";
import type { ProxyOptions } from "./proxy.ts";
import { DOMAIN, eventually, parseAnswer, rawClient, rawGuest, requestHead, startProxy } from "./testing/fixtures.ts";
import type { Guest, RunningProxy } from "./testing/fixtures.ts";
import { ScriptedStore } from "./testing/scripted-store.ts";

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/** A guest that answers `/hold` when it is told to, and anything else at once. */
async function guestThatHolds(): Promise<Guest & { readonly release: () => void }> {
  const held: (() => void)[] = [];
  const guest = await rawGuest((socket) => {
    socket.on("data", (chunk: Buffer) => {
      if (chunk.includes("/hold")) {
        held.push(() => socket.write(OK));
      } else {
        socket.write(OK);
      }
    });
  });
  return { ...guest, release: () => held.splice(0).forEach((answer) => answer()) };
}

async function start(guest: Guest, options: Omit<Partial<ProxyOptions>, "store">): Promise<RunningProxy> {
  const store = new ScriptedStore();
  store.put("sb_a", { ports: { 49983: guest.port, 3000: guest.port } });
  store.put("sb_b", { ports: { 49983: guest.port } });
  return startProxy({ store, relayIdleMs: 60_000, ...options });
}

async function ask(proxy: RunningProxy, sandbox: string, path = "/", headers: readonly string[] = [], port = 49_983) {
  const own = [`X-Access-Token: token-of-${sandbox}`, "Connection: close", ...headers];
  const host = `${port}-${sandbox.replace("_", "-")}.${DOMAIN}`;
  using client = rawClient(proxy.port, requestHead(`GET ${path}`, own, host));
  return parseAnswer((await client.ended()).text);
}

describe("a limit of open relays", () => {
  it("of one sandbox answers 429 beyond it, leaves others alone, and lets go", async () => {
    await using guest = await guestThatHolds();
    await using proxy = await start(guest, { maxRelaysPerSandbox: 2 });
    const held = [ask(proxy, "sb_a", "/hold"), ask(proxy, "sb_a", "/hold")];
    await eventually("both are asked", () => guest.sockets.size === 2);
    const refused = await ask(proxy, "sb_a");
    expect(refused).toMatchObject({ status: 429, body: '{"code":429,"message":"too many open connections"}\n' });
    expect(refused.head).toContain("Retry-After: 1");
    expect(await ask(proxy, "sb_b")).toMatchObject({ status: 200 });
    guest.release();
    expect(await Promise.all(held)).toMatchObject([{ status: 200 }, { status: 200 }]);
    expect(await ask(proxy, "sb_a")).toMatchObject({ status: 200 });
  });

  it("of all sandboxes counts them together", async () => {
    await using guest = await guestThatHolds();
    await using proxy = await start(guest, { maxRelays: 1 });
    const held = ask(proxy, "sb_a", "/hold");
    await eventually("it is asked", () => guest.sockets.size === 1);
    expect(await ask(proxy, "sb_b")).toMatchObject({ status: 429 });
    expect(await ask(proxy, "sb_b", "/health")).toMatchObject({ status: 429 });
    guest.release();
    expect(await held).toMatchObject({ status: 200 });
    expect(await ask(proxy, "sb_b")).toMatchObject({ status: 200 });
  });

  it.each([{ maxRelaysPerSandbox: 1 }, { maxRelays: 1 }])("with %j closes idle ones first", async (limits) => {
    await using guest = await guestThatHolds();
    await using proxy = await start(guest, limits);
    for (const port of [49_983, 3000, 49_983]) {
      expect(await ask(proxy, "sb_a", "/", [], port)).toMatchObject({ status: 200 });
    }
    expect(proxy.store.count("dial")).toBe(3);
    await eventually("one is left", () => proxy.store.relays.size === 1);
  });

  it("is a 500 for streaming calls, since clients take 429 for a missing sandbox there", async () => {
    await using guest = await guestThatHolds();
    await using proxy = await start(guest, { maxRelaysPerSandbox: 1 });
    const held = ask(proxy, "sb_a", "/hold");
    await eventually("it is asked", () => guest.sockets.size === 1);
    expect(await ask(proxy, "sb_a", "/", ["Content-Type: application/connect+proto"])).toMatchObject({ status: 500 });
    guest.release();
    await held;
  });

  it("of one sandbox does not hold up its health probe", async () => {
    await using guest = await guestThatHolds();
    await using proxy = await start(guest, { maxRelaysPerSandbox: 1 });
    const held = ask(proxy, "sb_a", "/hold");
    await eventually("it is asked", () => guest.sockets.size === 1);
    expect(await ask(proxy, "sb_a", "/health")).toMatchObject({ status: 200 });
    guest.release();
    await held;
  });

  it("is free again after dials that failed", async () => {
    await using guest = await guestThatHolds();
    await using proxy = await start(guest, { maxRelaysPerSandbox: 1 });
    for (let i = 0; i < 3; i += 1) {
      expect(await ask(proxy, "sb_a", "/", [], 8080)).toMatchObject({ status: 502 });
    }
    expect(await ask(proxy, "sb_a")).toMatchObject({ status: 200 });
  });
});

describe("a node that does not answer a dial", () => {
  it("is given up after a time, and the client hears of it", async () => {
    await using guest = await guestThatHolds();
    await using proxy = await start(guest, { dialTimeoutMs: 20 });
    proxy.store.beforeDial = (_id, options) =>
      new Promise((_resolve, reject) => {
        options?.signal?.addEventListener("abort", () => reject(new Error("aborted")));
      });
    expect(await ask(proxy, "sb_a")).toMatchObject({ status: 500, body: expect.stringContaining("unreachable") });
  });

  it("fails those who wait for its wake as well", async () => {
    await using guest = await guestThatHolds();
    await using proxy = await start(guest, { dialTimeoutMs: 50 });
    Object.assign(proxy.store.guests.get("sb_a") ?? {}, { paused: true });
    let dials = 0;
    proxy.store.beforeDial = (_id, options) =>
      new Promise((_resolve, reject) => {
        dials += 1;
        options?.signal?.addEventListener("abort", () => reject(new Error("aborted")));
      });
    const answers = await Promise.all(Array.from({ length: 10 }, () => ask(proxy, "sb_a")));
    expect(answers.map(({ status }) => status)).toStrictEqual(Array.from({ length: 10 }, () => 500));
    expect(dials).toBeLessThan(10);
  });
});

it.each([
  { relayIdleMs: -1 },
  { maxRelays: 0 },
  { maxRelaysPerSandbox: Number.NaN },
  { dialTimeoutMs: 0 },
  { dialTimeoutMs: Number.POSITIVE_INFINITY },
])("%j is refused", (options) => {
  const build = (): unknown => createProxy({ store: new ScriptedStore(), domain: DOMAIN, ...options });
  expect(build).toThrow(expect.objectContaining({ code: "invalid_options" }));
});
