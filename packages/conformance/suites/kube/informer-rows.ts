import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";

import { NODE_INVENTORIES } from "@org/kubeinventory";
import { KubeClient, loadClusterConfig, Reflector, type Timing } from "@org/kubeinventory/client";

import type { HarnessRow } from "../../src/harness-rows.ts";
import { kubeCall, kubeJson } from "../../src/kube-call.ts";
import type { KubeFaultAction, KubeRequestNote } from "../../src/kube-standin-script.ts";
import { SYSTEM_TOKEN, TOKENS } from "../../src/kube-users.ts";
import { waitFor } from "../../src/polling.ts";
import type { ControlContext, HeldRows } from "../control/context.ts";
import { heldRig, type KubeCheck, type KubeLane } from "./context.ts";
import { GROUP_VERSION, sandbox } from "./manifests.ts";

const INVENTORY = "/nodeinventories$";
const SANDBOXES = `/apis/${GROUP_VERSION}/namespaces/team/sandboxes`;

/** Nodes that sandboxes of the namespace are on, by the shim's list. */
async function listed({ shim }: KubeLane, namespace = "team"): Promise<readonly string[]> {
  const caller = { url: shim.url, ca: shim.ca, token: TOKENS.admin };
  const list = await kubeJson(caller, `/apis/${GROUP_VERSION}/namespaces/${namespace}/sandboxes`);
  const items = list["items"] as readonly { readonly metadata: { readonly name: string } }[];
  return items.map(({ metadata }) => metadata.name);
}

/** Makes the cluster fail, has something done meanwhile, and makes it well again. */
async function failing(
  lane: KubeLane,
  fault: { readonly action: KubeFaultAction; readonly watch?: boolean; readonly times?: number },
  meanwhile: () => Promise<void>,
): Promise<void> {
  await lane.rig.standin.order({ op: "faults", faults: [{ path: INVENTORY, method: "GET", ...fault }] });
  try {
    await meanwhile();
  } finally {
    await lane.rig.standin.order({ op: "faults", faults: [] });
  }
}

/** Puts an object of a node that nobody runs into the cluster, with one sandbox. */
async function putNode({ rig }: KubeLane, node: string, name: string, more: object = {}): Promise<void> {
  const publishedAt = `${new Date().toISOString().slice(0, 19)}Z`;
  await rig.standin.order({
    op: "put",
    group: NODE_INVENTORIES.group,
    plural: NODE_INVENTORIES.plural,
    object: {
      apiVersion: `${NODE_INVENTORIES.group}/${NODE_INVENTORIES.version}`,
      kind: "NodeInventory",
      metadata: { name: node },
      node,
      address: "127.0.0.1:9",
      publishedAt,
      entries: [{ name: `ghosts/${name}`, id: `sb_${Buffer.from(name).toString("hex")}`, phase: "Running", ...more }],
    },
  });
}

async function removeNode({ rig }: KubeLane, node: string): Promise<void> {
  const { group, plural } = NODE_INVENTORIES;
  await rig.standin.order({ op: "delete", group, plural, name: node });
}

/** Waits until the shim has a watch that nothing is wrong with. */
async function watching({ rig }: KubeLane): Promise<void> {
  const isOpen = async (): Promise<boolean> =>
    (await rig.standin.watches()).some(({ path }) => path.endsWith("/nodeinventories"));
  await waitFor("a watch of the inventory", isOpen, 40_000);
}

async function sees(lane: KubeLane, names: readonly string[], withinMs = 15_000): Promise<void> {
  const wanted = names.toSorted((a, b) => (a < b ? -1 : 1)).join();
  let last = "";
  await waitFor(
    `ghosts ${wanted}`,
    async () => {
      last = (await listed(lane, "ghosts")).join();
      return last === wanted;
    },
    withinMs,
  ).catch((error: unknown) => {
    throw new Error(`${String(error)}; seen: ${last}`);
  });
}

/** Lists and watches of the inventory among requests. */
async function traffic({
  rig,
}: KubeLane): Promise<{ readonly lists: number; readonly watches: readonly KubeRequestNote[] }> {
  const notes = (await rig.standin.requests()).filter(
    ({ path, method }) => method === "GET" && path.endsWith("/nodeinventories"),
  );
  const watches = notes.filter(({ query }) => query["watch"] === "true");
  return { lists: notes.length - watches.length, watches };
}

const ROWS: readonly KubeCheck[] = [
  [
    "IN01",
    "a watch that arrives in pieces of one to seven bytes, through characters of several, is read whole",
    async (lane) => {
      for (const bytes of [1, 2, 3, 7]) {
        await lane.rig.standin.order({ op: "reset-watches" });
        await failing(lane, { action: { kind: "split", bytes }, watch: true }, async () => {
          await lane.rig.standin.order({ op: "reset-watches" });
          await delay(300);
          const metadata = JSON.stringify({ name: "日本語 🦊 ünï", bytes: String(bytes) });
          await putNode(lane, "ghost-1", `split-${bytes}`, { claimMetadata: metadata });
          await sees(lane, [`split-${bytes}`]);
          const caller = { url: lane.shim.url, ca: lane.shim.ca, token: TOKENS.admin };
          const list = await kubeJson(caller, `/apis/${GROUP_VERSION}/namespaces/ghosts/sandboxes`);
          const [item] = list["items"] as { metadata: { annotations: Record<string, string> } }[];
          assert.deepEqual(
            JSON.parse(item?.metadata.annotations["sandbox.cocoonstack.io/metadata"] ?? ""),
            JSON.parse(metadata),
          );
        });
      }
      await removeNode(lane, "ghost-1");
      await sees(lane, []);
    },
  ],
  [
    "IN02",
    "watches ask for bookmarks and an end; one that ends goes on from its last bookmark without a list",
    async (lane) => {
      await lane.rig.standin.order({ op: "compact" });
      await lane.rig.standin.order({ op: "bookmarks" });
      await delay(500);
      await lane.rig.standin.requests();
      await lane.rig.standin.order({ op: "reset-watches" });
      await putNode(lane, "ghost-2", "behind");
      await sees(lane, ["behind"]);
      const { lists, watches } = await traffic(lane);
      assert.equal(lists, 0, "no list");
      const query = watches[0]?.query ?? {};
      assert.equal(query["allowWatchBookmarks"], "true");
      const seconds = Number(query["timeoutSeconds"]);
      assert.ok(seconds >= 300 && seconds <= 600, `timeoutSeconds ${seconds}`);
      await removeNode(lane, "ghost-2");
      await sees(lane, []);
    },
  ],
  [
    "IN03",
    "a version that expired, told by a status and within the watch: listed anew, and what went meanwhile is gone",
    async (lane) => {
      for (const kind of ["status", "watch-error"] as const) {
        await putNode(lane, "ghost-a", "stays");
        await putNode(lane, "ghost-b", "goes");
        await sees(lane, ["stays", "goes"]);
        const action = { kind, code: 410, reason: "Expired" } as const;
        await failing(lane, { action, watch: true, times: 1 }, async () => {
          await lane.rig.standin.order({
            op: "faults",
            faults: [{ path: INVENTORY, method: "GET", action: { kind: "hang" } }],
          });
          await lane.rig.standin.order({ op: "reset-watches" });
          await delay(100);
          await removeNode(lane, "ghost-b");
          await lane.rig.standin.order({ op: "compact" });
          await lane.rig.standin.order({
            op: "faults",
            faults: [{ path: INVENTORY, method: "GET", action, watch: true, times: 1 }],
          });
          await lane.rig.standin.order({ op: "reset-watches" });
          await sees(lane, ["stays"], 40_000);
        });
        await removeNode(lane, "ghost-a");
        await sees(lane, []);
      }
    },
  ],
  ...(
    [
      ["IN04a", "429 with Retry-After", { kind: "status", code: 429, reason: "TooManyRequests", retryAfterSeconds: 3 }],
      ["IN04b", "500", { kind: "status", code: 500, reason: "InternalError" }],
      ["IN04c", "a reset", { kind: "reset" }],
    ] as const
  ).map(([id, what, action]): KubeCheck => [
    id,
    `${what}, twice: what is known stays, and the watch goes on after a while`,
    async (lane) => {
      await putNode(lane, "ghost-4", "kept");
      await sees(lane, ["kept"]);
      await lane.rig.standin.requests();
      await failing(lane, { action, times: 2 }, async () => {
        await lane.rig.standin.order({ op: "reset-watches" });
        assert.deepEqual(await listed(lane, "ghosts"), ["kept"]);
        await putNode(lane, "ghost-5", "new");
        await sees(lane, ["kept", "new"], 60_000);
      });
      const { watches } = await traffic(lane);
      const [first, second] = watches.map(({ at }) => at);
      assert.ok(first !== undefined && second !== undefined, "it asked again");
      assert.ok(
        action.kind === "reset" || action.code === 500 || second - first >= 2_900,
        `${second - first} ms later`,
      );
    },
  ]),
  [
    "IN05",
    "a watch that is silent for three minutes is given up (time is made to pass)",
    async (lane) => {
      await using client = await KubeClient.connect(
        await loadClusterConfig({ env: {}, kubeconfig: lane.rig.systemConfig }),
      );
      const held = new Map<() => void, number>();
      let passedMs = 0;
      const timing: Timing = {
        now: () => performance.now() + passedMs,
        random: () => 0.5,
        after: (ms, callback) => {
          if (ms < 60_000) {
            const timer = setTimeout(callback, Math.min(ms, 50));
            return () => clearTimeout(timer);
          }
          held.set(callback, ms);
          return () => void held.delete(callback);
        },
      };
      const life = new AbortController();
      let count = 0;
      const resource = { group: "silent.test", version: "v1", plural: "things" };
      const onChanges = (): void => {
        count += 1;
      };
      const reflector = new Reflector({ client, resource, onChanges, timing });
      await lane.rig.standin.order({
        op: "faults",
        faults: [{ path: "/things$", watch: true, times: 1, action: { kind: "silence" } }],
      });
      await lane.rig.standin.requests();
      const running = reflector.run(life.signal);
      try {
        await reflector.synced;
        await waitFor("a watch that waits", () => reflector.status.watching && held.size > 0, 5_000);
        assert.deepEqual([...held.values()], [180_000]);
        passedMs = 180_000;
        const due = [...held.keys()];
        held.clear();
        for (const callback of due) {
          callback();
        }
        await waitFor(
          "another watch",
          async () => (await lane.rig.standin.watches()).some(({ path }) => path.endsWith("/things")),
          10_000,
        );
        await lane.rig.standin.order({
          op: "put",
          group: "silent.test",
          plural: "things",
          object: { metadata: { name: "a" } },
        });
        await waitFor("news", () => count >= 2, 5_000);
      } finally {
        life.abort();
        await running;
        await lane.rig.standin.order({ op: "faults", faults: [] });
      }
    },
  ],
  [
    "IN06",
    "a token that the cluster replaced is read anew from its file, at once on a 401",
    async (lane) => {
      const { standin, systemTokenFile } = lane.rig;
      const rotated = `${SYSTEM_TOKEN}-rotated`;
      try {
        await writeFile(systemTokenFile, rotated);
        // The publisher of the rig keeps the old one.
        await standin.order({ op: "credentials", tokens: [rotated] });
        await standin.order({ op: "reset-watches" });
        await putNode(lane, "ghost-6", "rotated");
        await sees(lane, ["rotated"], 20_000);
        const caller = { url: lane.shim.url, ca: lane.shim.ca, token: `unknown-${Date.now()}` };
        assert.equal((await kubeCall(caller, SANDBOXES)).status, 401, "reviews go on as well");
      } finally {
        await writeFile(systemTokenFile, SYSTEM_TOKEN);
        await standin.order({ op: "credentials", tokens: [SYSTEM_TOKEN, rotated] });
      }
      await removeNode(lane, "ghost-6");
      await sees(lane, []);
    },
  ],
  [
    "IN07",
    "an API server that dies and comes back with nothing: reads and verbs go on meanwhile, and everything is found again",
    async (lane) => {
      const caller = {
        url: lane.shim.url,
        ca: lane.shim.ca,
        pair: lane.rig.authorities.clients.issue({ commonName: "root", organizations: ["system:masters"] }),
      };
      await kubeJson(caller, SANDBOXES, 201, "POST", sandbox({ name: "survivor" }));
      await delay(1_500);
      await lane.rig.standin.order({ op: "outage" });
      const items = async (): Promise<number> => ((await kubeJson(caller, SANDBOXES))["items"] as unknown[]).length;
      assert.equal(await items(), 1, "lists go on");
      await kubeJson(caller, `${SANDBOXES}/survivor`);
      await kubeJson(caller, SANDBOXES, 201, "POST", sandbox({ name: "born" }));
      assert.equal(await items(), 2, "our own creates are seen");
      await kubeJson(caller, `${SANDBOXES}/survivor`, 200, "DELETE");
      await lane.rig.standin.restart();
      await waitFor("the rest of it", async () => (await items()) === 1, 40_000);
      await putNode(lane, "ghost-7", "after");
      await sees(lane, ["after"], 40_000);
      await removeNode(lane, "ghost-7");
      // Its node is unknown until it publishes again, and what is listed until then is what was made here.
      await waitFor(
        "what was made meanwhile can be deleted",
        async () => (await kubeCall(caller, `${SANDBOXES}/born`, "DELETE")).status === 200,
        20_000,
      );
    },
  ],
  [
    "IN08",
    "a node that stopped publishing is gone from lists and reads after the window, and back with its next object",
    async (lane) => {
      const shim = await lane.rig.shim({ flags: ["--inventory-stale-after=3s"] });
      try {
        const own = { rig: lane.rig, shim };
        const { publisher } = lane.rig;
        // Nobody publishes later than this one, until the rig's node does again.
        publisher.silence("node-0", true);
        await putNode(lane, "ghost-8", "stale");
        await sees(own, ["stale"]);
        publisher.silence("node-0", false);
        await sees(own, [], 30_000);
        const caller = { url: shim.url, ca: shim.ca, token: TOKENS.admin };
        const gone = await kubeCall(caller, `/apis/${GROUP_VERSION}/namespaces/ghosts/sandboxes/stale`);
        assert.equal(gone.status, 404, gone.text);
        await sees(lane, ["stale"]);
        publisher.silence("node-0", true);
        await putNode(lane, "ghost-8", "back");
        await sees(own, ["back"]);
      } finally {
        lane.rig.publisher.silence("node-0", false);
        await shim.process.stop(5_000);
        await removeNode(lane, "ghost-8");
      }
    },
  ],
];

/** Whatever a row left of nodes that nobody runs. */
async function removeGhosts(lane: KubeLane): Promise<void> {
  const { group, plural } = NODE_INVENTORIES;
  for (const { metadata } of await lane.rig.standin.objects(group, plural)) {
    if (metadata.name.startsWith("ghost-")) {
      await removeNode(lane, metadata.name);
    }
  }
  await sees(lane, [], 40_000);
}

/** What a cluster may do to a watch, with a real shim over a scripted API server. */
export function informerRows(context: ControlContext): HeldRows {
  const held = heldRig(context, "kube-informer", { nodes: 1, warm: 2 });
  return {
    rows: ROWS.map(([id, title, run]): HarnessRow => ({
      id,
      title,
      run: async () => {
        const rig = await held.rig();
        // A shim that failed lately waits longer before it tries again: each row has one of its own.
        const lane = { rig, shim: await rig.shim() };
        try {
          await watching(lane);
          await run(lane);
          await removeGhosts(lane);
        } finally {
          await lane.shim.process.stop(5_000);
        }
      },
    })),
    close: held.close,
  };
}
