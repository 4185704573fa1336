import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { setTimeout as delay } from "node:timers/promises";

import { type HarnessRow, SkipRow } from "../../src/harness-rows.ts";
import { kubeCall } from "../../src/kube-call.ts";
import { waitFor } from "../../src/polling.ts";
import { IMAGE } from "../../src/rig.ts";
import type { ControlContext, HeldRows } from "../control/context.ts";
import { GROUP_VERSION, sandbox } from "./manifests.ts";
import { openRealCluster, REAL_START, REAL_STOP, type RealCluster } from "./real-cluster.ts";

const shell = promisify(execFile);
const NS = ["-n", "team"] as const;

type Check = readonly [id: string, title: string, run: (cluster: RealCluster) => Promise<void>];

const ROWS: readonly Check[] = [
  [
    "KR01",
    "definition, roles and registration are taken; the APIService becomes Available and stays so",
    async ({ root }) => {
      await root.ok(["wait", "apiservice/v1beta1.agents.x-k8s.io", "--for=condition=Available", "--timeout=50s"]);
      await delay(6_000);
      await root.ok(["wait", "apiservice/v1beta1.agents.x-k8s.io", "--for=condition=Available", "--timeout=5s"]);
      assert.match(await root.ok(["api-resources", "--api-group=agents.x-k8s.io"]), /^sandboxes\s/m);
    },
  ],
  [
    "KR02",
    "published objects are kept as they were applied, and shown in columns",
    async ({ root }) => {
      assert.match(await root.ok(["get", "nodeinventories"]), /^NAME\s+NODE\s+AGE\nnode-0\s+node-0/);
      const { entries, pools, publishedAt } = JSON.parse(
        await root.ok(["get", "nodeinventory", "node-0", "-o", "json"]),
      ) as {
        entries?: unknown[];
        pools?: { template: string }[];
        publishedAt?: string;
      };
      assert.ok(Array.isArray(entries ?? []));
      assert.equal(pools?.[0]?.template, IMAGE);
      assert.match(publishedAt ?? "", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    },
  ],
  [
    "KR03",
    "three people through the aggregator: one may everything in a namespace, one reads it, one neither",
    async ({ as }) => {
      await as.admin.ok(["create", ...NS, "-f", "-"], sandbox({ name: "real" }));
      assert.match(await as.reader.ok(["get", "sandboxes", ...NS]), /^real\s+True/m);
      assert.match(await as.reader.refused(["delete", "sandbox", "real", ...NS]), /cannot delete resource "sandboxes"/);
      assert.match(await as.reader.refused(["get", "sandboxes", "-n", "default"]), /cannot list resource "sandboxes"/);
      assert.match(await as.nobody.refused(["get", "sandbox", "real", ...NS]), /cannot get resource "sandboxes"/);
      assert.match(await as.admin.ok(["auth", "can-i", "create", "sandboxes.agents.x-k8s.io/pause", ...NS]), /yes/);
      assert.match((await as.nobody.run(["auth", "can-i", "list", "sandboxes.agents.x-k8s.io", ...NS])).stdout, /no/);
    },
  ],
  [
    "KR04",
    "describe, wait, watch, pause and delete through the aggregator",
    async ({ as }) => {
      await as.admin.ok(["describe", "sandbox", "real", ...NS]);
      await as.admin.ok(["wait", "sandbox/real", ...NS, "--for=condition=Ready", "--timeout=20s"]);
      const watch = await as.admin.start(["get", "sandboxes", ...NS, "-w", "-o", "name"]);
      await waitFor("the first", () => watch.stdout().includes("/real"), 10_000);
      await delay(2_000);
      assert.equal(watch.stdout().trim().split("\n").length, 1, watch.stdout());
      const pause = `/apis/${GROUP_VERSION}/namespaces/team/sandboxes/real/pause`;
      await as.admin.ok(["create", "--raw", pause, "-f", "-"], "{}");
      await as.admin.ok(["delete", "sandboxes", "--all", ...NS]);
      await watch.stop(1_000);
    },
  ],
  [
    "KR05",
    "straight at the shim: tokens are reviewed by the cluster, headers of a front proxy are not believed",
    async ({ shimUrl, shimCa, token }) => {
      const path = `/apis/${GROUP_VERSION}/namespaces/team/sandboxes`;
      const caller = { url: shimUrl, ca: shimCa };
      assert.equal((await kubeCall({ ...caller, token: await token("reader") }, path)).status, 200);
      assert.equal((await kubeCall({ ...caller, token: await token("nobody") }, path)).status, 403);
      assert.equal((await kubeCall({ ...caller, token: "nobodys" }, path)).status, 401);
      const headers = [
        ["X-Remote-User", "root"],
        ["X-Remote-Group", "system:masters"],
      ] as const;
      assert.equal((await kubeCall({ ...caller, headers }, path)).status, 403);
    },
  ],
  [
    "KR06",
    "warm pools: the lease is held, nodes are set, the status is written",
    async ({ root, guests }) => {
      const object = (kind: string, name: string, spec: object): string =>
        JSON.stringify({
          apiVersion: "extensions.agents.x-k8s.io/v1beta1",
          kind,
          metadata: { name, namespace: "team" },
          spec,
        });
      const containers = [{ name: "main", image: IMAGE }];
      await root.ok(
        ["apply", "-f", "-"],
        object("SandboxTemplate", "usual", { podTemplate: { spec: { containers } } }),
      );
      await root.ok(
        ["apply", "-f", "-"],
        object("SandboxWarmPool", "pool", { replicas: 3, sandboxTemplateRef: { name: "usual" } }),
      );
      const targets = async (): Promise<number> => {
        const infos = await Promise.all(guests.nodes.map(({ admin }) => admin.info()));
        return infos.flatMap(({ pools }) => pools).reduce((sum, { target }) => sum + target, 0);
      };
      await waitFor("targets of 3", async () => (await targets()) === 3, 60_000, 500);
      await root.ok([
        "wait",
        "sandboxwarmpool/pool",
        ...NS,
        "--for=jsonpath={.status.readyReplicas}=3",
        "--timeout=50s",
      ]);
      await root.ok(["get", "lease", "cocoon-warmpool-driver", "-n", "sandbox-system"]);
    },
  ],
  [
    "KR07",
    "an API server that stops and starts: what is open goes on, the driver and the registration come back",
    async ({ root, shim, shimUrl, shimCa }) => {
      const [stop = "", start = ""] = [process.env[REAL_STOP], process.env[REAL_START]];
      if (stop === "" || start === "") {
        throw new SkipRow(`set ${REAL_STOP} and ${REAL_START} to commands that stop and start the API server`);
      }
      await shell("/bin/sh", ["-c", stop]);
      try {
        assert.equal((await kubeCall({ url: shimUrl, ca: shimCa }, "/readyz")).status, 200);
        await delay(15_000);
        assert.ok(shim.running());
      } finally {
        await shell("/bin/sh", ["-c", start]);
      }
      await waitFor(
        "an available API",
        async () => (await root.run(["get", "sandboxes", ...NS])).code === 0,
        90_000,
        1_000,
      );
    },
  ],
];

/** End to end behind a real kube-apiserver. */
export function realRows(context: ControlContext): HeldRows {
  let opened: Promise<RealCluster> | undefined;
  const ready = (): Promise<RealCluster> => (opened ??= openRealCluster(context));
  return {
    rows: ROWS.map(([id, title, run]): HarnessRow => ({ id, title, run: async () => run(await ready()) })),
    close: async () => {
      await (await opened?.catch(() => undefined))?.[Symbol.asyncDispose]();
    },
  };
}
