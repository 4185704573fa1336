import { createServer } from "@org/e2bcompat";
import { createStore } from "@org/scale";
import type { SandboxStore } from "@org/scale";
import { compare } from "../compare.ts";
import type { Contender } from "../compare.ts";
import { FakeNodes } from "../fake-nodes.ts";
import { FleetSource, NAMESPACE, sizeName } from "../fleet.ts";
import { bytesPerTime } from "../heap.ts";
import { compareViews, renderView, viewOf } from "../object-view.ts";
import type { ObjectView } from "../object-view.ts";
import { publishedFor } from "../published.ts";
import type { Bench, Suite } from "../suite.ts";

const PAGE = "/v2/sandboxes?limit=100";
const ALL = "/sandboxes";
/** The bar is promised for this fleet: a page of a small one has little to save. */
const PAGE_BAR_FLEET = "200x2000";
const PAGE_BAR = { limit: 0.02, on: "ratio", side: "at most" } as const;

/** Lists of the store and of the API. */
export const listSuite: Suite = {
  name: "list",
  what: "lists and pages of the store and of the API, in process",
  async run(bench) {
    for (const size of bench.fleets) {
      await lists(bench, new FleetSource(size));
    }
  },
};

function viewsInOrder(source: FleetSource): ObjectView[] {
  const views: ObjectView[] = [];
  for (const { node, entry } of source.all()) {
    views.push(viewOf(node, entry));
  }
  return views.sort(compareViews);
}

function repeat(once: () => unknown, times?: number, before?: () => unknown): Contender {
  return {
    times,
    before,
    run: async (count) => {
      let last: unknown;
      for (let time = 0; time < count; time += 1) {
        last = await once();
      }
      return last;
    },
  };
}

/** Calls the API as a listener would, without the sockets. */
function caller(store: SandboxStore, source: FleetSource): (path: string) => Promise<string> {
  const server = createServer(store, {
    inventory: source,
    domain: "sandbox.example.com",
    keys: [{ key: "e2b_bench", namespace: NAMESPACE }],
  });
  return async (path) => {
    const response = await server.fetch(
      new Request(`http://localhost${path}`, { headers: { "x-api-key": "e2b_bench" } }),
    );
    const body = await response.text();
    if (response.status !== 200) {
      throw new Error(`${path} answered ${response.status}: ${body}`);
    }
    return body;
  };
}

async function lists(bench: Bench, source: FleetSource): Promise<void> {
  const { effort } = bench;
  const fleet = sizeName(source.size);
  const sortAndView = repeat(() => viewsInOrder(source), 1);
  const sortAndRender = repeat(() => JSON.stringify(viewsInOrder(source).map(renderView)), 1);

  const store = createStore(source);
  const call = caller(store, source);
  const churned = createStore(source);
  const callChurned = caller(churned, source);
  const churn = (): void => source.churn();

  const written = createStore(source, { clients: new FakeNodes({ release: () => Promise.resolve() }) });
  const callWritten = caller(written, source);
  const ids = [...source.all()].map(({ node, entry }) => ({ node, id: entry.id }));
  let next = 0;
  const write = async (): Promise<void> => {
    const { node, id } = ids[next] ?? { node: "", id: "" };
    next = (next + 1) % ids.length;
    await written.release(node, id);
  };

  const page = repeat(() => call(PAGE));
  const api = await compare(
    {
      page,
      churned: repeat(() => callChurned(PAGE), 1, churn),
      written: repeat(() => callWritten(PAGE), 1, write),
      all: repeat(() => call(ALL), 1),
      whole: sortAndRender,
    },
    effort,
  );
  const unit = "us";
  const rendered = {
    fleet,
    unit,
    baseline: api.micros("whole"),
    against: "sorting and rendering the whole list",
  } as const;
  for (const [name, key, bar] of [
    ["list.page-100", "page", PAGE_BAR],
    ["list.page-100.after-churn", "churned", undefined],
    ["list.page-100.after-write", "written", undefined],
    ["list.all", "all", undefined],
  ] as const) {
    bench.report({
      ...rendered,
      name,
      value: api.micros(key),
      ratio: api.ratio(key, "whole"),
      bar: fleet === PAGE_BAR_FLEET ? bar : undefined,
    });
  }
  bench.report({ name: "list.page-100.heap", fleet, unit: "B", value: await bytesPerTime(page.run) });
  const own = await compare(
    {
      part: repeat(() => store.list({ namespace: NAMESPACE })),
      first: repeat(() => createStore(source).list(), 1),
      churned: repeat(() => churned.list(), 1, churn),
      whole: sortAndView,
    },
    effort,
  );
  const sorted = {
    fleet,
    unit,
    baseline: own.micros("whole"),
    against: "sorting the views of the whole list",
  } as const;
  for (const [name, key] of [
    ["list.page-100.store-part", "part"],
    ["store.list.first", "first"],
    ["store.list.after-churn", "churned"],
  ] as const) {
    bench.report({
      ...sorted,
      name,
      value: own.micros(key),
      ratio: own.ratio(key, "whole"),
      published: publishedFor(name, fleet),
    });
  }
}
