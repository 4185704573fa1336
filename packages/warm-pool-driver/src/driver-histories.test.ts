import * as fc from "fast-check";
import { expect, test } from "vitest";
import { driveWarmPools } from "./driver.ts";
import { spread } from "./shares.ts";
import { FakeCluster, refusal, silence } from "./testing/fake-cluster.ts";
import { FakeFleet } from "./testing/fake-fleet.ts";
import { FakeTime } from "./testing/fake-time.ts";

const GROUP = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/default";
const POOLS = ["a", "b", "c"];
const TEMPLATES = ["t", "u"];
const IMAGES = ["python", "node"];
const NODES = ["n1", "n2", "n3"];

const FAULTS = ["well", "dies", "silent", "conflicts", "no templates", "a is cut off", "b is cut off"] as const;
type Fault = (typeof FAULTS)[number];

type Step =
  | { readonly do: "pool"; readonly name: string; readonly replicas: number; readonly template: string }
  | { readonly do: "template"; readonly name: string; readonly image: string }
  | { readonly do: "drop"; readonly path: string }
  | { readonly do: "nodes"; readonly names: readonly string[] }
  | { readonly do: "ill"; readonly names: readonly string[] }
  | { readonly do: "cluster"; readonly fault: Fault };

const one = <T>(values: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...values);
const steps: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant("pool" as const), name: one(POOLS), replicas: fc.nat(7), template: one(TEMPLATES) }),
  fc.record({ do: fc.constant("template" as const), name: one(TEMPLATES), image: one(IMAGES) }),
  fc.record({
    do: fc.constant("drop" as const),
    path: one([
      ...POOLS.map((name) => `sandboxwarmpools/${name}`),
      ...TEMPLATES.map((name) => `sandboxtemplates/${name}`),
    ]),
  }),
  fc.record({ do: fc.constant("nodes" as const), names: fc.subarray(NODES) }),
  fc.record({ do: fc.constant("ill" as const), names: fc.subarray(NODES) }),
  fc.record({
    do: fc.constant("cluster" as const),
    fault: one(FAULTS),
  }),
);

/** A cluster and a fleet under two drivers, and what they should come to. */
class History {
  readonly cluster = new FakeCluster();
  readonly fleet = new FakeFleet();
  readonly time = new FakeTime();
  readonly #ends = new AbortController();
  readonly #pools = new Map<string, { readonly replicas: number; readonly template: string }>();
  readonly #templates = new Map<string, string>();
  #nodes: readonly string[] = [];
  #ill: readonly string[] = [];
  /** Calls of each driver that are open. */
  readonly open = new Map<string, number>();
  /** How often both worked at once: they would undo each other. */
  collisions = 0;
  readonly #over: Promise<unknown>;

  constructor() {
    this.fleet.gate = (address) => {
      if (this.#ill.includes(address)) {
        throw new Error("the node is ill");
      }
      return new Promise((resolve) => this.time.after(50, resolve));
    };
    this.#over = Promise.all(["a", "b"].map((identity) => this.#drive(identity)));
  }

  async take(step: Step): Promise<void> {
    switch (step.do) {
      case "pool":
        this.#pools.set(step.name, step);
        this.cluster.put(`${GROUP}/sandboxwarmpools/${step.name}`, {
          spec: { replicas: step.replicas, sandboxTemplateRef: { name: step.template } },
        });
        break;
      case "template":
        this.#templates.set(step.name, step.image);
        this.cluster.put(`${GROUP}/sandboxtemplates/${step.name}`, {
          spec: { podTemplate: { spec: { containers: [{ image: step.image }] } } },
        });
        break;
      case "drop": {
        const [plural, name = ""] = step.path.split("/");
        (plural === "sandboxwarmpools" ? this.#pools : this.#templates).delete(name);
        this.cluster.remove(`${GROUP}/${step.path}`);
        break;
      }
      case "nodes":
        this.#nodes = step.names;
        this.fleet.nodes(...step.names);
        break;
      case "ill":
        this.#ill = step.names;
        break;
      case "cluster":
        this.#fail(step.fault);
        break;
      default:
        step satisfies never;
    }
  }

  /** Everything is well again, and some time passes. */
  async rest(): Promise<void> {
    this.#ill = [];
    this.cluster.revive();
    await this.time.pass(90_000);
  }

  /** What each node should have been given, and each pool be told. */
  expected(): { readonly nodes: Map<string, readonly string[]>; readonly ready: Map<string, number> } {
    const wants = [...this.#pools].flatMap(([name, { replicas, template }]) => {
      const image = this.#templates.get(template);
      return image === undefined ? [] : [{ name, image, replicas }];
    });
    const images = [...new Set(wants.map(({ image }) => image))].toSorted((a, b) => (a < b ? -1 : 1));
    const sorted = this.#nodes.toSorted((a, b) => (a < b ? -1 : 1));
    const nodes = sorted.map((node, at): [string, readonly string[]] => [
      node,
      images.map((image) => {
        const parts = wants
          .filter((want) => want.image === image)
          .map(({ replicas }) => spread(replicas, sorted.length)[at]);
        return `${image} none small ${parts.reduce<number>((sum, part = 0) => sum + part, 0)}`;
      }),
    ]);
    const ready = [...this.#pools.keys()].map((name): [string, number] => [
      name,
      sorted.length === 0 ? 0 : (wants.find((want) => want.name === name)?.replicas ?? 0),
    ]);
    return { nodes: new Map(nodes), ready: new Map(ready) };
  }

  async end(): Promise<void> {
    this.#ends.abort();
    await this.#over;
  }

  #drive(identity: string): Promise<void> {
    return driveWarmPools(
      {
        client: this.cluster,
        source: this.fleet,
        namespace: "sandbox-system",
        identity,
        signal: this.#ends.signal,
        clock: () => Date.UTC(2026, 0, 1) + this.time.now(),
        timing: this.time,
      },
      async (...call) => {
        this.open.set(identity, (this.open.get(identity) ?? 0) + 1);
        this.collisions += Math.min(this.open.get("a") ?? 0, this.open.get("b") ?? 0);
        try {
          return await this.fleet.setPools(...call);
        } finally {
          this.open.set(identity, (this.open.get(identity) ?? 0) - 1);
        }
      },
    );
  }

  #fail(fault: Fault): void {
    this.cluster.revive();
    if (fault === "dies") {
      this.cluster.die();
    } else if (fault === "silent") {
      this.cluster.gate = silence;
    } else if (fault !== "well") {
      this.cluster.gate = (request) => {
        const holder = (request.body as { readonly spec?: { readonly holderIdentity?: string } } | undefined)?.spec
          ?.holderIdentity;
        if (fault === "conflicts" && request.method === "PUT") {
          throw refusal(request, 409, "Conflict");
        }
        if (fault === "no templates" && request.path.includes("sandboxtemplates")) {
          throw refusal(request, 500, "InternalError");
        }
        if (holder !== undefined && fault === `${holder} is cut off`) {
          throw refusal(request, 503, "ServiceUnavailable");
        }
      };
    }
  }
}

test("whatever happens, once all is well nodes and statuses come to what was asked, and no two drivers work at once", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(steps, fc.nat(20_000)), { maxLength: 15 }), async (taken) => {
      const history = new History();
      try {
        for (const [next, ms] of taken) {
          await history.take(next);
          await history.time.pass(ms);
        }
        await history.rest();
        const { nodes, ready } = history.expected();
        for (const [node, pools] of nodes) {
          expect([node, history.fleet.poolsOf(node)]).toEqual([node, pools]);
        }
        for (const [name, count] of ready) {
          const status = history.cluster.get(`${GROUP}/sandboxwarmpools/${name}`)?.["status"];
          expect([name, status]).toMatchObject([name, { replicas: count, readyReplicas: count }]);
        }
      } finally {
        await history.end();
      }
      expect(history.collisions).toBe(0);
      await history.time.pass(0);
      expect(history.time.pending).toBe(0);
    }),
    { numRuns: 12 },
  );
});
