import { mock } from "node:test";
import { createStore } from "@org/scale";
import type { SandboxEvent, SandboxQueries, WatchOptions } from "@org/scale";
import { compare } from "../compare.ts";
import type { Contender } from "../compare.ts";
import { FleetSource, NAMESPACE, sizeName } from "../fleet.ts";
import { viewOf } from "../object-view.ts";
import type { ObjectView } from "../object-view.ts";
import { publishedFor } from "../published.ts";
import type { Bench, Suite } from "../suite.ts";

const POLL_MS = 1000;
const QUIET_TICK = { limit: 10, on: "value", side: "at most" } as const;
const AGAINST = "viewing the fleet again and comparing it by name";

/** Ticks of watches. */
export const watchSuite: Suite = {
  name: "watch",
  what: "ticks of a watch: nothing new, one per cent replaced, and pinned to one name",
  async run(bench) {
    // Ticks come when they are measured, not when a second has passed.
    mock.timers.enable({ apis: ["setInterval"] });
    try {
      for (const size of bench.fleets) {
        await ticks(bench, new FleetSource(size));
      }
    } finally {
      mock.timers.reset();
    }
  },
};

/** A watch that has told what was there. */
class Watched implements AsyncDisposable {
  readonly #events: AsyncIterator<SandboxEvent>;

  private constructor(events: AsyncIterator<SandboxEvent>) {
    this.#events = events;
  }

  static async begin(queries: SandboxQueries, options: WatchOptions): Promise<Watched> {
    const watched = new Watched(queries.watch({ ...options, bookmark: true })[Symbol.asyncIterator]());
    for (;;) {
      const next = await watched.#events.next();
      if (next.done === true) {
        throw new Error("the watch ended before its bookmark");
      }
      if (next.value.type === "BOOKMARK") {
        return watched;
      }
    }
  }

  /** Reads so many events. */
  async take(count: number): Promise<SandboxEvent | undefined> {
    let last: SandboxEvent | undefined;
    for (let at = 0; at < count; at += 1) {
      const next = await this.#events.next();
      if (next.done === true) {
        throw new Error("the watch ended");
      }
      last = next.value;
    }
    return last;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#events.return?.();
  }
}

/** What a watch without any help does in a tick: looks at everything and compares it with what it told last. */
function compareAll(source: FleetSource): Contender {
  let told = new Map<string, ObjectView>();
  return {
    times: 1,
    before: () => source.churn(),
    run: () => {
      const now = new Map<string, ObjectView>();
      let changes = 0;
      for (const { node, entry } of source.all()) {
        const view = viewOf(node, entry);
        now.set(entry.name, view);
        const before = told.get(entry.name);
        if (before === undefined || before.phase !== view.phase || before.deadline !== view.deadline) {
          changes += 1;
        }
      }
      for (const name of told.keys()) {
        changes += now.has(name) ? 0 : 1;
      }
      told = now;
      return changes;
    },
  };
}

async function ticks(bench: Bench, source: FleetSource): Promise<void> {
  const fleet = sizeName(source.size);
  const still = new FleetSource(source.size);
  const fixed = createStore(still);
  const store = createStore(source);
  await using all = await Watched.begin(store, { namespace: NAMESPACE });
  await using resting = await Watched.begin(fixed, { namespace: NAMESPACE });
  const name = source.last().name.slice(NAMESPACE.length + 1);
  const lone = new FleetSource(source.size);
  await using pinned = await Watched.begin(createStore(lone), {
    namespace: NAMESPACE,
    fieldSelector: `metadata.name=${name}`,
  });
  // A tick drives every watch there is: those that do not count in a lane see nothing new and cost next to nothing.
  const tick = (): void => mock.timers.tick(POLL_MS);
  const quiet: Contender = {
    before: () => still.confirm(),
    run: (times) => {
      for (let time = 0; time < times; time += 1) {
        tick();
      }
      return resting;
    },
  };
  const churned: Contender = {
    times: 1,
    before: () => source.churn(),
    run: () => {
      tick();
      return all.take(source.replaced * 2);
    },
  };
  const one: Contender = {
    times: 1,
    before: () => lone.churn(),
    run: () => {
      tick();
      return pinned;
    },
  };
  const costs = await compare({ quiet, churned, one, whole: compareAll(new FleetSource(source.size)) }, bench.effort);
  for (const [figure, key] of [
    ["watch.tick.unchanged", "quiet"],
    ["watch.tick.churn", "churned"],
    ["watch.tick.pinned", "one"],
  ] as const) {
    bench.report({
      name: figure,
      fleet,
      unit: "us",
      value: costs.micros(key),
      baseline: costs.micros("whole"),
      ratio: costs.ratio(key, "whole"),
      against: AGAINST,
      bar: key === "quiet" ? QUIET_TICK : undefined,
      published: publishedFor(figure, fleet),
    });
  }
}
