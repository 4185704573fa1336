import { describe, expect, it } from "vitest";
import { DialGate } from "./dial-gate.ts";
import { eventually, parseAnswer, rawClient, rawGuest, requestHead, startProxy } from "./testing/fixtures.ts";
import { ScriptedStore } from "./testing/scripted-store.ts";

const NEVER = new AbortController().signal;
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("the gate before a port", () => {
  it("lets so many through at a time, the others in their order", async () => {
    const gate = new DialGate(2);
    const order: number[] = [];
    const leaves: (() => void)[] = [];
    const entered = [1, 2, 3, 4].map(async (number) => {
      const { leave, waited } = await gate.enter("a", NEVER);
      order.push(number);
      leaves.push(leave);
      return waited;
    });
    await turn();
    expect(order).toStrictEqual([1, 2]);
    leaves[1]?.();
    await turn();
    expect(order).toStrictEqual([1, 2, 3]);
    leaves[0]?.();
    expect(await Promise.all(entered)).toStrictEqual([false, false, true, true]);
  });

  it("holds up nobody at another port", async () => {
    const gate = new DialGate(1);
    await gate.enter("a", NEVER);
    expect((await gate.enter("b", NEVER)).waited).toBe(false);
  });

  it("keeps no place for those who leave while they wait", async () => {
    const gate = new DialGate(1);
    const { leave } = await gate.enter("a", NEVER);
    const client = new AbortController();
    const leaving = gate.enter("a", client.signal);
    const staying = gate.enter("a", NEVER);
    client.abort();
    (await leaving).leave();
    leave();
    expect((await staying).waited).toBe(true);
  });
});

it("a burst of calls reaches a guest in portions, and relays that are free again are used", async () => {
  let dialing = 0;
  let most = 0;
  await using guest = await rawGuest((socket) => {
    socket.on("data", () => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  });
  const store = new ScriptedStore();
  store.put("sb_a", { ports: { 49983: guest.port } });
  store.beforeDial = async () => {
    dialing += 1;
    most = Math.max(most, dialing);
    await turn();
    dialing -= 1;
  };
  await using proxy = await startProxy({ store, relayIdleMs: 60_000 });
  const answers = await Promise.all(
    Array.from({ length: 300 }, async () => {
      const headers = ["X-Access-Token: token-of-sb_a", "Content-Length: 0", "Connection: close"];
      using client = rawClient(proxy.port, requestHead("POST /", headers));
      return parseAnswer((await client.ended()).text).status;
    }),
  );
  expect(answers).toStrictEqual(Array.from({ length: 300 }, () => 200));
  expect(most).toBeLessThanOrEqual(64);
  await eventually("all is quiet", () => proxy.handler.counters.running === 0);
});

it("a client that leaves while it waits for its turn opens nothing", async () => {
  const store = new ScriptedStore();
  store.put("sb_a", { ports: { 49983: 1 } });
  const held: (() => void)[] = [];
  store.beforeDial = () => new Promise<void>((resolve) => held.push(resolve));
  await using proxy = await startProxy({ store });
  const clients = Array.from({ length: 80 }, () =>
    rawClient(proxy.port, requestHead("GET /", ["X-Access-Token: token-of-sb_a"])),
  );
  await eventually("the gate is full", () => held.length === 64 && proxy.handler.counters.running === 80);
  for (const client of clients) {
    client.socket.destroy();
  }
  await eventually("all have left", () => proxy.handler.counters.running === 0);
  held.forEach((go) => go());
  await eventually("the places are free", () => store.relays.size === 0);
  expect(store.count("dial")).toBe(64);
});
