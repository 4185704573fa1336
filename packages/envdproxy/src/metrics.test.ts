import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { Registry } from "prom-client";
import { describe, expect, it } from "vitest";
import { Flags } from "./flags.ts";
import { bindListener } from "./listener.ts";
import { serveMetrics } from "./metrics-server.ts";
import { createProxy } from "./proxy.ts";
import { DOMAIN, eventually, httpGuest, rawClient, requestHead, startProxy } from "./testing/fixtures.ts";
import { ScriptedStore } from "./testing/scripted-store.ts";

const TOKEN = "X-Access-Token: token-of-sb_a";

/** Names that dashboards and alerts rely on, with their labels. */
const NAMES = [
  "envdproxy_answer_head_seconds",
  "envdproxy_body_bytes_total",
  "envdproxy_broken_answers_total",
  "envdproxy_certificate_reloads_total",
  "envdproxy_connections",
  "envdproxy_owner_lookups_total",
  "envdproxy_refusals_total",
  "envdproxy_relay_dial_failures_total",
  "envdproxy_relay_dial_seconds",
  "envdproxy_relay_retries_total",
  "envdproxy_relays",
  "envdproxy_relays_dropped_total",
  "envdproxy_relays_opened_total",
  "envdproxy_relays_reused_total",
  "envdproxy_requests_running",
  "envdproxy_requests_total",
  "envdproxy_wakes_total",
];

describe("the metrics of a proxy", () => {
  it("have these names", () => {
    const registry = new Registry();
    createProxy({ store: new ScriptedStore(), domain: DOMAIN, registry });
    const names = registry.getMetricsAsArray().map(({ name }) => name);
    expect(names.toSorted()).toStrictEqual(NAMES);
  });

  it("tell what happened, and name no sandbox", async () => {
    await using guest = await httpGuest((request, response) => request.pipe(response));
    const store = new ScriptedStore();
    store.put("sb_a", { ports: { 49983: guest.port }, paused: true });
    const registry = new Registry();
    await using proxy = await startProxy({ store, registry, relayIdleMs: 60_000, maxRelaysPerSandbox: 1 });
    using client = rawClient(proxy.port, `${requestHead("POST /", [TOKEN, "Content-Length: 4"])}body`);
    await client.until("body");
    client.socket.write(requestHead("GET /", [TOKEN]));
    await client.until("Content-Length: 0");
    await eventually("the relay is kept", () => proxy.handler.counters.relaysIdle() === 1);
    expect((await registry.metrics()).match(/^envdproxy_relays\{.*$/gm)).toStrictEqual([
      'envdproxy_relays{state="busy"} 0',
      'envdproxy_relays{state="idle"} 1',
    ]);
    client.socket.write(requestHead("GET /", []));
    await client.until("missing X-Access-Token");
    client.socket.write(requestHead("GET /", [TOKEN], `3000-sb-a.${DOMAIN}`));
    await client.until("port is not open");
    await eventually("all is over", () => proxy.handler.counters.running === 0);
    const text = await registry.metrics();
    for (const line of [
      'envdproxy_requests_total{protocol="http1",status="2xx"} 2',
      'envdproxy_requests_total{protocol="http1",status="4xx"} 1',
      'envdproxy_requests_total{protocol="http1",status="5xx"} 1',
      'envdproxy_refusals_total{code="missing_token"} 1',
      'envdproxy_refusals_total{code="port_closed"} 1',
      'envdproxy_relay_dial_failures_total{code="port_closed"} 1',
      'envdproxy_body_bytes_total{to="guest"} 4',
      'envdproxy_body_bytes_total{to="client"} 4',
      'envdproxy_connections{protocol="http1"} 1',
      "envdproxy_relays_opened_total 1",
      "envdproxy_relays_reused_total 1",
      // The only relay that the sandbox may have made room for the port that turned out to be closed.
      'envdproxy_relays_dropped_total{reason="crowded"} 1',
      'envdproxy_owner_lookups_total{result="found"} 1',
      'envdproxy_owner_lookups_total{result="cached"} 2',
      'envdproxy_wakes_total{result="woken"} 1',
      "envdproxy_answer_head_seconds_count 2",
      "envdproxy_relay_dial_seconds_count 1",
      "envdproxy_requests_running 0",
    ]) {
      expect(text).toContain(`${line}\n`);
    }
    expect(text).not.toContain("sb_a");
    expect(text).not.toContain("sb-a");
  });
});

describe("the server for those who watch", () => {
  it("tells metrics, health and readiness, and nothing else", async () => {
    let isReady = false;
    const registry = new Registry();
    await using server = await serveMetrics("127.0.0.1:0", { registry, ready: () => isReady });
    const get = (path: string, method = "GET"): Promise<Response> =>
      fetch(`http://${server.address}${path}`, { method });
    const statuses = async (): Promise<number[]> =>
      Promise.all(["/metrics", "/healthz", "/readyz", "/"].map(async (path) => (await get(path)).status));
    expect(await statuses()).toStrictEqual([200, 204, 503, 404]);
    isReady = true;
    expect(await statuses()).toStrictEqual([200, 204, 204, 404]);
    expect((await get("/metrics", "POST")).status).toBe(405);
    expect((await get("/metrics")).headers.get("content-type")).toMatch(/^text\/plain; version=0\.0\.4/);
    expect(await (await get("/")).json()).toStrictEqual({ code: 404, message: "not found" });
  });

  it.each(["nowhere", "127.0.0.1:99999"])("names the address %s that it can not listen on", async (address) => {
    const watched = { registry: new Registry(), ready: () => true };
    await expect(serveMetrics(address, watched)).rejects.toMatchObject({
      code: "listen_failed",
      message: expect.stringContaining(address),
    });
  });

  it("is started by the flags beside the data plane, and stays until the drain is over", async () => {
    // The port is chosen by a listener that lets go of it again.
    const probe = createServer().listen(0, "127.0.0.1");
    await once(probe, "listening");
    const { port } = probe.address() as AddressInfo;
    probe.close();
    const flags = Flags.from({ "metrics-bind-address": `127.0.0.1:${port}` }, "");
    await using guest = await httpGuest(() => undefined);
    const store = new ScriptedStore();
    store.put("sb_a", { ports: { 49983: guest.port } });
    const handler = createProxy({ store, domain: DOMAIN, ...flags.proxyOptions });
    const listener = await bindListener("127.0.0.1:0");
    const stop = new AbortController();
    const served = flags.serve(listener, handler, { signal: stop.signal });
    using client = rawClient(listener.port, requestHead("GET /", [TOKEN]));
    await eventually("the guest is asked", () => guest.sockets.size === 1);
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    expect(text).toContain("envdproxy_requests_running 1\n");
    expect(text).toContain("process_resident_memory_bytes");
    expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(204);
    stop.abort();
    await eventually("the drain begins", () => !handler.ready());
    expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(503);
    client.socket.destroy();
    await served;
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow("fetch failed");
  });
});

describe("readiness on the data plane's own port", () => {
  it.each([
    [undefined, 204],
    [() => true, 204],
    [() => false, 503],
  ])("is told where no sandbox is named: with %s it is %i", async (ready, status) => {
    await using proxy = await startProxy({ store: new ScriptedStore(), ready });
    const answer = await fetch(`http://127.0.0.1:${proxy.port}/readyz`);
    expect(answer.status).toBe(status);
    expect(answer.headers.get("retry-after")).toBe(status === 503 ? "1" : null);
  });

  it("is the guest's own where one is", async () => {
    await using guest = await httpGuest((_request, response) => response.end("the guest's"));
    const store = new ScriptedStore();
    store.put("sb_a", { ports: { 49983: guest.port } });
    await using proxy = await startProxy({ store, ready: () => false });
    using client = rawClient(proxy.port, requestHead("GET /readyz", [TOKEN]));
    expect(await client.until("the guest's")).toContain("200 OK");
  });
});
