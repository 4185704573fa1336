import { createRandom, shuffled } from "../random.ts";
import { rowsOf, sizeName } from "../fleet.ts";
import type { FleetSize } from "../fleet.ts";
import { Connection } from "../load.ts";
import type { FrontCalls } from "../processes/front.ts";
import type { Remote } from "../remote.ts";
import { apiRequest, Rig, startFront } from "../rig.ts";
import type { World } from "../rig.ts";
import { median, sum } from "../statistics.ts";
import { largest } from "../suite.ts";
import type { Bench, Suite } from "../suite.ts";

const ONE: FleetSize = { nodes: 1, perNode: 1 };
const BAR = { limit: 1.5, on: "ratio", side: "at most" } as const;

/** So many gets after a poll, every map has been made. */
const LATER = 12;

interface Verb {
  readonly name: string;
  readonly status: number;
  readonly request: (id: string) => string;
  /** Set when the sandbox is gone afterwards, until the next poll says that it is not. */
  readonly ends?: boolean;
}

const VERBS: readonly Verb[] = [
  { name: "get", status: 200, request: (id) => apiRequest("GET", `/sandboxes/${id}`) },
  { name: "pause", status: 204, request: (id) => apiRequest("POST", `/sandboxes/${id}/pause`, {}) },
  { name: "connect", status: 200, request: (id) => apiRequest("POST", `/v2/sandboxes/${id}/connect`, { timeout: 60 }) },
  { name: "kill", status: 204, request: (id) => apiRequest("DELETE", `/sandboxes/${id}`), ends: true },
];

/** One sandbox among very many costs what it costs alone. */
export const verbsSuite: Suite = {
  name: "verbs",
  what: "get, pause, connect and kill over loopback in the largest fleet and in one of 1 sandbox",
  async run(bench) {
    await using rig = new Rig();
    // A process of its own: the large fleet's garbage is a part of its cost, and none of the small one's.
    await using small = startFront();
    const size = largest(bench);
    const many: Side = {
      front: rig.front,
      world: await rig.open("many", { ...size, order: "kept", warm: [5] }),
      ids: shuffled(idsOf(size), createRandom(11)),
    };
    const one: Side = {
      front: small,
      world: await rig.open("one", { ...ONE, order: "kept", warm: [5] }, small),
      ids: idsOf(ONE),
    };
    for (const verb of VERBS) {
      await measure(bench, sizeName(size), verb, many, one);
    }
    await afterPoll(bench, rig, sizeName(size), many);
  },
};

interface Side {
  readonly front: Remote<FrontCalls>;
  readonly world: World;
  /** Public ids. The large fleet has enough of them that none is asked about twice. */
  readonly ids: string[];
}

function idsOf({ nodes, perNode }: FleetSize): string[] {
  return Array.from({ length: nodes }, (_node, node) =>
    rowsOf(node, perNode).map((row) => row.id.replace("_", "-")),
  ).flat();
}

/** What one request cost, in microseconds. */
interface Cost {
  /** Until the reply was there. */
  readonly waited: number;
  /** Processor time of the front. */
  readonly spent: number;
}

/** One request about a sandbox that was not asked about before, where there are enough. */
async function once({ front, world, ids }: Side, connection: Connection, verb: Verb): Promise<Cost> {
  const id = ids.length > 1 ? ids.pop() : ids[0];
  if (verb.ends === true && ids.length === 1) {
    await front.call("tick", world.name);
  }
  // Asking costs something itself: how much, the first two answers tell.
  const asked = await front.call("cpu", undefined);
  const before = await front.call("cpu", undefined);
  const began = performance.now();
  const reply = await connection.send(verb.request(id ?? ""));
  const waited = (performance.now() - began) * 1000;
  const spent = (await front.call("cpu", undefined)) - before - (before - asked);
  if (reply.status !== verb.status) {
    throw new Error(`${verb.name} answered ${reply.status}: ${reply.body}`);
  }
  return { waited, spent };
}

function ratios(values: readonly number[], baselines: readonly number[]): number {
  return median(values.map((value, at) => value / (baselines[at] ?? Number.NaN)));
}

async function measure(bench: Bench, fleet: string, verb: Verb, many: Side, one: Side): Promise<void> {
  using toMany = await Connection.open(many.world.address);
  using toOne = await Connection.open(one.world.address);
  const rounds = bench.quick ? 1 : 7;
  const times = bench.quick ? 3 : 150;
  const inMany: Cost[][] = [];
  const inOne: Cost[][] = [];
  for (let round = -1; round < rounds; round += 1) {
    const costsOfMany: Cost[] = [];
    const costsOfOne: Cost[] = [];
    for (let time = 0; time < times; time += 1) {
      costsOfOne.push(await once(one, toOne, verb));
      costsOfMany.push(await once(many, toMany, verb));
    }
    if (round >= 0) {
      inMany.push(costsOfMany);
      inOne.push(costsOfOne);
    }
  }
  const shared = { fleet, unit: "us", against: "the same with 1 sandbox", bar: BAR } as const;
  const p50 = (costs: readonly Cost[]): number => median(costs.map(({ waited }) => waited));
  const cpu = (costs: readonly Cost[]): number => sum(costs.map(({ spent }) => spent)) / costs.length;
  for (const [part, costOf] of [
    ["p50", p50],
    ["front-cpu", cpu],
  ] as const) {
    const values = inMany.map(costOf);
    const baselines = inOne.map(costOf);
    bench.report({
      ...shared,
      name: `verbs.${verb.name}.${part}`,
      value: median(values),
      baseline: median(baselines),
      ratio: ratios(values, baselines),
    });
  }
}

/** The first read after a poll that changed something finds that its maps are to be made anew. */
async function afterPoll(bench: Bench, rig: Rig, fleet: string, many: Side): Promise<void> {
  using connection = await Connection.open(many.world.address);
  const [get] = VERBS;
  if (get === undefined) {
    return;
  }
  const first: number[] = [];
  const later: number[] = [];
  for (let round = 0; round < (bench.quick ? 1 : 7); round += 1) {
    await rig.nodes.call("flip", undefined);
    await many.front.call("tick", many.world.name);
    const costs: number[] = [];
    for (let time = 0; time < LATER; time += 1) {
      costs.push((await once(many, connection, get)).waited);
    }
    first.push(costs[0] ?? Number.NaN);
    later.push(costs.at(-1) ?? Number.NaN);
  }
  bench.report({
    name: "verbs.get.first-after-poll",
    fleet,
    unit: "us",
    value: median(first),
    baseline: median(later),
    ratio: ratios(first, later),
    against: `the get ${LATER - 1} gets later`,
  });
}
