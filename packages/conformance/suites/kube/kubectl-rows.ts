import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { restock } from "../../src/guest-mesh.ts";
import type { HarnessRow } from "../../src/harness-rows.ts";
import type { KubeRig, Shim } from "../../src/kube-rig.ts";
import type { KubeMinor } from "../../src/kube-tools.ts";
import { TOKENS } from "../../src/kube-users.ts";
import type { NodeSandbox } from "../../src/node-admin.ts";
import { waitFor } from "../../src/polling.ts";
import { IMAGE } from "../../src/rig.ts";
import type { ControlContext, HeldRows } from "../control/context.ts";
import { heldRig } from "./context.ts";
import { type Kubectl, openKubectl } from "./kubectl.ts";
import { GROUP_VERSION, sandbox } from "./manifests.ts";

/** What the rows of one version work with. */
interface Desk {
  readonly rig: KubeRig;
  readonly shim: Shim;
  /** May do everything. */
  readonly admin: Kubectl;
  readonly reader: Kubectl;
  readonly nobody: Kubectl;
  /** Sandboxes of a namespace, on the nodes. */
  readonly onNodes: (namespace: string) => Promise<readonly NodeSandbox[]>;
}

type Row = readonly [id: string, title: string, run: (desk: Desk) => Promise<void>];

const NS = ["-n", "team"] as const;
const KIND = `sandboxes.${GROUP_VERSION.split("/")[0]}`;

/** Makes sandboxes of these names, and removes all of the namespace in the end. */
async function having(desk: Desk, names: readonly string[], use: () => Promise<void>): Promise<void> {
  await restock(desk.rig.guests, 1_000);
  try {
    for (const name of names) {
      await desk.admin.ok(["create", ...NS, "-f", "-"], sandbox({ name, labels: { made: "here" } }));
    }
    await use();
  } finally {
    await desk.admin.run(["delete", "sandboxes", "--all", ...NS]);
    await waitFor("an empty namespace", async () => (await desk.onNodes("team")).length === 0, 30_000);
  }
}

const SAFE_READS: readonly Row[] = [
  [
    "01",
    "version: a server version is told",
    async ({ admin }) => {
      assert.match(await admin.ok(["version"]), /^Server Version: v\d+\.\d+\.\d+/m);
    },
  ],
  [
    "02",
    "api-versions and api-resources: one group, its resource with short names, kind, verbs, category",
    async ({ admin }) => {
      assert.equal((await admin.ok(["api-versions"])).trim(), GROUP_VERSION);
      const table = await admin.ok(["api-resources", "-o", "wide", "--no-headers"]);
      assert.match(table, /^sandboxes\s+\S*sbx\S*\s+agents\.x-k8s\.io\/v1beta1\s+true\s+Sandbox\s/m);
      for (const verb of ["create", "delete", "get", "list", "watch"]) {
        assert.match(table, new RegExp(`[\\s,]${verb}[\\s,]`), verb);
      }
      assert.match(
        await admin.ok(["api-resources", "--categories=all", "-o", "name"]),
        /^sandboxes\.agents\.x-k8s\.io$/m,
      );
    },
  ],
  [
    "03",
    "get where nothing is says so",
    async ({ admin }) => {
      const { code, stdout, stderr } = await admin.run(["get", "sandboxes", "-n", "empty"]);
      assert.deepEqual([code, stdout], [0, ""]);
      assert.match(stderr, /No resources found in empty namespace/);
      // Behind the 404 kubectl looks for the namespace, which is of a group that is not here, and tells of that.
      assert.match(await admin.refused(["get", "sandbox", "nobody", "-n", "empty"]), /NotFound/);
    },
  ],
  [
    "04",
    "explain: kind, spec and a field with its description",
    async ({ admin }) => {
      assert.match(await admin.ok(["explain", "sandbox"]), /KIND:\s+Sandbox\nVERSION:\s+v1beta1/);
      assert.match(await admin.ok(["explain", "sandbox.spec"]), /shutdownTime/);
      assert.match(await admin.ok(["explain", "sandbox.spec.podTemplate.spec.containers"]), /image/);
      assert.match(await admin.ok(["explain", "sandbox.status"]), /nodeName/);
      assert.match(await admin.ok(["explain", "sandbox", "--recursive"]), /podTemplate/);
    },
  ],
  [
    "05",
    "auth can-i and get ns need other groups, which are not here: they fail with a reason",
    async ({ admin }) => {
      assert.match(
        await admin.refused(["auth", "can-i", "list", "sandboxes"]),
        /the server|selfsubjectaccessreviews|no matches/i,
      );
      assert.match(await admin.refused(["get", "ns"]), /the server doesn't have a resource type "ns"/);
    },
  ],
  [
    "06",
    "who may what: a reader reads one namespace, nobody reads none, an unknown token is nobody's",
    async ({ reader, nobody, admin }) => {
      await reader.ok(["get", "sandboxes", ...NS]);
      const cannot = (verb: string, where: string): RegExp =>
        new RegExp(
          `${KIND}.* is forbidden: User ".+" cannot ${verb} resource "sandboxes" in API group "agents.x-k8s.io" ${where}`,
        );
      assert.match(
        await reader.refused(["get", "sandboxes", "-n", "other"]),
        cannot("list", 'in the namespace "other"'),
      );
      assert.match(await reader.refused(["get", "sandboxes", "-A"]), cannot("list", "at the cluster scope"));
      assert.match(
        await reader.refused(["create", ...NS, "-f", "-"], sandbox({ name: "a" })),
        cannot("create", 'in the namespace "team"'),
      );
      assert.match(await nobody.refused(["get", "sandbox", "x", ...NS]), cannot("get", 'in the namespace "team"'));
      const { stderr } = await admin.run(["get", "sandboxes", ...NS, "--token=nobodys"]);
      assert.match(stderr, /[Uu]nauthorized|logged in to the server/);
    },
  ],
  [
    "07",
    "health and metrics paths as raw reads",
    async ({ admin, nobody }) => {
      for (const path of ["/healthz", "/livez", "/readyz"]) {
        assert.equal(await nobody.ok(["get", "--raw", path]), "ok", path);
      }
      assert.match(await admin.ok(["get", "--raw", "/readyz?verbose"]), /\[\+\]ping ok\n[\s\S]*readyz check passed/);
      assert.match(await admin.ok(["get", "--raw", "/apis"]), /APIGroupList/);
      assert.match(await admin.ok(["get", "--raw", `/apis/${GROUP_VERSION}`]), /"sandboxes\/pause"/);
    },
  ],
];

const CREATES: readonly Row[] = [
  [
    "10",
    "create -f with validation claims a microVM and answers its id, address and token once",
    (desk) =>
      having(desk, [], async () => {
        const made = JSON.parse(
          await desk.admin.ok(["create", ...NS, "-f", "-", "-o", "json"], sandbox({ name: "one" })),
        ) as {
          metadata: { name: string; uid: string; annotations: Record<string, string> };
          status: { nodeName: string };
        };
        const [claim, ...others] = await desk.onNodes("team");
        assert.deepEqual([claim?.claim_ref, others.length], ["team/one", 0]);
        assert.equal(made.metadata.annotations["sandbox.cocoonstack.io/claim-id"], claim?.id);
        assert.ok((made.metadata.annotations["sandbox.cocoonstack.io/token"] ?? "") !== "", "the token");
        assert.match(made.status.nodeName, /^node-[01]$/);
        const read = JSON.parse(await desk.admin.ok(["get", "sandbox", "one", ...NS, "-o", "json"])) as typeof made;
        assert.equal(read.metadata.annotations["sandbox.cocoonstack.io/token"], undefined, "never on reads");
        assert.equal(read.metadata.uid, made.metadata.uid, "the uid stays");
      }),
  ],
  [
    "11",
    "create with a field that does not exist: refused, warned of, or let through, as asked",
    (desk) =>
      having(desk, [], async () => {
        const odd = sandbox({ name: "odd", spec: { colour: "red" } });
        assert.match(await desk.admin.refused(["create", ...NS, "-f", "-"], odd), /unknown field "spec\.colour"/);
        assert.equal((await desk.onNodes("team")).length, 0, "nothing was claimed");
        const warned = await desk.admin.run(["create", ...NS, "--validate=warn", "-f", "-"], odd);
        assert.equal(warned.code, 0, warned.stderr);
        assert.match(warned.stderr, /Warning: unknown field "spec\.colour"/);
        const silent = await desk.admin.run(
          ["create", ...NS, "--validate=ignore", "-f", "-"],
          sandbox({ name: "odder", spec: { colour: 1 } }),
        );
        assert.deepEqual([silent.code, silent.stderr], [0, ""]);
      }),
  ],
  [
    "12",
    "generateName, an image nobody has warm, a bad name, a past shutdown time",
    (desk) =>
      having(desk, [], async () => {
        const name = await desk.admin.ok(["create", ...NS, "-f", "-", "-o", "name"], sandbox({ generateName: "job-" }));
        assert.match(name, /^sandbox\.agents\.x-k8s\.io\/job-[a-z0-9]{5}\n$/);
        const strange = sandbox({ name: "x", image: "nowhere/image:1" });
        assert.match(await desk.admin.refused(["create", ...NS, "-f", "-"], strange), /nowhere\/image:1/);
        assert.match(
          await desk.admin.refused(["create", ...NS, "-f", "-"], sandbox({ name: "Bad_Name!!" })),
          /Invalid|invalid/,
        );
        const past = sandbox({ name: "x", spec: { shutdownTime: "2001-01-01T00:00:00Z" } });
        assert.match(await desk.admin.refused(["create", ...NS, "-f", "-"], past), /shutdownTime|past/);
        assert.equal((await desk.onNodes("team")).length, 1);
      }),
  ],
  [
    "13",
    "a dry run: at the client it is shown, at the server it is refused and claims nothing",
    (desk) =>
      having(desk, [], async () => {
        const body = sandbox({ name: "dry" });
        assert.match(
          await desk.admin.ok(["create", ...NS, "--dry-run=client", "-f", "-"], body),
          /created \(dry run\)/,
        );
        assert.match(
          await desk.admin.refused(["create", ...NS, "--dry-run=server", "-f", "-"], body),
          /dry-run is not supported/,
        );
        assert.equal((await desk.onNodes("team")).length, 0);
      }),
  ],
  [
    "14",
    "apply -f creates what is not there; again it claims no second one and says what it is",
    (desk) =>
      having(desk, [], async () => {
        const body = sandbox({ name: "applied" });
        assert.match(await desk.admin.ok(["apply", ...NS, "-f", "-"], body), /applied created/);
        const again = await desk.admin.run(["apply", ...NS, "-f", "-"], body);
        assert.equal((await desk.onNodes("team")).length, 1, "one claim");
        if (again.code !== 0) {
          assert.match(again.stderr, /only spec\.operatingMode and spec\.shutdownTime of a sandbox can be changed/);
        }
      }),
  ],
  [
    "15",
    "apply --server-side creates what is not there, and is a conflict where it is",
    (desk) =>
      having(desk, [], async () => {
        const body = sandbox({ name: "ssa" });
        assert.match(await desk.admin.ok(["apply", "--server-side", ...NS, "-f", "-"], body), /ssa serverside-applied/);
        assert.match(
          await desk.admin.refused(["apply", "--server-side", ...NS, "-f", "-"], body),
          /Conflict|conflict|AlreadyExists|already exists/,
        );
        assert.equal((await desk.onNodes("team")).length, 1, "one claim");
      }),
  ],
];

const READS: readonly Row[] = [
  [
    "20",
    "get: tables with Ready, Reason and Age, wide ones with node and claim, never a token",
    (desk) =>
      having(desk, ["one", "two"], async () => {
        const { admin } = desk;
        assert.match(
          await admin.ok(["get", "sandboxes", ...NS]),
          /^NAME\s+READY\s+REASON\s+AGE\none\s+True\s+Running\s+\d+s\ntwo\s/,
        );
        const wide = await admin.ok(["get", "sbx", ...NS, "-o", "wide"]);
        assert.match(wide, /^NAME\s+READY\s+REASON\s+AGE\s+NODE\s+TEMPLATE\s+CLAIM/);
        assert.match(wide, new RegExp(`node-[01]\\s+${IMAGE}\\s+sb_`));
        assert.match(await admin.ok(["get", "sandbox", "-A"]), /^NAMESPACE\s+NAME[\s\S]*team\s+one/);
        const tokens = await Promise.all(
          desk.rig.guests.nodes.map(async ({ admin: node }) =>
            Promise.all((await node.sandboxes()).map(({ id }) => node.sandbox(id))),
          ),
        );
        for (const form of ["wide", "yaml", "json"]) {
          const text = await admin.ok(["get", "sandboxes", ...NS, "-o", form]);
          for (const { token } of tokens.flat()) {
            assert.ok(token === undefined || !text.includes(token), `a token in ${form}`);
          }
        }
      }),
  ],
  [
    "21",
    "get in every other form: name, json, yaml, jsonpath, go-template, custom columns, sorted, in pages",
    (desk) =>
      having(desk, ["one", "two", "three"], async () => {
        const { admin } = desk;
        const get = (...args: readonly string[]): Promise<string> => admin.ok(["get", "sandboxes", ...NS, ...args]);
        assert.equal(
          await get("-o", "name"),
          `${["one", "three", "two"].map((name) => `sandbox.agents.x-k8s.io/${name}`).join("\n")}\n`,
        );
        const list = JSON.parse(await get("-o", "json")) as { items: { kind: string; metadata: { name: string } }[] };
        assert.deepEqual(
          list.items.map(({ kind, metadata }) => `${kind} ${metadata.name}`),
          ["Sandbox one", "Sandbox three", "Sandbox two"],
        );
        assert.match(await get("-o", "yaml"), /^apiVersion: v1\nitems:\n- apiVersion: agents\.x-k8s\.io\/v1beta1/);
        assert.equal(await get("-o", "jsonpath={.items[*].status.conditions[0].status}"), "True True True");
        assert.equal(await get("-o", "go-template={{len .items}}"), "3");
        assert.match(await get("-o", "custom-columns=N:.metadata.name,P:.status.nodeName"), /^N\s+P\none\s+node-/);
        assert.match(await get("--sort-by=.status.nodeName"), /^NAME[\s\S]*\sTrue/);
        assert.equal((await get("--chunk-size=1", "-o", "name")).trim().split("\n").length, 3);
        assert.match(await admin.ok(["get", "sandbox/two", ...NS, "--no-headers"]), /^two\s/);
      }),
  ],
  [
    "22",
    "describe shows what is known of it, and no token",
    (desk) =>
      having(desk, ["one"], async () => {
        const text = await desk.admin.ok(["describe", "sandbox", "one", ...NS]);
        assert.match(text, /Name:\s+one\nNamespace:\s+team/);
        assert.match(text, /Node Name:\s+node-[01]/);
        assert.doesNotMatch(text, /cocoonstack\.io\/token/);
      }),
  ],
  [
    "23",
    "selectors: labels of every grammar, names and nodes; what cannot be selected is refused",
    (desk) =>
      having(desk, ["one", "two"], async () => {
        const names = async (...args: readonly string[]): Promise<readonly string[]> =>
          (await desk.admin.ok(["get", "sandboxes", ...NS, "-o", "jsonpath={.items[*].metadata.name}", ...args]))
            .split(" ")
            .filter((name) => name !== "");
        const label = "sandbox.cocoonstack.io";
        assert.deepEqual(await names("-l", `${label}/claim=one`), ["one"]);
        assert.deepEqual(await names("-l", `${label}/claim in (one,two),${label}/phase=Running`), ["one", "two"]);
        assert.deepEqual(await names("-l", `${label}/claim notin (one)`), ["two"]);
        assert.deepEqual(await names("-l", `${label}/template`), ["one", "two"]);
        assert.deepEqual(await names("-l", `!${label}/node`), []);
        assert.deepEqual(await names("--field-selector=metadata.name=two"), ["two"]);
        const [one] = JSON.parse(`[${await desk.admin.ok(["get", "sandbox", "one", ...NS, "-o", "json"])}]`) as [
          { status: { nodeName: string } },
        ];
        assert.ok((await names(`--field-selector=status.nodeName=${one.status.nodeName}`)).includes("one"));
        assert.match(await desk.admin.refused(["get", "sandboxes", ...NS, "--field-selector=spec.x=1"]), /spec\.x/);
      }),
  ],
  [
    "24",
    "get -w shows every object once, then what comes and goes",
    (desk) =>
      having(desk, ["one", "two"], async () => {
        // What a node publishes of a sandbox may say more than what its create answered.
        await delay(2_000);
        const watch = await desk.admin.start(["get", "sandboxes", ...NS, "-w", "-o", "name"]);
        try {
          await waitFor("both", () => watch.stdout().includes("/one") && watch.stdout().includes("/two"), 10_000);
          await delay(3_000);
          assert.equal(watch.stdout().trim().split("\n").length, 2, `a double print:\n${watch.stdout()}`);
          await desk.admin.ok(["create", ...NS, "-f", "-"], sandbox({ name: "late" }));
          await waitFor("the new one", () => watch.stdout().includes("/late"), 10_000);
          await desk.admin.ok(["delete", "sandbox", "late", ...NS]);
          await delay(1_500);
          assert.ok(watch.running(), `the watch ended: ${watch.tail()}`);
        } finally {
          await watch.stop(1_000);
        }
      }),
  ],
  [
    "25",
    "get -w as a table: one line for each change, the head once",
    (desk) =>
      having(desk, ["one"], async () => {
        const watch = await desk.admin.start(["get", "sandboxes", ...NS, "-w"]);
        try {
          await waitFor("the first", () => watch.stdout().includes("one"), 10_000);
          await desk.admin.ok(
            ["create", "--raw", `/apis/${GROUP_VERSION}/namespaces/team/sandboxes/one/pause`, "-f", "-"],
            "{}",
          );
          await waitFor("the pause", () => /one\s+False\s+Hibernated/.test(watch.stdout()), 10_000);
          assert.equal(watch.stdout().match(/^NAME/gm)?.length, 1, watch.stdout());
        } finally {
          await watch.stop(1_000);
        }
      }),
  ],
  [
    "26",
    "get all has them",
    (desk) =>
      having(desk, ["one"], async () => {
        assert.match(await desk.admin.ok(["get", "all", ...NS]), /^(sandbox\.agents\.x-k8s\.io\/)?one\s/m);
      }),
  ],
  [
    "27",
    "wait for Ready, for a phase by path, and for the end",
    (desk) =>
      having(desk, ["one"], async () => {
        const { admin } = desk;
        assert.match(
          await admin.ok(["wait", "sandbox/one", ...NS, "--for=condition=Ready", "--timeout=15s"]),
          /condition met/,
        );
        const paused = admin.ok(["wait", "sandbox/one", ...NS, "--for=condition=Ready=false", "--timeout=20s"]);
        await admin.ok(
          ["create", "--raw", `/apis/${GROUP_VERSION}/namespaces/team/sandboxes/one/pause`, "-f", "-"],
          "{}",
        );
        await paused;
        await admin.ok([
          "wait",
          "sandbox/one",
          ...NS,
          "--for=jsonpath={.status.conditions[0].reason}=Hibernated",
          "--timeout=15s",
        ]);
        const gone = admin.ok(["wait", "sandbox/one", ...NS, "--for=delete", "--timeout=20s"]);
        await delay(500);
        await admin.ok(["delete", "sandbox", "one", ...NS]);
        await gone;
        assert.match(
          await admin.refused(["wait", "sandbox/one", ...NS, "--for=condition=Ready", "--timeout=2s"]),
          /NotFound/,
        );
      }),
  ],
];

const VERBS: readonly Row[] = [
  [
    "30",
    "pause, resume, fork and snapshot as raw creates",
    (desk) =>
      having(desk, ["one"], async () => {
        const raw = async (name: string, verb: string, body: string): Promise<Record<string, unknown>> =>
          JSON.parse(
            await desk.admin.ok(
              ["create", "--raw", `/apis/${GROUP_VERSION}/namespaces/team/sandboxes/${name}/${verb}`, "-f", "-"],
              body,
            ),
          ) as Record<string, unknown>;
        assert.equal((await raw("one", "pause", "{}"))["kind"], "SandboxPauseOptions");
        assert.equal((await desk.onNodes("team"))[0]?.hibernated, true);
        await raw("one", "pause", "{}");
        assert.equal((await raw("one", "resume", "{}"))["kind"], "SandboxResumeOptions");
        assert.notEqual((await desk.onNodes("team"))[0]?.hibernated, true);
        const fork = await raw("one", "fork", '{"count":2,"ttlSeconds":60}');
        assert.equal(fork["kind"], "SandboxForkResult");
        const children = fork["children"] as { sandboxID: string; nodeName: string; token: string }[];
        assert.equal(children.length, 2);
        assert.ok(children.every(({ token, nodeName }) => token !== "" && nodeName.startsWith("node-")));
        const snapshot = await raw("one", "snapshot", '{"name":"kept"}');
        assert.deepEqual([snapshot["kind"], snapshot["name"]], ["SandboxSnapshotResult", "kept"]);
        assert.match(
          await desk.admin.refused(
            ["create", "--raw", `/apis/${GROUP_VERSION}/namespaces/team/sandboxes/one/promote`, "-f", "-"],
            "{}",
          ),
          /NotFound|could not find/,
        );
      }),
  ],
  [
    "31",
    "patch: shutdownTime is the lease, operatingMode pauses and wakes; everything else is refused",
    (desk) =>
      having(desk, ["one"], async () => {
        const patch = (body: object): readonly string[] => [
          "patch",
          "sandbox",
          "one",
          ...NS,
          "--type=merge",
          "-p",
          JSON.stringify(body),
        ];
        const at = new Date(Date.now() + 900_000);
        await desk.admin.ok(patch({ spec: { shutdownTime: `${at.toISOString().slice(0, 19)}Z` } }));
        const left = Date.parse((await desk.onNodes("team"))[0]?.deadline ?? "") - Date.now();
        assert.ok(Math.abs(left - 900_000) < 10_000, `${left} ms are left`);
        await desk.admin.ok(patch({ spec: { operatingMode: "Suspended" } }));
        assert.equal((await desk.onNodes("team"))[0]?.hibernated, true);
        await desk.admin.ok(patch({ spec: { operatingMode: "Running" } }));
        assert.notEqual((await desk.onNodes("team"))[0]?.hibernated, true);
        await desk.admin.refused(patch({ spec: { service: true } }));
        await desk.admin.refused(["label", "sandbox", "one", ...NS, "a=b"]);
        await desk.admin.refused(["annotate", "sandbox", "one", ...NS, "a=b"]);
        await desk.admin.refused(["replace", ...NS, "-f", "-"], sandbox({ name: "one" }));
      }),
  ],
  [
    "32",
    "delete: one, by label, all; it waits until each is gone",
    (desk) =>
      having(desk, ["one", "two", "three", "four"], async () => {
        const { admin } = desk;
        assert.match(await admin.ok(["delete", "sandbox", "one", ...NS]), /"one" deleted/);
        assert.deepEqual(
          (await desk.onNodes("team")).map(({ claim_ref = "" }) => claim_ref).toSorted((a, b) => (a < b ? -1 : 1)),
          ["team/four", "team/three", "team/two"],
        );
        assert.match(await admin.refused(["delete", "sandbox", "one", ...NS]), /not found/);
        await admin.ok(["delete", "sandboxes", ...NS, "-l", "sandbox.cocoonstack.io/claim=two"]);
        assert.equal((await desk.onNodes("team")).length, 2);
        assert.match(
          await admin.refused(["delete", "sandbox", "three", ...NS, "--dry-run=server"]),
          /dry-run is not supported/,
        );
        await admin.ok(["delete", "sandboxes", "--all", ...NS]);
        assert.equal((await desk.onNodes("team")).length, 0);
        await admin.ok(["delete", ...NS, "--ignore-not-found", "-f", "-"], sandbox({ name: "one" }));
      }),
  ],
];

/** Every row of one version, over a rig of its own. Ids begin with the version, as `K32-01`. */
export function kubectlRows(context: ControlContext, minor: KubeMinor): HeldRows {
  const label = minor.replace(".", "").slice(1);
  const held = heldRig(context, `kubectl-${label}`, { nodes: 2, warm: 4 });
  const open: AsyncDisposable[] = [];
  let desk: Promise<Desk> | undefined;
  const ready = (): Promise<Desk> =>
    (desk ??= (async () => {
      const rig = await held.rig();
      const shim = await rig.shim();
      const as = async (name: string, credential: Parameters<Shim["kubeconfig"]>[1]): Promise<Kubectl> => {
        const kubectl = await openKubectl(context.set, minor, await shim.kubeconfig(name, credential));
        open.push(kubectl);
        return kubectl;
      };
      return {
        rig,
        shim,
        admin: await as("admin", { token: TOKENS.admin }),
        reader: await as("reader", { token: TOKENS.reader }),
        nobody: await as("nobody", { token: TOKENS.nobody }),
        onNodes: (namespace) => rig.guests.sandboxes(namespace),
      };
    })());
  const rows = [...SAFE_READS, ...CREATES, ...READS, ...VERBS].map(([id, title, run]): HarnessRow => ({
    id: `K${label}-${id}`,
    title: `kubectl ${minor}: ${title}`,
    run: async () => run(await ready()),
  }));
  return {
    rows,
    close: async () => {
      const started = await desk?.catch(() => undefined);
      await started?.shim.process.stop(5_000);
      await Promise.all(open.map((one) => one[Symbol.asyncDispose]()));
      await held.close();
    },
  };
}
