import { allGood, load } from "../load.ts";
import type { LoadResult } from "../load.ts";
import { http2Load } from "../http2-load.ts";
import { guestRequest, ProxyRig, ROUTING } from "../proxy-rig.ts";
import { median, quantile } from "../statistics.ts";
import type { Bench, Suite } from "../suite.ts";

const HELLO = guestRequest("GET", "/hello");
/** What most calls of the SDKs look like: a small body, which must not be sent twice. */
const CALL = guestRequest("POST", "/call", { path: "/home/user" });
const CLIENTS = 64;

/** Requests through the data plane, with a node and its guests in another process. */
export const proxySuite: Suite = {
  name: "proxy",
  what: "requests through the data plane over loopback, against the guest's port",
  async run(bench) {
    await using rig = await ProxyRig.start();
    const reused = await rig.open("reused");
    const fresh = await rig.open("fresh");
    await oneClient(bench, rig, { name: "proxy.get", request: HELLO, proxy: reused, most: 500 });
    await oneClient(bench, rig, { name: "proxy.post", request: CALL, proxy: reused, most: 500 });
    await oneClient(bench, rig, { name: "proxy.fresh-relay", request: HELLO, proxy: fresh });
    await manyClients(bench, rig, { name: "proxy.get", send: overHttp1(reused, HELLO), least: 6000 });
    await manyClients(bench, rig, { name: "proxy.post", send: overHttp1(reused, CALL), least: 6000 });
    await manyClients(bench, rig, { name: "proxy.fresh-relay", send: overHttp1(fresh, HELLO), least: 2000 });
    await manyClients(bench, rig, { name: "proxy.http2", send: overHttp2(reused) });
  },
};

type Send = (total: number) => Promise<LoadResult>;

function overHttp1(address: string, request: string): Send {
  return (total) => load(address, { clients: CLIENTS, total, status: 200, request: () => request });
}

function overHttp2(address: string): Send {
  return (total) =>
    http2Load(address, { connections: 8, streams: CLIENTS / 8, total, path: "/hello", headers: ROUTING });
}

function rounds(bench: Bench): number {
  return bench.quick ? 1 : 7;
}

interface Single {
  readonly name: string;
  readonly request: string;
  readonly proxy: string;
  /** Microseconds that the data plane may add. */
  readonly most?: number;
}

async function oneClient(bench: Bench, rig: ProxyRig, { name, request, proxy, most }: Single): Promise<void> {
  const total = bench.quick ? 20 : 1000;
  const send = (address: string): Promise<LoadResult> =>
    load(address, { clients: 1, total, status: 200, request: () => request });
  await send(proxy);
  await send(rig.at.guest);
  const through: number[] = [];
  const direct: number[] = [];
  for (let round = 0; round < rounds(bench); round += 1) {
    const results = [await send(rig.at.guest), await send(proxy)] as const;
    allGood(results);
    direct.push(median(results[0].micros));
    through.push(median(results[1].micros));
  }
  bench.report({
    name: `${name}.p50-added`,
    fleet: "",
    unit: "us",
    value: median(through.map((value, at) => value - (direct[at] ?? Number.NaN))),
    baseline: median(direct),
    against: "the same request to the guest's port",
    ...(most === undefined ? {} : { bar: { limit: most, on: "value", side: "at most" } as const }),
  });
}

interface Crowd {
  readonly name: string;
  readonly send: Send;
  /** Requests per second that are promised. */
  readonly least?: number;
}

async function manyClients(bench: Bench, rig: ProxyRig, { name, send, least }: Crowd): Promise<void> {
  const total = bench.quick ? CLIENTS * 2 : 8000;
  const straight = overHttp1(rig.at.guest, HELLO);
  const alone = overHttp1(await rig.proxy.call("answer", undefined), HELLO);
  await alone(total);
  await send(total);
  await straight(total);
  const through: number[] = [];
  const direct: number[] = [];
  const cpu: number[] = [];
  const bare: number[] = [];
  const p99: number[] = [];
  for (let round = 0; round < rounds(bench); round += 1) {
    const baseline = await straight(total);
    const atFirst = await rig.proxy.call("cpu", undefined);
    const answers = await alone(total);
    const before = await rig.proxy.call("cpu", undefined);
    const result = await send(total);
    bare.push((before - atFirst) / total);
    cpu.push(((await rig.proxy.call("cpu", undefined)) - before) / total);
    allGood([baseline, answers, result]);
    direct.push((total / baseline.wallMicros) * 1e6);
    through.push((total / result.wallMicros) * 1e6);
    p99.push(quantile(result.micros, 0.99));
  }
  const fleet = `${CLIENTS} clients`;
  bench.report({
    name: `${name}.rate`,
    fleet,
    unit: "/s",
    value: median(through),
    baseline: median(direct),
    ratio: median(through.map((value, at) => value / (direct[at] ?? Number.NaN))),
    against: "requests to the guest's port",
    ...(least === undefined ? {} : { bar: { limit: least, on: "value", side: "at least" } as const }),
  });
  bench.report({
    name: `${name}.cpu`,
    fleet,
    unit: "us",
    value: median(cpu),
    baseline: median(bare),
    ratio: median(cpu.map((value, at) => value / (bare[at] ?? Number.NaN))),
    against: "a Node server that answers by itself",
  });
  // Load, data plane and guests share the processors: what the data plane could do with one for itself.
  bench.report({ name: `${name}.rate-by-cpu`, fleet, unit: "/s", value: 1e6 / median(cpu) });
  bench.report({ name: `${name}.p99`, fleet, unit: "us", value: median(p99) });
}
