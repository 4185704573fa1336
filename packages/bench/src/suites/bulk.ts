import { ProxyRig } from "../proxy-rig.ts";
import { median } from "../statistics.ts";
import type { Bench, Suite } from "../suite.ts";
import { transfer } from "../transfer.ts";

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;
/** What buffers of sockets and a young generation may add while gigabytes pass. */
const FLAT_BYTES = 64 * MIB;

/** Big bodies through the data plane, and through the least that could stand in its place. */
export const bulkSuite: Suite = {
  name: "bulk",
  what: "downloads and uploads through the data plane, against a plain pipe of two sockets",
  async run(bench) {
    await using rig = await ProxyRig.start();
    const proxy = await rig.open();
    const pipe = await rig.proxy.call("pipe", rig.at.guest);
    for (const direction of ["download", "upload"] as const) {
      await speed(bench, rig, { direction, proxy, pipe });
      await flatness(bench, rig, direction, proxy);
    }
  },
};

interface Ways {
  readonly direction: "download" | "upload";
  readonly proxy: string;
  readonly pipe: string;
}

async function speed(bench: Bench, rig: ProxyRig, { direction, proxy, pipe }: Ways): Promise<void> {
  const bytes = bench.quick ? 4 * MIB : 768 * MIB;
  const costs = { proxy: [] as number[], pipe: [] as number[] };
  const cpu = { proxy: [] as number[], pipe: [] as number[] };
  const once = async (way: "proxy" | "pipe"): Promise<void> => {
    const before = await rig.proxy.call("cpu", undefined);
    costs[way].push(await transfer(way === "proxy" ? proxy : pipe, direction, bytes));
    cpu[way].push((await rig.proxy.call("cpu", undefined)) - before);
  };
  for (let round = 0; round < (bench.quick ? 2 : 8); round += 1) {
    for (const way of round % 2 === 0 ? (["pipe", "proxy"] as const) : (["proxy", "pipe"] as const)) {
      await once(way);
    }
    if (round === 0) {
      // What warmed up does not count.
      for (const list of [costs.proxy, costs.pipe, cpu.proxy, cpu.pipe]) {
        list.length = 0;
      }
    }
  }
  const megabytes = bytes / 1e6;
  const ratios = (a: readonly number[], b: readonly number[]): number =>
    median(a.map((value, at) => value / (b[at] ?? Number.NaN)));
  bench.report({
    name: `bulk.${direction}.rate`,
    fleet: "",
    unit: "MB/s",
    value: (megabytes / median(costs.proxy)) * 1e6,
    baseline: (megabytes / median(costs.pipe)) * 1e6,
    ratio: ratios(costs.pipe, costs.proxy),
    against: "a pipe of two sockets",
    bar: { limit: 0.8, on: "ratio", side: "at least" },
  });
  bench.report({
    name: `bulk.${direction}.cpu`,
    fleet: "",
    unit: "us",
    value: median(cpu.proxy) / megabytes,
    baseline: median(cpu.pipe) / megabytes,
    ratio: ratios(cpu.proxy, cpu.pipe),
    against: "a pipe of two sockets, for each megabyte",
  });
}

async function flatness(bench: Bench, rig: ProxyRig, direction: Ways["direction"], proxy: string): Promise<void> {
  const before = await rig.proxy.call("memory", undefined);
  await transfer(proxy, direction, bench.quick ? 8 * MIB : 5 * GIB);
  const peak = await rig.proxy.call("peak", undefined);
  bench.report({
    name: `bulk.${direction}.5-gib.growth`,
    fleet: "",
    unit: "B",
    value: Math.max(0, peak - before),
    bar: { limit: FLAT_BYTES, on: "value", side: "at most" },
  });
}
