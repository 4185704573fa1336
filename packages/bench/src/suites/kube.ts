import { createSandboxReads } from "@org/sandbox-apiserver";
import type { ReadRequest, SandboxReads, SandboxResource } from "@org/sandbox-apiserver";
import { createStore } from "@org/scale";
import { compare } from "../compare.ts";
import type { Contender } from "../compare.ts";
import { FleetSource, sizeName } from "../fleet.ts";
import type { FleetSize } from "../fleet.ts";
import { collectGarbage } from "../heap.ts";
import { LatenessMeter } from "../lateness.ts";
import { viewOf } from "../object-view.ts";
import { publishedFor } from "../published.ts";
import { median } from "../statistics.ts";
import type { Bench, Suite } from "../suite.ts";

/** The fleet that the bars are promised for. */
const FLEET: FleetSize = { nodes: 200, perNode: 250 };
const WATCHERS = 100;
const NEWLINE = 0x0a;

/** The reads of the aggregated API. */
export const kubeSuite: Suite = {
  name: "kube",
  what: "lists, replies and watch ticks of the aggregated API, in process",
  async run(bench) {
    const size = bench.quick ? (bench.fleets[0] ?? FLEET) : FLEET;
    await lists(bench, size);
    await replies(bench, size);
    await ticks(bench, size);
  },
};

const NEGOTIATED: ReadRequest["negotiated"] = {
  format: "json",
  as: "object",
  metaVersion: "v1",
  pretty: false,
  includeObject: "Metadata",
};

function request(signal: AbortSignal, query = ""): ReadRequest {
  return { query: new URLSearchParams(query), negotiated: NEGOTIATED, signal };
}

/** What a list costs that asks every node and makes every object anew. */
function rebuilt(source: FleetSource, reads: SandboxReads): SandboxResource[] {
  const objects: SandboxResource[] = [];
  for (const { node, entry } of source.all()) {
    objects.push(reads.object(viewOf(node, entry)));
  }
  return objects.sort((a, b) => compareText(a.metadata.name, b.metadata.name));
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

async function lists(bench: Bench, size: FleetSize): Promise<void> {
  const source = new FleetSource(size);
  const reads = createSandboxReads({ store: createStore(source) });
  const churn = (): void => source.churn();
  const costs = await compare(
    {
      churned: { times: 1, before: churn, run: () => reads.version() },
      rebuilt: { times: 1, run: () => rebuilt(source, reads) },
    },
    bench.effort,
  );
  const fleet = sizeName(size);
  bench.report({
    name: "kube.list.after-churn",
    fleet,
    unit: "us",
    value: costs.micros("churned"),
    baseline: costs.micros("rebuilt"),
    ratio: costs.ratio("churned", "rebuilt"),
    against: "making every object of the fleet anew",
    bar: { limit: 0.25, on: "ratio", side: "at most" },
    published: publishedFor("kube.list", fleet),
  });
}

/** Reads a body to its end. */
async function drain(response: Response): Promise<number> {
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
  }
  return bytes;
}

async function replies(bench: Bench, size: FleetSize): Promise<void> {
  const { signal } = new AbortController();
  const source = new FleetSource(size);
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  const reads = createSandboxReads({ store: createStore(source) });
  const asked = request(signal);
  const reply = async (): Promise<number> => drain(await reads.list(asked));
  const bytes = await reply();
  collectGarbage();
  const held = process.memoryUsage().heapUsed - before;
  const fleet = sizeName(size);
  const sandboxes = size.nodes * size.perNode;
  const list = JSON.parse(await (await reads.list(asked)).text()) as object;
  const page = request(signal, "limit=500");
  const churn = (): void => source.churn();
  const costs = await compare(
    {
      reply: { times: 1, run: reply },
      churned: { times: 1, before: churn, run: reply },
      page: { run: repeat(async () => drain(await reads.list(page))) },
      stringified: { times: 1, run: () => JSON.stringify(list) },
    },
    bench.effort,
  );
  for (const [name, key] of [
    ["kube.reply", "reply"],
    ["kube.reply.after-churn", "churned"],
    ["kube.reply.page-500", "page"],
  ] as const) {
    bench.report({
      name,
      fleet,
      unit: "us",
      value: costs.micros(key),
      baseline: costs.micros("stringified"),
      ratio: costs.ratio(key, "stringified"),
      against: "JSON.stringify of the whole list",
      bar: key === "page" ? undefined : { limit: 0.5, on: "ratio", side: "at most" },
    });
  }
  bench.report({ name: "kube.reply.bytes-per-sandbox", fleet, unit: "B", value: bytes / sandboxes });
  bench.report({ name: "kube.heap-per-sandbox", fleet, unit: "B", value: held / sandboxes });
  await promptness(bench, size, reads, source, asked);
}

/** Processor time that this thread took so far: its own doing alone, also on a busy machine. */
function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

function repeat(once: () => Promise<unknown>): Contender["run"] {
  return async (times) => {
    let last: unknown;
    for (let time = 0; time < times; time += 1) {
      last = await once();
    }
    return last;
  };
}

/** When the first byte comes, and how long others wait while a reply is made. */
async function promptness(
  bench: Bench,
  size: FleetSize,
  reads: SandboxReads,
  source: FleetSource,
  asked: ReadRequest,
): Promise<void> {
  const firsts: number[] = [];
  const ownFirsts: number[] = [];
  const blocks: number[] = [];
  for (let round = 0; round < (bench.quick ? 2 : 15); round += 1) {
    source.churn();
    const meter = new LatenessMeter();
    meter.start();
    await new Promise((resolve) => setTimeout(resolve, 5));
    const began = performance.now();
    const spent = threadMs();
    const reader = (await reads.list(asked)).body?.getReader();
    await reader?.read();
    firsts.push(performance.now() - began);
    ownFirsts.push(threadMs() - spent);
    while ((await reader?.read())?.done === false) {
      // Only the time counts.
    }
    blocks.push(Math.max(...meter.stop().busy));
  }
  const fleet = sizeName(size);
  bench.report({
    name: "kube.reply.first-byte",
    fleet,
    unit: "ms",
    value: median(firsts),
    bar: { limit: 40, on: "value", side: "at most" },
  });
  bench.report({ name: "kube.reply.first-byte-busy", fleet, unit: "ms", value: median(ownFirsts) });
  bench.report({
    name: "kube.reply.longest-block",
    fleet,
    unit: "ms",
    value: median(blocks),
    bar: { limit: 20, on: "value", side: "at most" },
  });
}

/** Watches of everything that have told what was there. */
class Watched {
  readonly source: FleetSource;
  readonly #bodies: ReadableStreamDefaultReader<Uint8Array>[] = [];
  readonly #reads: SandboxReads;

  constructor(size: FleetSize) {
    this.source = new FleetSource(size);
    this.#reads = createSandboxReads({ store: createStore(this.source) });
  }

  async open(watchers: number, signal: AbortSignal): Promise<this> {
    for (let watcher = 0; watcher < watchers; watcher += 1) {
      const version = this.#reads.version();
      const { body } = await this.#reads.watch(request(signal, `resourceVersion=${version}`));
      if (body === null) {
        throw new Error("the watch has no body");
      }
      this.#bodies.push(body.getReader());
    }
    return this;
  }

  /** Reads this many events of each watch. */
  async take(events: number): Promise<number> {
    const taken = await Promise.all(this.#bodies.map((body) => takeFrom(body, events)));
    return taken.length;
  }

  close(): void {
    this.#reads.close();
  }
}

async function takeFrom(body: ReadableStreamDefaultReader<Uint8Array>, events: number): Promise<void> {
  for (let seen = 0; seen < events;) {
    const { done, value } = await body.read();
    if (done) {
      throw new Error("the watch ended");
    }
    for (let at = value.indexOf(NEWLINE); at !== -1; at = value.indexOf(NEWLINE, at + 1)) {
      seen += 1;
    }
  }
}

/** What a watch does by itself: makes every object and compares it with what it told last. */
function rebuildAndCompare(source: FleetSource, reads: SandboxReads): Contender {
  let told = new Map<string, SandboxResource>();
  return {
    times: 1,
    before: () => source.churn(),
    run: () => {
      const now = new Map<string, SandboxResource>();
      let changes = 0;
      for (const object of rebuilt(source, reads)) {
        const { name, namespace, resourceVersion } = object.metadata;
        const key = `${namespace}/${name}`;
        now.set(key, object);
        changes += told.get(key)?.metadata.resourceVersion === resourceVersion ? 0 : 1;
      }
      for (const key of told.keys()) {
        changes += now.has(key) ? 0 : 1;
      }
      told = now;
      return changes;
    },
  };
}

async function ticks(bench: Bench, size: FleetSize): Promise<void> {
  const over = new AbortController();
  const one = await new Watched(size).open(1, over.signal);
  const many = await new Watched(size).open(WATCHERS, over.signal);
  const tick = (watched: Watched): Contender => ({
    times: 1,
    before: () => watched.source.churn(),
    run: () => watched.take(watched.source.replaced * 2),
  });
  const whole = new FleetSource(size);
  const reads = createSandboxReads({ store: createStore(whole) });
  const costs = await compare(
    { one: tick(one), many: tick(many), whole: rebuildAndCompare(whole, reads) },
    bench.effort,
  );
  const fleet = sizeName(size);
  bench.report({
    name: "kube.watch.tick",
    fleet,
    unit: "us",
    value: costs.micros("one"),
    baseline: costs.micros("whole"),
    ratio: costs.ratio("one", "whole"),
    against: "making every object of the fleet and comparing",
    bar: { limit: 0.1, on: "ratio", side: "at most" },
    published: publishedFor("kube.watch.tick", fleet),
  });
  bench.report({
    name: "kube.watch.tick-100-watchers",
    fleet,
    unit: "us",
    value: costs.micros("many"),
    baseline: costs.micros("one"),
    ratio: costs.ratio("many", "one"),
    against: "the tick of one watch",
    bar: { limit: 2, on: "ratio", side: "at most" },
  });
  one.close();
  many.close();
  over.abort();
}
