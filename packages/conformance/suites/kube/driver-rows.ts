import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import type { KubeRig, Shim } from "../../src/kube-rig.ts";
import type { HarnessRow } from "../../src/harness-rows.ts";
import { waitFor } from "../../src/polling.ts";
import { IMAGE } from "../../src/rig.ts";
import type { ControlContext, HeldRows } from "../control/context.ts";
import { heldRig } from "./context.ts";

const GROUP = "extensions.agents.x-k8s.io";
const LEASE = "cocoon-warmpool-driver";
/** A run follows a change within a second, and a node may be busy filling its pools. */
const SOON_MS = 20_000;
/** Lease duration, the longest try in between, and what a slow machine adds. */
const TAKEOVER_MS = 40_000;

/** What a driver needs of a rig, in the words of these rows. */
class Pools {
  readonly #rig: KubeRig;

  constructor(rig: KubeRig) {
    this.#rig = rig;
  }

  async template(name: string, net?: string): Promise<void> {
    const annotations = net === undefined ? {} : { "sandbox.cocoonstack.io/net": net };
    await this.#put("sandboxtemplates", name, {
      podTemplate: {
        metadata: { annotations },
        spec: { containers: [{ name: "main", image: IMAGE, resources: { requests: { cpu: "500m" } } }] },
      },
    });
  }

  async pool(name: string, replicas: number, template = "guest"): Promise<void> {
    await this.#put("sandboxwarmpools", name, { replicas, sandboxTemplateRef: { name: template } });
  }

  async remove(plural: "sandboxwarmpools" | "sandboxtemplates", name: string): Promise<void> {
    await this.#rig.standin.order({ op: "delete", group: GROUP, plural, namespace: "team", name });
  }

  /** Takes away every object, so that the next row begins with none. */
  async clear(): Promise<void> {
    for (const plural of ["sandboxwarmpools", "sandboxtemplates"] as const) {
      for (const { metadata } of await this.#rig.standin.objects(GROUP, plural, "team")) {
        await this.remove(plural, metadata.name);
      }
    }
  }

  async status(name: string): Promise<unknown> {
    const pools = await this.#rig.standin.objects(GROUP, "sandboxwarmpools", "team");
    return pools.find(({ metadata }) => metadata.name === name)?.["status"];
  }

  /** Waits until the nodes' targets are these, in any order. */
  async targets(...wanted: readonly number[]): Promise<void> {
    const text = JSON.stringify(wanted.toSorted((a, b) => a - b));
    let seen = "";
    await waitFor(
      `targets ${text}`,
      async () => {
        const infos = await Promise.all(this.#rig.guests.nodes.map(({ admin }) => admin.info()));
        const sums = infos.map(({ pools }) => pools.reduce((sum, { target }) => sum + target, 0));
        seen = JSON.stringify(sums.toSorted((a, b) => a - b));
        return seen === text;
      },
      SOON_MS,
    ).catch((cause: unknown) => {
      throw new Error(`targets are ${seen} instead of ${text}`, { cause });
    });
  }

  async holder(): Promise<Readonly<Record<string, unknown>>> {
    const leases = await this.#rig.standin.objects("coordination.k8s.io", "leases");
    const spec = leases.find(({ metadata }) => metadata.name === LEASE)?.["spec"];
    return (spec ?? {}) as Readonly<Record<string, unknown>>;
  }

  async #put(plural: string, name: string, spec: object): Promise<void> {
    const object = { apiVersion: `${GROUP}/v1beta1`, metadata: { name, namespace: "team" }, spec };
    await this.#rig.standin.order({ op: "put", group: GROUP, plural, namespace: "team", object });
  }
}

type Check = (tools: {
  readonly rig: KubeRig;
  readonly pools: Pools;
  readonly driver: () => Promise<Shim>;
}) => Promise<void>;

const CHECKS: readonly (readonly [id: string, title: string, run: Check])[] = [
  [
    "KW1",
    "a pool's replicas are spread over the nodes, filled, and told in its status; without it the nodes drain",
    async ({ pools, driver }) => {
      await pools.template("guest");
      await pools.pool("p", 3);
      await driver();
      await pools.targets(1, 2);
      await waitFor(
        "a status",
        async () =>
          (await pools.status("p")) !== undefined && ((await pools.status("p")) as { replicas: number }).replicas === 3,
        SOON_MS,
      );
      assert.deepEqual(await pools.status("p"), {
        replicas: 3,
        readyReplicas: 3,
        selector: "agents.x-k8s.io/warm-pool=p",
        observedGeneration: 1,
      });
      await pools.pool("p", 4);
      await pools.targets(2, 2);
      await pools.pool("q", 1);
      await pools.targets(2, 3);
      await pools.remove("sandboxwarmpools", "p");
      await pools.targets(0, 1);
      await pools.remove("sandboxwarmpools", "q");
      await pools.targets(0, 0);
    },
  ],
  [
    "KW2",
    "a template that is gone drains its pool; one that cannot be read changes nothing",
    async ({ rig, pools, driver }) => {
      await pools.template("guest");
      await pools.pool("p", 2);
      await driver();
      await pools.targets(1, 1);
      const path = `^/apis/${GROUP}/v1beta1/namespaces/team/sandboxtemplates/`;
      const action = { kind: "status", code: 500, reason: "InternalError" } as const;
      await rig.standin.order({ op: "faults", faults: [{ path, action }] });
      await pools.remove("sandboxtemplates", "guest");
      await pools.pool("p", 6);
      await delay(4_000);
      await pools.targets(1, 1);
      await rig.standin.order({ op: "faults", faults: [] });
      await pools.targets(0, 0);
    },
  ],
  [
    "KW3",
    "a node that does not answer holds up no other, and catches up once it does",
    async ({ rig, pools, driver }) => {
      const [silent, other] = rig.guests.nodes;
      assert.ok(silent !== undefined && other !== undefined);
      const targetOf = async ({ admin }: typeof silent): Promise<number> =>
        (await admin.info()).pools.reduce((sum, { target }) => sum + target, 0);
      const before = await targetOf(silent);
      await silent.admin.faults([{ kind: "hang", method: "PUT", path: "/v1/pools" }]);
      try {
        await pools.template("guest");
        await pools.pool("p", 8);
        const shim = await driver();
        await waitFor("the other node's target", async () => (await targetOf(other)) === 4, SOON_MS);
        assert.equal(await targetOf(silent), before);
        await waitFor("a warning", () => shim.log().includes("the pools of a node were not set"), SOON_MS);
        await waitFor("a status", async () => (await pools.status("p")) !== undefined, SOON_MS);
      } finally {
        await silent.admin.faults([]);
      }
      await pools.targets(4, 4);
    },
  ],
  [
    "KW4",
    "of two drivers one works; killed, the other follows once the lease is over, with the transition counted",
    async ({ pools, driver }) => {
      await pools.template("guest");
      await pools.pool("p", 2);
      const first = await driver();
      await pools.targets(1, 1);
      const before = await pools.holder();
      assert.match(String(before["renewTime"]), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
      assert.equal(before["leaseDurationSeconds"], 15);
      const second = await driver();
      await waitFor("the second to stand back", () => second.log().includes("another is the leader"), SOON_MS);
      first.process.signal("SIGKILL", true);
      await first.process.ended;
      await pools.pool("p", 4);
      await delay(5_000);
      assert.equal((await pools.holder())["holderIdentity"], before["holderIdentity"], "before the lease is over");
      await waitFor(
        "another holder",
        async () => (await pools.holder())["holderIdentity"] !== before["holderIdentity"],
        TAKEOVER_MS,
      );
      assert.equal((await pools.holder())["leaseTransitions"], Number(before["leaseTransitions"]) + 1);
      await pools.targets(2, 2);
    },
  ],
  [
    "KW5",
    "an API server that is away: the lease is lost, nothing is set, and the driver goes on by itself once it is back",
    async ({ rig, pools, driver }) => {
      await pools.template("guest");
      await pools.pool("p", 2);
      const shim = await driver();
      await pools.targets(1, 1);
      await rig.standin.order({ op: "outage" });
      await waitFor("the lost lease", () => shim.log().includes("lost the lease"), TAKEOVER_MS);
      await rig.standin.order({ op: "back" });
      await pools.pool("p", 6);
      await waitFor("another term", () => shim.log().split("became the leader").length === 3, TAKEOVER_MS);
      await pools.targets(3, 3);
      assert.ok(shim.process.running());
    },
  ],
];

/** KW1 to KW5: the warm-pool driver of real programs over real nodes. */
export function driverRows(context: ControlContext): HeldRows {
  const held = heldRig(context, "driver", { nodes: 2, warm: 1 });
  const rows = CHECKS.map(([id, title, run]): HarnessRow => ({
    id,
    title,
    run: async () => {
      const rig = await held.rig();
      const pools = new Pools(rig);
      const shims: Shim[] = [];
      await pools.clear();
      // Leases outlive their holders: a row waits for none of another.
      for (const { metadata } of await rig.standin.objects("coordination.k8s.io", "leases")) {
        const { name, namespace = "" } = metadata;
        await rig.standin.order({ op: "delete", group: "coordination.k8s.io", plural: "leases", namespace, name });
      }
      const driver = async (): Promise<Shim> => {
        const shim = await rig.shim({ driver: true });
        shims.push(shim);
        return shim;
      };
      try {
        await run({ rig, pools, driver });
      } finally {
        await rig.standin.order({ op: "back" });
        await rig.standin.order({ op: "faults", faults: [] });
        await Promise.all(shims.map(({ process }) => process.stop(5_000)));
      }
    },
  }));
  return { rows, close: held.close };
}
