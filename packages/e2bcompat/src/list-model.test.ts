import type { InventoryEntry } from "@org/scale";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createFleet, IMAGE } from "./testing/fleet.ts";
import type { Fleet } from "./testing/fleet.ts";
import { asJavaScriptClient } from "./testing/metadata-encodings.ts";

const NODES = ["10.0.0.1:27777", "10.0.0.2:27777", "10.0.0.3:27777"];
const OTHER_IMAGE = "other:1";
/** The first moment of the sandboxes that other processes make. They come in steps of the granularity of clocks, or less. */
const EPOCH_MS = Date.UTC(2026, 0, 1);

interface Filter {
  readonly order: "asc" | "desc";
  readonly limit: number;
  readonly state: "running" | "paused" | undefined;
  readonly template: "base" | typeof OTHER_IMAGE | undefined;
  readonly colour: "red" | "blue" | undefined;
  /** Steps of a second since {@link EPOCH_MS}. */
  readonly startedAfter: number | undefined;
}

type Step =
  | { readonly kind: "create"; readonly colour: "red" | "blue"; readonly jitterMs: number }
  | { readonly kind: "elsewhere"; readonly node: number; readonly at: number; readonly image: string }
  | { readonly kind: "kill" | "pause" | "connect" | "vanish"; readonly which: number }
  | { readonly kind: "poll"; readonly node: number | "all" }
  | { readonly kind: "walk"; readonly filter: Filter }
  | { readonly kind: "page"; readonly which: number };

const filters: fc.Arbitrary<Filter> = fc.record({
  order: fc.constantFrom("asc" as const, "desc" as const),
  limit: fc.integer({ min: 1, max: 4 }),
  state: fc.option(fc.constantFrom("running" as const, "paused" as const), { nil: undefined }),
  template: fc.option(fc.constantFrom("base" as const, OTHER_IMAGE), { nil: undefined, freq: 1 }),
  colour: fc.option(fc.constantFrom("red" as const, "blue" as const), { nil: undefined, freq: 1 }),
  startedAfter: fc.option(fc.integer({ min: 0, max: 3 }), { nil: undefined, freq: 1 }),
});
const which = fc.nat({ max: 20 });
const anyNode = fc.nat({ max: NODES.length - 1 });
const elsewhere: fc.Arbitrary<Step> = fc.record({
  kind: fc.constant("elsewhere" as const),
  node: anyNode,
  // Many begin in the same millisecond.
  at: fc.integer({ min: 0, max: 8 }),
  image: fc.constantFrom(IMAGE, OTHER_IMAGE),
});
const creates: fc.Arbitrary<Step> = fc.record({
  kind: fc.constant("create" as const),
  colour: fc.constantFrom("red" as const, "blue" as const),
  jitterMs: fc.integer({ min: -40, max: 40 }),
});
const steps: fc.Arbitrary<readonly Step[]> = fc
  .tuple(
    fc.array(fc.oneof(creates, elsewhere), { minLength: 2, maxLength: 12 }),
    fc.array(
      fc.oneof(
        { weight: 3, arbitrary: creates },
        elsewhere,
        fc.record({ kind: fc.constantFrom("kill" as const, "pause" as const, "connect" as const), which }),
        fc.record({ kind: fc.constant("vanish" as const), which }),
        fc.record({ kind: fc.constant("poll" as const), node: anyNode }),
        { weight: 2, arbitrary: fc.constant({ kind: "poll" as const, node: "all" as const }) },
        fc.record({ kind: fc.constant("walk" as const), filter: filters }),
        { weight: 3, arbitrary: fc.record({ kind: fc.constant("page" as const), which }) },
      ),
      { minLength: 4, maxLength: 25 },
    ),
    filters,
  )
  .map(([before, then, filter]) => [...before, { kind: "walk" as const, filter }, ...then]);

/** One client that goes from page to page, and what it must and may see. */
interface Walk {
  readonly filter: Filter;
  readonly seen: string[];
  /** Those that fitted at every moment since the first page was asked for, and at any. */
  always: ReadonlySet<string>;
  readonly ever: Set<string>;
  token: string | null;
}

type Row = Readonly<Record<string, string & { readonly colour?: string }>>;

/** What this process shows at a moment: the whole list is the model, without filters and without pages. */
async function everything(fleet: Fleet): Promise<readonly Row[]> {
  return (await fleet.send("GET", "/sandboxes")).body as readonly Row[];
}

function fitting(rows: readonly Row[], { state, template, colour, startedAfter }: Filter): ReadonlySet<string> {
  const image = template === "base" ? IMAGE : template;
  return new Set(
    rows
      .filter(
        (row) =>
          (state === undefined || row["state"] === state) &&
          (image === undefined || row["templateID"] === image) &&
          (colour === undefined || row["metadata"]?.colour === colour) &&
          (startedAfter === undefined || Date.parse(row["startedAt"] ?? "") >= EPOCH_MS + startedAfter * 1000),
      )
      .map((row) => row["sandboxID"] ?? ""),
  );
}

function queryOf({ order, limit, state, template, colour, startedAfter }: Filter, token: string): string {
  const after = startedAfter === undefined ? "" : new Date(EPOCH_MS + startedAfter * 1000).toISOString();
  return [
    `order=${order}&limit=${limit}`,
    token === "" ? "" : `&nextToken=${token}`,
    state === undefined ? "" : `&state=${state}`,
    template === undefined ? "" : `&template=${encodeURIComponent(template)}`,
    colour === undefined ? "" : `&metadata=${asJavaScriptClient([["colour", colour]])}`,
    after === "" ? "" : `&startedAfter=${after}`,
  ].join("");
}

class Story {
  readonly fleet: Fleet;
  readonly walks: Walk[] = [];
  #made = 0;

  constructor() {
    this.fleet = createFleet();
    this.fleet.source.remove(this.fleet.node.address);
    this.poll("all");
  }

  poll(node: number | "all"): void {
    const pools = [{ template: IMAGE, net: "none", size: "small", warm: 1000, target: 1000 }];
    for (const address of node === "all" ? NODES : NODES.slice(node, node + 1)) {
      this.fleet.source.put(this.fleet.nodes.node(address).inventory({ pools }));
    }
  }

  /** What nodes hold, whether or not anybody was told. */
  rows(): readonly { readonly address: string; readonly entry: InventoryEntry }[] {
    return NODES.flatMap((address) =>
      this.fleet.nodes.node(address).sandboxes.map(({ entry }) => ({ address, entry })),
    );
  }

  async take(step: Step): Promise<void> {
    const { fleet } = this;
    switch (step.kind) {
      case "create": {
        const id = await fleet.create({ metadata: { colour: step.colour } });
        // What a node says of the moment of a claim need not be what we made of its answer.
        const raw = id.replace("sb-", "sb_");
        for (const address of NODES) {
          const node = fleet.nodes.node(address);
          const row = node.sandboxes.find(({ entry }) => entry.id === raw);
          const claimedMs = row?.entry.claimedAt?.getTime();
          if (row !== undefined && claimedMs !== undefined) {
            node.hold({ ...row, entry: { ...row.entry, claimedAt: new Date(claimedMs + step.jitterMs) } });
          }
        }
        break;
      }
      case "elsewhere": {
        this.#made += 1;
        const id = `sb_ffff${this.#made.toString(16).padStart(12, "0")}`;
        const claimedAt = new Date(EPOCH_MS + step.at * 500);
        const deadline = new Date(EPOCH_MS + 10 * 365 * 86_400_000);
        const entry = {
          id,
          name: `ns1/e2b-${id}`,
          claimRef: `ns1/e2b-${id}`,
          claimedAt,
          deadline,
          template: step.image,
        };
        const held = { ...entry, net: "none", size: "small", phase: "Running", metadata: { colour: "red" } } as const;
        fleet.nodes.node(NODES[step.node] ?? "").hold({ archived: false, token: "t", entry: held });
        break;
      }
      case "kill":
      case "pause":
      case "connect":
      case "vanish": {
        const rows = this.rows();
        const row = rows[step.which % Math.max(1, rows.length)];
        if (row === undefined) {
          break;
        }
        if (step.kind === "vanish") {
          fleet.nodes.node(row.address).lose(row.entry.id);
        } else {
          const path = `/sandboxes/${row.entry.id}`;
          await (step.kind === "kill" ? fleet.send("DELETE", path) : fleet.send("POST", `${path}/${step.kind}`));
        }
        break;
      }
      case "poll":
        this.poll(step.node);
        break;
      case "walk":
        this.walks.push({
          filter: step.filter,
          seen: [],
          always: fitting(await everything(fleet), step.filter),
          ever: new Set(),
          token: "",
        });
        break;
      case "page":
      default: {
        const walk = this.walks[step.which % this.walks.length];
        await (walk === undefined ? undefined : this.page(walk));
      }
    }
    if (step.kind === "page" || this.walks.length === 0) {
      // Looking changes nothing.
      return;
    }
    const rows = await everything(fleet);
    for (const walk of this.walks) {
      const now = fitting(rows, walk.filter);
      walk.always = new Set([...walk.always].filter((id) => now.has(id)));
      now.forEach((id) => walk.ever.add(id));
    }
  }

  async page(walk: Walk): Promise<void> {
    if (walk.token === null) {
      return;
    }
    const reply = await this.fleet.send("GET", `/v2/sandboxes?${queryOf(walk.filter, walk.token)}`);
    expect(reply.status).toBe(200);
    const ids = (reply.body as { readonly sandboxID: string }[]).map(({ sandboxID }) => sandboxID);
    expect(ids.length).toBeLessThanOrEqual(walk.filter.limit);
    walk.token = reply.headers.get("x-next-token");
    // A token promises more, and a full page is given before.
    expect(walk.token === null || ids.length === walk.filter.limit).toBe(true);
    walk.seen.push(...ids);
  }

  async finish(): Promise<void> {
    for (const walk of this.walks) {
      while (walk.token !== null) {
        await this.page(walk);
      }
    }
  }
}

describe("pages while sandboxes come, go and sleep", () => {
  it("show no sandbox twice, miss none that was there all the time, and none that never fitted", async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (plan) => {
        const story = new Story();
        for (const step of plan) {
          await story.take(step);
        }
        await story.finish();
        for (const { filter, seen, always, ever } of story.walks) {
          const about = JSON.stringify(filter);
          expect(new Set(seen).size, about).toBe(seen.length);
          expect(
            [...always].filter((id) => !seen.includes(id)),
            about,
          ).toStrictEqual([]);
          expect(
            seen.filter((id) => !ever.has(id)),
            about,
          ).toStrictEqual([]);
        }
      }),
      { numRuns: 25 },
    );
  });
});
