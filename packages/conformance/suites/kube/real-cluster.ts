import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { parse } from "yaml";

import type { GuestMesh } from "../../src/guest-mesh.ts";
import { startGuestMesh } from "../../src/guest-mesh.ts";
import { newAuthorities } from "../../src/kube-users.ts";
import { type KubePublisher, startKubePublisher } from "../../src/kube-publisher.ts";
import { kubeconfigText } from "../../src/kube-standin.ts";
import { freePorts } from "../../src/ports.ts";
import type { ManagedProcess } from "../../src/processes.ts";
import { cleanEnv } from "../../src/programs.ts";
import { RIG } from "../../src/rig.ts";
import type { ControlContext } from "../control/context.ts";
import { Chart, type Members, NAMESPACE } from "./chart.ts";
import { type Kubectl, openKubectl } from "./kubectl.ts";

/** A kubeconfig of somebody who may everything on a kube-apiserver that exists for tests. */
export const REAL_CONFIG = "KUBE_REAL_CONFIG";

/** Commands of a shell that stop the API server and start it again. */
export const REAL_STOP = "KUBE_REAL_STOP";
export const REAL_START = "KUBE_REAL_START";

/** What the chart makes that a cluster without nodes can hold. */
const KINDS: readonly string[] = [
  "CustomResourceDefinition",
  "ServiceAccount",
  "ClusterRole",
  "ClusterRoleBinding",
  "Role",
  "RoleBinding",
];

/** People of the rows, as service accounts, and what they are bound to. */
const PEOPLE = ["admin", "reader", "nobody"] as const;

/** A real API server with the shim behind its aggregator, over nodes of this machine. */
export interface RealCluster extends AsyncDisposable {
  readonly root: Kubectl;
  /** Through the aggregator, by service accounts. */
  readonly as: Readonly<Record<(typeof PEOPLE)[number], Kubectl>>;
  readonly guests: GuestMesh;
  readonly publisher: KubePublisher;
  readonly shim: ManagedProcess;
  readonly shimUrl: string;
  readonly shimCa: string;
  readonly token: (account: string) => Promise<string>;
}

/**
 * Installs what the chart brings but for what needs nodes, starts the shim as its service account and registers it.
 * @throws when the cluster does not take it
 */
export async function openRealCluster({ set, programs, isolation }: ControlContext): Promise<RealCluster> {
  const config = process.env[REAL_CONFIG] ?? "";
  assert.notEqual(config, "", `set ${REAL_CONFIG}`);
  const dir = await mkdtemp(join(tmpdir(), "conformance-kube-real-"));
  const root = await openKubectl(set, "1.35", config);
  const { server, ca } = await clusterOf(config);
  const guests = await startGuestMesh(set, programs, "kube-real", { nodes: 2, warm: 4, isolation });
  const rendered = await new Chart().render();
  const objects = [...rendered.values()].filter(({ kind }) => KINDS.includes(String(kind)));
  await root.run(["create", "namespace", NAMESPACE]);
  await root.run(["create", "namespace", "team"]);
  for (const account of PEOPLE) {
    await root.run(["create", "serviceaccount", account, "-n", NAMESPACE]);
  }
  await root.ok(["apply", "-f", "-"], listOf([...objects.map(placed), ...POOL_DEFINITIONS, ...roles()]));

  const token = async (account: string): Promise<string> =>
    (await root.ok(["create", "token", account, "-n", NAMESPACE, "--duration=1h"])).trim();
  const put = async (name: string, text: string): Promise<string> => {
    const path = join(dir, name);
    await writeFile(path, text, { mode: 0o600 });
    return path;
  };
  const authorities = newAuthorities();
  const host = `sandbox-apiserver.${NAMESPACE}.svc`;
  const serving = authorities.serving.issue({ commonName: host, serverNames: [host, "localhost"] });
  const system = await put("system", kubeconfigText(server, ca, { token: await token("sandbox-apiserver") }));
  const [port = 0] = await freePorts(1);
  const shim = await set.start({
    name: "apiserver-shim of a real cluster",
    command: process.execPath,
    args: [
      programs.apiserverShim,
      "--bind-address=127.0.0.1",
      `--secure-port=${port}`,
      `--tls-cert-file=${await put("serving.crt", serving.cert)}`,
      `--tls-private-key-file=${await put("serving.key", serving.key)}`,
      `--authentication-kubeconfig=${system}`,
      `--authorization-kubeconfig=${system}`,
      `--sandboxd-token-file=${guests.files.tokenFile}`,
    ],
    env: cleanEnv({ KUBECONFIG: system, OPERATOR_LOG_LEVEL: "debug" }),
  });
  await shim.waitForOutput(/serving the aggregated API/, 120_000);
  const publisher = await startKubePublisher({
    kubeconfig: await put("publisher", await readFile(config, "utf8")),
    nodes: guests.nodes.map(({ admin }, index) => ({ name: `node-${index}`, address: admin.address })),
    token: RIG.nodeToken,
    everyMs: 1_000,
  });
  await root.ok(["apply", "-f", "-"], listOf(registration(port, authorities.serving.cert)));
  const person = async (name: string): Promise<Kubectl> =>
    openKubectl(set, "1.35", await put(`person-${name}`, kubeconfigText(server, ca, { token: await token(name) })));
  const as = { admin: await person("admin"), reader: await person("reader"), nobody: await person("nobody") };
  return {
    root,
    as,
    guests,
    publisher,
    shim,
    shimUrl: `https://127.0.0.1:${port}`,
    shimCa: authorities.serving.cert,
    token,
    [Symbol.asyncDispose]: async () => {
      await root.run(["delete", "apiservice", "v1beta1.agents.x-k8s.io", "--ignore-not-found"]);
      await root.run(["delete", "sandboxwarmpools", "--all", "-n", "team", "--ignore-not-found"]);
      await publisher[Symbol.asyncDispose]();
      await root.run(
        ["delete", "-f", "-", "--ignore-not-found", "--wait=false"],
        listOf([...objects.map(placed), ...roles()]),
      );
      await shim.stop(5_000);
      await guests[Symbol.asyncDispose]();
      await Promise.all([root, ...Object.values(as)].map((one) => one[Symbol.asyncDispose]()));
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Server and authority of a kubeconfig whose first cluster counts. */
async function clusterOf(path: string): Promise<{ readonly server: string; readonly ca: string }> {
  const { clusters } = parse(await readFile(path, "utf8")) as {
    readonly clusters: readonly { readonly cluster: Readonly<Record<string, string>> }[];
  };
  const cluster = clusters[0]?.cluster ?? {};
  const data = cluster["certificate-authority-data"];
  const file = cluster["certificate-authority"];
  const ca =
    data === undefined
      ? file === undefined
        ? ""
        : await readFile(file, "utf8")
      : Buffer.from(data, "base64").toString();
  return { server: cluster["server"] ?? "", ca };
}

function listOf(items: readonly unknown[]): string {
  return JSON.stringify({ apiVersion: "v1", kind: "List", items });
}

/** Helm leaves the namespace to who installs. */
function placed(object: Members): Members {
  const metadata = object["metadata"] as Members;
  const isNamespaced = ["ServiceAccount", "Role", "RoleBinding"].includes(String(object["kind"]));
  return isNamespaced && metadata["namespace"] === undefined
    ? { ...object, metadata: { ...metadata, namespace: NAMESPACE } }
    : object;
}

/** The aggregator reaches the shim through a service that is but a name of this machine. */
function registration(port: number, ca: string): readonly unknown[] {
  return [
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "sandbox-apiserver", namespace: NAMESPACE },
      spec: { type: "ExternalName", externalName: "localhost", ports: [{ port, protocol: "TCP" }] },
    },
    {
      apiVersion: "apiregistration.k8s.io/v1",
      kind: "APIService",
      metadata: { name: "v1beta1.agents.x-k8s.io" },
      spec: {
        group: "agents.x-k8s.io",
        version: "v1beta1",
        groupPriorityMinimum: 1000,
        versionPriority: 15,
        service: { name: "sandbox-apiserver", namespace: NAMESPACE, port },
        caBundle: Buffer.from(ca).toString("base64"),
      },
    },
  ];
}

function roles(): readonly unknown[] {
  const subjects = (name: string): readonly unknown[] => [{ kind: "ServiceAccount", name, namespace: NAMESPACE }];
  const role = (name: string, verbs: readonly string[]): readonly unknown[] => [
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "Role",
      metadata: { name: `conformance-${name}`, namespace: "team" },
      rules: [
        {
          apiGroups: ["agents.x-k8s.io"],
          resources: ["sandboxes", "sandboxes/pause", "sandboxes/resume", "sandboxes/fork", "sandboxes/snapshot"],
          verbs,
        },
      ],
    },
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "RoleBinding",
      metadata: { name: `conformance-${name}`, namespace: "team" },
      subjects: subjects(name),
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: `conformance-${name}` },
    },
  ];
  return [...role("admin", ["*"]), ...role("reader", ["get", "list", "watch"])];
}

/** The definitions of upstream's warm pools, as far as the driver reads them. */
const POOL_DEFINITIONS: readonly unknown[] = [
  definition("SandboxWarmPool", "sandboxwarmpools", true),
  definition("SandboxTemplate", "sandboxtemplates", false),
];

function definition(kind: string, plural: string, hasStatus: boolean): unknown {
  const group = "extensions.agents.x-k8s.io";
  const open = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
      versions: [
        {
          name: "v1beta1",
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: "object", properties: { spec: open, status: open } } },
          ...(hasStatus ? { subresources: { status: {} } } : {}),
        },
      ],
    },
  };
}
