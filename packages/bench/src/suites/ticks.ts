import { sizeName } from "../fleet.ts";
import { waits } from "../lateness.ts";
import { Connection, type Reply } from "../load.ts";
import type { RowOrder } from "../node-replies.ts";
import { POOL } from "../fleet.ts";
import type { Stretch } from "../processes/front.ts";
import { apiRequest, Rig } from "../rig.ts";
import type { World } from "../rig.ts";
import { median, quantile } from "../statistics.ts";
import { largest } from "../suite.ts";
import type { Bench, Suite } from "../suite.ts";

const CREATE = apiRequest("POST", "/v2/sandboxes", { templateID: POOL.template, timeout: 300 });
const CPU_BAR = { limit: 0.3, on: "ratio", side: "at most" } as const;
const DELAY_BAR = { limit: 20, on: "value", side: "at most" } as const;
const DELAYS = [
  [
    "delay",
    ({ late }: Stretch) => late,
    [
      ["p50", 0.5, undefined],
      ["p99", 0.99, DELAY_BAR],
      ["max", 1, undefined],
    ],
  ],
  [
    "busy",
    ({ busy }: Stretch) => busy,
    [
      ["p99", 0.99, undefined],
      ["max", 1, undefined],
    ],
  ],
] as const;
const BAR_FLEET = "200x2000";
const IDLE_MS = 500;
const CREATE_EVERY_MS = 20;
const TICK_EVERY_MS = 1000;

/** Poll ticks as they are: over sockets, from another process, while clients wait. */
export const ticksSuite: Suite = {
  name: "ticks",
  what: "poll ticks of the largest fleet over loopback: processor time, delay of the event loop, creates meanwhile",
  async run(bench) {
    await using rig = new Rig();
    const empty = await rig.front.call("heap", undefined);
    for (const order of ["kept", "shuffled"] as const) {
      const world = await rig.open(order, { ...largest(bench), order, warm: [1_000_000] });
      await ticks(bench, rig, world, order);
      if (order === "kept") {
        await heap(bench, rig, empty);
      }
      await rig.close(world);
    }
  },
};

async function ticks(bench: Bench, rig: Rig, world: World, order: RowOrder): Promise<void> {
  const size = largest(bench);
  const rounds = bench.quick ? 2 : 9;
  const ticked: Stretch[] = [];
  const idle: Stretch[] = [];
  const parsed: number[] = [];
  for (let round = -2; round < rounds; round += 1) {
    await rig.nodes.call("flip", undefined);
    const results = [
      await rig.front.call("tick", world.name),
      await rig.front.call("parse", { ...size, order }),
      await rig.front.call("idle", IDLE_MS),
    ] as const;
    if (round >= 0) {
      ticked.push(results[0]);
      parsed.push(results[1]);
      idle.push(results[2]);
    }
  }
  const fleet = sizeName(size);
  const name = order === "kept" ? "ticks.churn" : "ticks.churn-shuffled";
  const judged = fleet === BAR_FLEET;
  bench.report({
    name: `${name}.cpu`,
    fleet,
    unit: "us",
    value: median(ticked.map(({ cpuMicros }) => cpuMicros)),
    baseline: median(parsed),
    ratio: median(ticked.map(({ cpuMicros }, at) => cpuMicros / (parsed[at] ?? Number.NaN))),
    against: "JSON.parse of all replies",
    bar: judged ? CPU_BAR : undefined,
  });
  for (const [kind, listOf, parts] of DELAYS) {
    const inTicks = waits(ticked.flatMap(listOf));
    const atRest = waits(idle.flatMap(listOf));
    for (const [part, q, bar] of parts) {
      bench.report({
        name: `${name}.${kind}-${part}`,
        fleet,
        unit: "ms",
        value: quantile(inTicks, q),
        baseline: quantile(atRest, q),
        against: "the loop at rest",
        bar: judged ? bar : undefined,
      });
    }
  }
  await createsMeanwhile(bench, rig, world, name, fleet);
}

/** What the inventory keeps: polled a few times, and never listed. */
async function heap(bench: Bench, rig: Rig, empty: number): Promise<void> {
  const size = largest(bench);
  const held = await rig.front.call("heap", undefined);
  const value = (held - empty) / (size.nodes * size.perNode);
  bench.report({ name: "ticks.heap-per-sandbox", fleet: sizeName(size), unit: "B", value });
}

/** Creates at a steady pace, with ticks and without. */
async function createsMeanwhile(bench: Bench, rig: Rig, world: World, name: string, fleet: string): Promise<void> {
  const lastMs = bench.quick ? 100 : 3000;
  const ticking: number[] = [];
  const still: number[] = [];
  using connection = await Connection.open(world.address);
  for (let round = 0; round < (bench.quick ? 1 : 3); round += 1) {
    still.push(...(await steady(connection, lastMs)));
    await rig.nodes.call("flip", undefined);
    await rig.front.call("keepTicking", { world: world.name, everyMs: TICK_EVERY_MS });
    ticking.push(...(await steady(connection, lastMs)));
    await rig.front.call("stopTicking", undefined);
  }
  for (const [part, q] of [
    ["p50", 0.5],
    ["p99", 0.99],
  ] as const) {
    bench.report({
      name: `${name}.create-${part}`,
      fleet,
      unit: "us",
      value: quantile(ticking, q),
      baseline: quantile(still, q),
      ratio: quantile(ticking, q) / quantile(still, q),
      against: "creates without ticks",
    });
  }
}

/** One create at a time, each begun when it is due: one that is held up makes those behind it wait as well. */
async function steady(connection: Connection, lastMs: number): Promise<number[]> {
  const micros: number[] = [];
  const began = performance.now();
  for (let due = began; due < began + lastMs; due += CREATE_EVERY_MS) {
    const wait = due - performance.now();
    if (wait > 0) {
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
    const from = Math.max(due, began);
    const reply: Reply = await connection.send(CREATE);
    if (reply.status !== 201) {
      throw new Error(`create answered ${reply.status}: ${reply.body}`);
    }
    micros.push((performance.now() - from) * 1000);
  }
  return micros;
}
