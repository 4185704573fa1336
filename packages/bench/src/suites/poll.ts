import { MeshInventory } from "@org/meshinventory";
import type { NodeReader } from "@org/meshinventory";
import { compare } from "../compare.ts";
import type { Contender } from "../compare.ts";
import { nodeName, sizeName } from "../fleet.ts";
import type { FleetSize, Phase } from "../fleet.ts";
import { indexBody, infoBody } from "../node-replies.ts";
import type { RowOrder } from "../node-replies.ts";
import type { Bench, Suite } from "../suite.ts";

const TICK_BAR = { limit: 0.3, on: "ratio", side: "at most" } as const;
/** The fleet that the bar is promised for: on a small one the two requests outweigh the rows. */
const TICK_BAR_FLEET = "200x2000";
const NEVER_MS = 3_600_000;

/** Poll ticks over replies that are there already. */
export const pollSuite: Suite = {
  name: "poll",
  what: "poll ticks over replies in memory: what reading them costs",
  async run(bench) {
    for (const size of bench.fleets) {
      await ticks(bench, size);
    }
  },
};

/** Every node's two replies in both phases. */
class Replies {
  readonly #infos: ReadonlyMap<string, Buffer>;
  readonly #indexes: ReadonlyMap<string, readonly [Buffer, Buffer]>;
  phase: Phase = 0;

  constructor(size: FleetSize, order: RowOrder) {
    const names = Array.from({ length: size.nodes }, (_node, index) => nodeName(index));
    this.#infos = new Map(names.map((name) => [name, infoBody(name, names, size.perNode)]));
    this.#indexes = new Map(
      names.map((name, index) => [name, [indexBody(index, size, 0, order), indexBody(index, size, 1, order)]]),
    );
  }

  flip(): void {
    this.phase = this.phase === 0 ? 1 : 0;
  }

  /** Copies a reply to where the poller wants it, as a socket would. */
  readonly dial = (address: string): NodeReader => ({
    info: ({ into }) => Promise.resolve(copy(this.#infos.get(address), into)),
    sandboxes: ({ into }) => Promise.resolve(copy(this.#indexes.get(address)?.[this.phase], into)),
  });

  /** All replies of the present phase. */
  *all(): Iterable<Buffer> {
    yield* this.#infos.values();
    for (const bodies of this.#indexes.values()) {
      yield bodies[this.phase];
    }
  }
}

function copy(body: Buffer | undefined, into: Parameters<NodeReader["info"]>[0]["into"]): Buffer {
  if (body === undefined) {
    throw new Error("an unknown node was polled");
  }
  into.clear();
  into.append(body, 0, body.length);
  return into.view();
}

interface Polled extends AsyncDisposable {
  readonly mesh: MeshInventory;
  readonly replies: Replies;
}

async function poll(size: FleetSize, order: RowOrder): Promise<Polled> {
  const replies = new Replies(size, order);
  const stop = new AbortController();
  const { signal } = stop;
  const mesh = await MeshInventory.start({
    seeds: [nodeName(0)],
    dial: replies.dial,
    pollIntervalMs: NEVER_MS,
    signal,
  });
  if (mesh.listNodes().length !== size.nodes) {
    throw new Error("not every node answered the first poll");
  }
  return {
    mesh,
    replies,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await mesh.stopped;
    },
  };
}

function tick({ mesh }: Polled, before?: () => void): Contender {
  return { times: 1, before, run: () => mesh.tick() };
}

async function ticks(bench: Bench, size: FleetSize): Promise<void> {
  const fleet = sizeName(size);
  await using orderly = await poll(size, "kept");
  await using other = await poll(size, "shuffled");
  const parse: Contender = {
    times: 1,
    run: () => {
      let last: unknown;
      for (const body of orderly.replies.all()) {
        last = JSON.parse(body.toString("utf8"));
      }
      return last;
    },
  };
  const costs = await compare(
    {
      unchanged: tick(orderly),
      kept: tick(orderly, () => orderly.replies.flip()),
      shuffled: tick(other, () => other.replies.flip()),
      parse,
    },
    bench.effort,
  );
  for (const [name, key, bar] of [
    ["poll.tick.unchanged", "unchanged", undefined],
    ["poll.tick.churn", "kept", TICK_BAR],
    ["poll.tick.churn-shuffled", "shuffled", TICK_BAR],
  ] as const) {
    bench.report({
      name,
      fleet,
      value: costs.micros(key),
      unit: "us",
      baseline: costs.micros("parse"),
      ratio: costs.ratio(key, "parse"),
      against: "JSON.parse of all replies",
      bar: fleet === TICK_BAR_FLEET ? bar : undefined,
    });
  }
}
