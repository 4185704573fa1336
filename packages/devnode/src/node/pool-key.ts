import type { FullPoolKey, WirePoolKey } from "@org/sandboxd-client/wire";
import { Refusal } from "./refusal.ts";

/** What a size stands for. Node API §1.4. */
export interface Tier {
  readonly cpuCount: number;
  readonly memoryBytes: number;
}

const MIB = 1024 * 1024;

const TIERS: ReadonlyMap<string, Tier> = new Map([
  ["small", { cpuCount: 1, memoryBytes: 512 * MIB }],
  ["medium", { cpuCount: 2, memoryBytes: 1024 * MIB }],
  ["large", { cpuCount: 4, memoryBytes: 4096 * MIB }],
  ["xlarge", { cpuCount: 4, memoryBytes: 8192 * MIB }],
  ["2xlarge", { cpuCount: 8, memoryBytes: 16_384 * MIB }],
]);

const NETS = new Set(["none", "egress"]);

/** The tier of a key that was read by {@link readPoolKey}. */
export function tierOf(key: FullPoolKey): Tier {
  return TIERS.get(key.size) ?? { cpuCount: 1, memoryBytes: 512 * MIB };
}

/** One text for one key. */
export function keyText(key: FullPoolKey): string {
  return `${key.template}|${key.net}|${key.size}`;
}

/** Fills in the defaults. @throws Refusal 400 */
export function readPoolKey(wire: WirePoolKey): FullPoolKey {
  const net = wire.net === undefined || wire.net === "" ? "none" : wire.net;
  const size = wire.size === undefined || wire.size === "" ? "small" : wire.size;
  if (wire.template === "") {
    throw new Refusal(400, "invalid pool key: template is empty");
  }
  if (!NETS.has(net)) {
    throw new Refusal(400, `invalid pool key: unknown net ${JSON.stringify(net)}`);
  }
  if (!TIERS.has(size)) {
    throw new Refusal(400, `invalid pool key: unknown size ${JSON.stringify(size)}`);
  }
  return { template: wire.template, net, size };
}
