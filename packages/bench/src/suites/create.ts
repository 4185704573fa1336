import type { Figure } from "../figures.ts";
import { POOL } from "../fleet.ts";
import { requestText } from "../http-messages.ts";
import { allGood, load } from "../load.ts";
import type { LoadResult } from "../load.ts";
import { publishedFor } from "../published.ts";
import { apiRequest, Rig } from "../rig.ts";
import type { World } from "../rig.ts";
import { median, quantile } from "../statistics.ts";
import type { Bench, Suite } from "../suite.ts";

const CREATE = apiRequest("POST", "/v2/sandboxes", { templateID: POOL.template, timeout: 300 });
const CLAIM = requestText("POST", "/v1/claim", {
  headers: { authorization: "Bearer bench" },
  body: { template: POOL.template, net: "none", size: "small", ttl_seconds: 300, claim_ref: "default/e2b-asked" },
});
const NODES = 20;
const SPREAD = 500;
const WARM = 1_000_000;
const ONE_MS = { limit: 1000, on: "value", side: "at most" } as const;

/** Creating sandboxes through the whole service, with nodes in another process. */
export const createSuite: Suite = {
  name: "create",
  what: "creates through the whole service over loopback, its redirect hop and its spread",
  async run(bench) {
    await using rig = new Rig();
    const even = await rig.open("even", { nodes: NODES, perNode: 100, order: "kept", warm: [WARM] });
    await oneClient(bench, even);
    for (const clients of [64, 256]) {
      await manyClients(bench, rig, even, clients);
    }
    await redirects(bench, rig);
    await spread(bench, rig, even);
  },
};

function create(world: World, clients: number, total: number): Promise<LoadResult> {
  return load(world.address, { clients, total, status: 201, request: () => CREATE });
}

/** Claims straight at one node. */
function claim(world: World, clients: number, total: number): Promise<LoadResult> {
  const [first = ""] = world.nodes;
  return load(first, { clients, total, status: 200, request: () => CLAIM });
}

function rounds(bench: Bench): number {
  return bench.quick ? 1 : 7;
}

async function oneClient(bench: Bench, world: World): Promise<void> {
  const total = bench.quick ? 20 : 400;
  await create(world, 1, total);
  await claim(world, 1, total);
  const through: number[] = [];
  const direct: number[] = [];
  for (let round = 0; round < rounds(bench); round += 1) {
    const results = [await claim(world, 1, total), await create(world, 1, total)] as const;
    allGood(results);
    direct.push(median(results[0].micros));
    through.push(median(results[1].micros));
  }
  const shared = { fleet: "20x100", unit: "us", baseline: median(direct), against: "the node's own claim" } as const;
  bench.report({
    ...shared,
    name: "create.p50-added",
    value: median(through.map((value, at) => value - (direct[at] ?? Number.NaN))),
    bar: ONE_MS,
  });
  bench.report({
    ...shared,
    name: "create.p50",
    value: median(through),
    ratio: median(through.map((value, at) => value / (direct[at] ?? Number.NaN))),
  });
}

async function manyClients(bench: Bench, rig: Rig, world: World, clients: number): Promise<void> {
  const total = bench.quick ? clients * 2 : 3000;
  await create(world, clients, total);
  await claim(world, clients, total);
  const through: number[] = [];
  const direct: number[] = [];
  const frontMicros: number[] = [];
  const p99: number[] = [];
  let errors = 0;
  for (let round = 0; round < rounds(bench); round += 1) {
    const claims = await claim(world, clients, total);
    const before = await rig.front.call("cpu", undefined);
    const creates = await create(world, clients, total);
    const spent = (await rig.front.call("cpu", undefined)) - before;
    await rig.front.call("tick", world.name);
    allGood([claims]);
    errors += creates.errors;
    direct.push((total / claims.wallMicros) * 1e6);
    through.push((total / creates.wallMicros) * 1e6);
    frontMicros.push(spent / total);
    p99.push(quantile(creates.micros, 0.99));
  }
  const name = `create.${clients}-clients`;
  const fleet = "20x100";
  bench.report({
    name: `${name}.rate`,
    fleet,
    unit: "/s",
    value: median(through),
    baseline: median(direct),
    ratio: median(through.map((value, at) => value / (direct[at] ?? Number.NaN))),
    against: "claims at one node, without the service",
    bar: { limit: 2500, on: "value", side: "at least" },
  });
  bench.report({ name: `${name}.front-cpu`, fleet, unit: "us", value: median(frontMicros) });
  // Load, service and nodes share the processors: what the service could do with one for itself.
  bench.report({ name: `${name}.rate-by-cpu`, fleet, unit: "/s", value: 1e6 / median(frontMicros) });
  bench.report({ name: `${name}.p99`, fleet, unit: "us", value: median(p99) });
  bench.report({
    name: `${name}.errors`,
    fleet,
    unit: "count",
    value: errors,
    bar: { limit: 0, on: "value", side: "at most" },
  });
}

async function redirects(bench: Bench, rig: Rig): Promise<void> {
  const total = bench.quick ? 20 : 400;
  // The first node says it is warm and sends everything on to the second, which is known but says it has nothing.
  const hop = await rig.open("hop", { nodes: 2, perNode: 100, order: "kept", warm: [WARM, 0], redirects: true });
  const hit = await rig.open("hit", { nodes: 2, perNode: 100, order: "kept", warm: [WARM, 0] });
  await create(hop, 1, total);
  await create(hit, 1, total);
  const hops: number[] = [];
  const hits: number[] = [];
  for (let round = 0; round < rounds(bench); round += 1) {
    const results = [await create(hit, 1, total), await create(hop, 1, total)] as const;
    allGood(results);
    hits.push(median(results[0].micros));
    hops.push(median(results[1].micros));
  }
  const delivered = await rig.nodes.call("delivered", hop.nodes);
  if (delivered[0] !== 0 || delivered[1] !== total * (rounds(bench) + 1)) {
    throw new Error(`the hop delivered ${delivered.join(" and ")}: not every create was redirected`);
  }
  const name = "create.redirect-added-p50";
  bench.report({
    name,
    fleet: "",
    unit: "us",
    value: median(hops.map((value, at) => value - (hits[at] ?? Number.NaN))),
    baseline: median(hits),
    against: "a warm hit",
    bar: ONE_MS,
    published: publishedFor(name, ""),
  });
}

async function spread(bench: Bench, rig: Rig, world: World): Promise<void> {
  const worst: number[] = [];
  for (let round = 0; round < rounds(bench); round += 1) {
    await rig.front.call("tick", world.name);
    const before = await rig.nodes.call("delivered", world.nodes);
    allGood([await create(world, 64, SPREAD)]);
    const after = await rig.nodes.call("delivered", world.nodes);
    const counts = after.map((count, at) => count - (before[at] ?? 0));
    worst.push(Math.max(...counts) / (SPREAD / world.nodes.length));
  }
  const figure: Figure = {
    name: "create.spread",
    fleet: "20x100",
    unit: "x",
    // The worst of the windows, not the middle one.
    value: Math.max(...worst),
    bar: { limit: 2, on: "value", side: "at most" },
  };
  bench.report(figure);
}
