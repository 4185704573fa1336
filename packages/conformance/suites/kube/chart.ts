import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";

import { parseAllDocuments } from "yaml";

import { SkipRow } from "../../src/harness-rows.ts";
import { KUBE_MINORS, kubeTools, type KubeMinor } from "../../src/kube-tools.ts";
import { cleanEnv } from "../../src/programs.ts";

/** Folder of the chart. */
export const CHART: string = fileURLToPath(new URL("../../../../apps/apiserver-shim/chart", import.meta.url));

/** Namespace that everything is rendered for. */
export const NAMESPACE = "sandbox-system";

/** Members of a rendered object. */
export type Members = Readonly<Record<string, unknown>>;

/** The objects of a rendered chart, by `Kind name`. */
export type Rendered = ReadonlyMap<string, Members>;

/** Values that switch the E2B API on, with what it needs. */
export const WITH_E2B: Readonly<Record<string, string>> = {
  "apiserver.e2b.enabled": "true",
  "apiserver.e2b.domain": "sandbox.example.com",
  "apiserver.e2b.apiKeySecret.name": "my-keys",
  "apiserver.e2b.envdSecret.secretName": "my-envd-secret",
};

/** What a run of helm came to. */
export interface HelmResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The chart, and the programs that render it. */
export class Chart {
  #helms: Promise<readonly string[]> | undefined;

  /** Every helm there is, oldest first. Skips the row when there is none. */
  helms(): Promise<readonly string[]> {
    return (this.#helms ??= findHelms());
  }

  /** Runs the newest helm, or a given one. */
  async helm(args: readonly string[], program?: string): Promise<HelmResult> {
    const path = program ?? (await this.helms()).at(-1);
    assert.ok(path !== undefined);
    return new Promise((resolve) => {
      execFile(path, args, { env: cleanEnv(), timeout: 60_000, maxBuffer: 1 << 24 }, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : typeof error.code === "number" ? error.code : -1, stdout, stderr });
      });
    });
  }

  /** The rendered objects. Labels that say whose an object is are checked and left out. */
  async render(values: Readonly<Record<string, string>> = {}, program?: string): Promise<Rendered> {
    const { code, stdout, stderr } = await this.helm(templateArgs(values), program);
    assert.equal(code, 0, stderr);
    const objects = new Map<string, Members>();
    for (const document of parseAllDocuments(stdout)) {
      assert.deepEqual(document.errors, []);
      const object: unknown = document.toJS();
      if (object !== null) {
        const name = nameOf(object as Members);
        assert.ok(!objects.has(name), `two objects are ${name}`);
        objects.set(name, withoutLabels(object as Members));
      }
    }
    return objects;
  }

  /** The error of a chart that must not render. */
  async renderError(values: Readonly<Record<string, string>>): Promise<string> {
    const { code, stdout, stderr } = await this.helm(templateArgs(values));
    assert.notEqual(code, 0, "it rendered");
    assert.equal(stdout, "");
    return stderr;
  }
}

/** Arguments of `helm template` for values by their path. */
export function templateArgs(values: Readonly<Record<string, string>> = {}): string[] {
  const sets = Object.entries(values).flatMap(([path, value]) => ["--set", `${path}=${value.replaceAll(",", "\\,")}`]);
  return ["template", "release", CHART, "--namespace", NAMESPACE, "--include-crds", ...sets];
}

async function findHelms(): Promise<readonly string[]> {
  const found = await Promise.all(KUBE_MINORS.map((minor: KubeMinor) => kubeTools(minor)));
  const paths = found.flatMap((tools) => (tools.kind === "ready" ? [tools.helm] : []));
  if (paths.length === 0) {
    throw new SkipRow(found.map((tools) => (tools.kind === "absent" ? tools.reason : "")).join("; "));
  }
  return paths;
}

/** An object by `Kind name`. */
export function objectOf(rendered: Rendered, name: string): Members {
  const object = rendered.get(name);
  assert.ok(object !== undefined, `there is no ${name} in ${[...rendered.keys()].join(", ")}`);
  return object;
}

/** What is at a path of members and places. */
export function at(object: unknown, ...path: readonly (string | number)[]): unknown {
  let value = object;
  for (const step of path) {
    assert.ok(typeof value === "object" && value !== null, `there is no ${path.join(".")}`);
    value = (value as Record<string | number, unknown>)[step];
  }
  return value;
}

/** Arguments of the first container of a Deployment. */
export function argsOf(rendered: Rendered, deployment: string): readonly string[] {
  const args = at(objectOf(rendered, `Deployment ${deployment}`), "spec", "template", "spec", "containers", 0, "args");
  return args as readonly string[];
}

function nameOf(object: Members): string {
  return `${String(object["kind"])} ${String(at(object, "metadata", "name"))}`;
}

/** Objects of the chart say so in five labels. The resource definition is installed as it is, and has none. */
function withoutLabels(object: Members): Members {
  const { labels, ...metadata } = object["metadata"] as Members;
  if (object["kind"] !== "CustomResourceDefinition") {
    assert.deepEqual(Object.keys(labels as object).toSorted(), [
      "app.kubernetes.io/instance",
      "app.kubernetes.io/managed-by",
      "app.kubernetes.io/name",
      "app.kubernetes.io/version",
      "helm.sh/chart",
    ]);
  }
  return { ...object, metadata };
}
