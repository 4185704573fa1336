import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import type { HarnessRow } from "../../src/harness-rows.ts";
import type { KubeRig, Shim } from "../../src/kube-rig.ts";
import type { StoredObject } from "../../src/kube-standin-store.ts";
import { waitFor } from "../../src/polling.ts";
import { IMAGE } from "../../src/rig.ts";
import type { ControlContext, HeldRows } from "../control/context.ts";
import { heldRig } from "./context.ts";

const POOLS = { group: "extensions.agents.x-k8s.io", plural: "sandboxwarmpools", namespace: "pools" } as const;
const TEMPLATES = { ...POOLS, plural: "sandboxtemplates" } as const;
const LEASES = { group: "coordination.k8s.io", plural: "leases", namespace: "sandbox-system" } as const;
const LEASE = "cocoon-warmpool-driver";

/** A lease lasts 15 s; who wants it looks every 2 s. */
const TAKEOVER_MS = 40_000;

interface Lease {
  readonly holderIdentity?: string;
  readonly leaseTransitions?: number;
  readonly leaseDurationSeconds?: number;
  readonly renewTime?: string;
}

type Check = readonly [id: string, title: string, run: (duo: Duo) => Promise<void>];

/** Two shims that both would set the pools of the same nodes. */
interface Duo {
  readonly rig: KubeRig;
  readonly shims: [Shim, Shim];
  readonly lease: () => Promise<Lease>;
  readonly pool: (name: string) => Promise<StoredObject | undefined>;
  /** Targets of the rigs' image, by node. */
  readonly targets: () => Promise<readonly number[]>;
  readonly putPool: (name: string, replicas: number, template?: string) => Promise<void>;
  readonly putTemplate: (name: string, image?: string) => Promise<void>;
}

function duoOf(rig: KubeRig, shims: [Shim, Shim]): Duo {
  const { standin } = rig;
  const put = async (
    where: typeof POOLS | typeof TEMPLATES,
    kind: string,
    name: string,
    spec: object,
  ): Promise<void> => {
    const [before] = (await standin.objects(where.group, where.plural, where.namespace)).filter(
      ({ metadata }) => metadata.name === name,
    );
    const object = { apiVersion: `${where.group}/v1beta1`, kind, metadata: { name }, spec, status: before?.["status"] };
    await standin.order({ op: "put", ...where, object });
  };
  return {
    rig,
    shims,
    lease: async () => {
      const [lease] = await standin.objects(LEASES.group, LEASES.plural, LEASES.namespace);
      assert.equal(lease?.metadata.name, LEASE);
      return lease?.["spec"] as Lease;
    },
    pool: async (name) =>
      (await standin.objects(POOLS.group, POOLS.plural, POOLS.namespace)).find(
        ({ metadata }) => metadata.name === name,
      ),
    targets: async () => {
      const infos = await Promise.all(rig.guests.nodes.map(({ admin }) => admin.info()));
      return infos.map(({ pools }) =>
        pools.filter(({ key }) => key.template === IMAGE).reduce((sum, { target }) => sum + target, 0),
      );
    },
    putPool: (name, replicas, template = "usual") =>
      put(POOLS, "SandboxWarmPool", name, { replicas, sandboxTemplateRef: { name: template } }),
    putTemplate: (name, image = IMAGE) =>
      put(TEMPLATES, "SandboxTemplate", name, {
        podTemplate: { metadata: {}, spec: { containers: [{ name: "main", image }] } },
      }),
  };
}

const readyOf = (pool: StoredObject | undefined): unknown =>
  (pool?.["status"] as { readyReplicas?: number } | undefined)?.readyReplicas;

/** Which of the shims holds the lease: the identity is in the log of nobody else. */
async function holder({ shims, lease }: Duo): Promise<Shim | undefined> {
  const { holderIdentity = "" } = await lease();
  return shims.find((shim) => shim.process.running() && shim.log().includes(holderIdentity));
}

const ROWS: readonly Check[] = [
  [
    "WP01",
    "one of two shims takes the lease, spreads the pools over the nodes and reports what is warm",
    async (duo) => {
      await duo.putTemplate("usual");
      await duo.putPool("one", 3);
      await waitFor("targets of 3 over 2 nodes", async () => (await duo.targets()).join() === "2,1", TAKEOVER_MS, 200);
      await waitFor("a status", async () => readyOf(await duo.pool("one")) === 3, 60_000, 200);
      const pool = await duo.pool("one");
      const status = pool?.["status"] as { readonly selector?: string } | undefined;
      assert.deepEqual([status?.selector, pool?.metadata.generation], ["agents.x-k8s.io/warm-pool=one", 1]);
      const { leaseDurationSeconds, renewTime = "", leaseTransitions } = await duo.lease();
      assert.equal(leaseDurationSeconds, 15);
      assert.match(renewTime, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
      assert.ok((leaseTransitions ?? 0) <= 1);
    },
  ],
  [
    "WP02",
    "changes of replicas, of two pools with one template, and removals reach the nodes",
    async (duo) => {
      await duo.putPool("one", 1);
      await duo.putPool("two", 1);
      await waitFor(
        "targets of 2",
        async () => (await duo.targets()).reduce((sum, one) => sum + one, 0) === 2,
        20_000,
        200,
      );
      await duo.rig.standin.order({ op: "delete", ...POOLS, name: "two" });
      await waitFor(
        "targets of 1",
        async () => (await duo.targets()).reduce((sum, one) => sum + one, 0) === 1,
        20_000,
        200,
      );
    },
  ],
  [
    "WP03",
    "templates that cannot be read: nothing is set, and what nodes have stays",
    async (duo) => {
      const before = await duo.targets();
      await duo.rig.standin.order({
        op: "faults",
        faults: [{ path: "/sandboxtemplates", action: { kind: "status", code: 500, reason: "InternalError" } }],
      });
      try {
        await duo.putPool("blind", 4, "unread");
        await delay(6_000);
        assert.deepEqual(await duo.targets(), before);
      } finally {
        await duo.rig.standin.order({ op: "faults", faults: [] });
        await duo.rig.standin.order({ op: "delete", ...POOLS, name: "blind" });
      }
    },
  ],
  [
    "LE01",
    "the other one never sets pools, and takes over when the leader dies",
    async (duo) => {
      const { holderIdentity, leaseTransitions = 0 } = await duo.lease();
      const leader = await holder(duo);
      assert.ok(leader !== undefined, "somebody's log names the holder");
      leader.process.signal("SIGKILL", true);
      await leader.process.ended;
      await duo.putPool("one", 4);
      await waitFor(
        "another holder",
        async () => (await duo.lease()).holderIdentity !== holderIdentity,
        TAKEOVER_MS,
        200,
      );
      assert.equal((await duo.lease()).leaseTransitions, leaseTransitions + 1);
      await waitFor("targets of 4", async () => (await duo.targets()).join() === "2,2", 20_000, 200);
      duo.shims[duo.shims.indexOf(leader)] = await duo.rig.shim({ driver: true });
    },
  ],
  [
    "LE02",
    "an API server that is away for longer than a lease ends the term; the driver is back by itself, in the same process",
    async (duo) => {
      const pids = duo.shims.map(({ process }) => process.pid);
      await duo.rig.standin.order({ op: "outage" });
      await delay(18_000);
      await duo.rig.standin.order({ op: "back" });
      await duo.putPool("one", 2);
      await waitFor("targets of 2", async () => (await duo.targets()).join() === "1,1", TAKEOVER_MS + 30_000, 200);
      assert.deepEqual(
        duo.shims.map(({ process }) => [process.pid, process.running()]),
        pids.map((pid) => [pid, true]),
      );
    },
  ],
  [
    "LE03",
    "a shim that stops as asked leaves the pools as they are",
    async (duo) => {
      const before = await duo.targets();
      const ends = await Promise.all(duo.shims.map(({ process }) => process.stop(30_000)));
      assert.deepEqual(
        ends.map(({ code }) => code),
        [0, 0],
      );
      assert.deepEqual(await duo.targets(), before);
    },
  ],
];

/** The driver of warm pools in two shims over the same cluster. */
export function driverRows(context: ControlContext): HeldRows {
  const held = heldRig(context, "kube-driver", { nodes: 2, warm: 2 });
  let duo: Promise<Duo> | undefined;
  const ready = (): Promise<Duo> =>
    (duo ??= (async () => {
      const rig = await held.rig();
      return duoOf(rig, [await rig.shim({ driver: true }), await rig.shim({ driver: true })]);
    })());
  return {
    rows: ROWS.map(([id, title, run]): HarnessRow => ({ id, title, run: async () => run(await ready()) })),
    close: async () => {
      const started = await duo?.catch(() => undefined);
      await Promise.all((started?.shims ?? []).map((shim) => shim.process.stop(5_000)));
      await held.close();
    },
  };
}
