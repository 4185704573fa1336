import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = new URL("..", import.meta.url).pathname;
const run = promisify(execFile);

interface Violation {
  readonly from: string;
  readonly rule: { readonly name: string };
}

/** A copy of the sources with the same package links, so that a planted file never touches the real tree. */
async function copyTree(): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), "import-rules-"));
  await symlink(join(root, "node_modules"), join(copy, "node_modules"));
  for (const file of [".dependency-cruiser.cjs", "tsconfig.base.json", "package.json"]) {
    await cp(join(root, file), join(copy, file));
  }
  for (const group of ["packages", "apps"]) {
    for (const name of await readdir(join(root, group))) {
      const [from, to] = [join(root, group, name), join(copy, group, name)];
      await mkdir(to, { recursive: true });
      for (const part of ["package.json", "src", "node_modules"]) {
        await cp(join(from, part), join(to, part), { recursive: true, verbatimSymlinks: true, force: true }).catch(
          (error: NodeJS.ErrnoException) => {
            if (error.code !== "ENOENT") throw error;
          },
        );
      }
    }
  }
  return copy;
}

async function cruise(
  tree: string,
  config = ".dependency-cruiser.cjs",
): Promise<{ violations: Violation[]; modules: number }> {
  const { stdout } = await run(
    join(root, "node_modules/.bin/depcruise"),
    ["packages", "apps", "--config", config, "--output-type", "json"],
    { cwd: tree, maxBuffer: 256 * 1024 * 1024 },
  ).catch((error: { stdout?: string }) => {
    if (error.stdout === undefined || error.stdout === "") throw error;
    return { stdout: error.stdout };
  });
  const report = JSON.parse(stdout) as { modules: unknown[]; summary: { violations: Violation[] } };
  return { violations: report.summary.violations, modules: report.modules.length };
}

/** Each line plants one file and names the rule that must catch it. */
const planted: readonly { file: string; source: string; rule: string; why: string }[] = [
  {
    why: "a direct import",
    file: "apps/sandbox-e2b/src/planted-direct.ts",
    source: 'import * as x from "@org/kubeinventory"; export { x };',
    rule: "sandbox-e2b-never-kubernetes",
  },
  {
    why: "a dynamic import",
    file: "apps/sandbox-e2b/src/planted-dynamic.ts",
    source: 'export const x = import("@org/kubeinventory");',
    rule: "sandbox-e2b-never-kubernetes",
  },
  {
    why: "a type-only import",
    file: "apps/sandbox-e2b/src/planted-type.ts",
    source: 'import type * as x from "@org/kubeinventory"; export type { x };',
    rule: "sandbox-e2b-never-kubernetes",
  },
  {
    why: "an import of the aggregated API",
    file: "apps/sandbox-e2b/src/planted-apiserver.ts",
    source: 'import type * as x from "@org/sandbox-apiserver"; export type { x };',
    rule: "sandbox-e2b-never-kubernetes",
  },
  {
    why: "an import of the driver of warm pools",
    file: "apps/sandbox-e2b/src/planted-driver.ts",
    source: 'import * as x from "@org/warm-pool-driver"; export { x };',
    rule: "sandbox-e2b-never-kubernetes",
  },
  {
    why: "an import through another package",
    file: "apps/sandbox-e2b/src/planted-through.ts",
    source: 'export * as x from "@org/meshinventory";',
    rule: "sandbox-e2b-never-kubernetes",
  },
  {
    why: "a control plane that knows a source",
    file: "packages/e2bcompat/src/planted.ts",
    source: 'export * as x from "@org/meshinventory";',
    rule: "e2bcompat-imports",
  },
  {
    why: "a data plane that knows the control plane by its types",
    file: "packages/envdproxy/src/planted.ts",
    source: 'import type * as x from "@org/e2bcompat"; export type { x };',
    rule: "envdproxy-imports",
  },
  {
    why: "a leaf with a workspace import",
    file: "packages/sandboxd-client/src/planted.ts",
    source: 'import type * as x from "@org/scale"; export type { x };',
    rule: "sandboxd-client-imports",
  },
  {
    why: "a core that knows the node's client",
    file: "packages/scale/src/planted.ts",
    source: 'import type * as x from "@org/sandboxd-client"; export type { x };',
    rule: "scale-core-is-alone",
  },
  {
    why: "a static import of the development node",
    file: "apps/sandbox-e2b/src/planted-devnode.ts",
    source: 'import * as x from "@org/devnode"; export { x };',
    rule: "devnode-only-dynamically",
  },
  {
    why: "a static import of the code interpreter",
    file: "apps/sandbox-e2b/src/planted-interpreter.ts",
    source: 'import * as x from "@org/code-interpreter"; export { x };',
    rule: "devnode-only-dynamically",
  },
  {
    why: "a development node that knows what its guests run",
    file: "packages/devnode/src/planted-interpreter.ts",
    source: 'import type * as x from "@org/code-interpreter"; export type { x };',
    rule: "devnode-imports",
  },
  {
    why: "a package that imports an app",
    file: "packages/meshinventory/src/planted-app.ts",
    source: 'export const x = import("../../../apps/sandbox-e2b/src/main.ts");',
    rule: "apps-are-not-imported",
  },
  {
    why: "a path into a neighbour's folder",
    file: "packages/e2bcompat/src/planted-path.ts",
    source: 'export * as x from "../../scale/src/index.ts";',
    rule: "no-neighbours-sources",
  },
  {
    why: "a test double in product code",
    file: "packages/scale/src/planted-double.ts",
    source: 'export * as x from "./testing/index.ts";',
    rule: "test-doubles-in-tests-only",
  },
  {
    why: "an import that leads nowhere",
    file: "packages/scale/src/planted-nowhere.ts",
    source: 'export * as x from "./nowhere.ts";',
    rule: "not-to-unresolvable",
  },
];

let violations: Violation[] = [];
let copy = "";

beforeAll(async () => {
  copy = await copyTree();
  for (const { file, source } of planted) await writeFile(join(copy, file), `${source}\n`);
  // The link an import "through another package" needs: meshinventory starts to re-export Kubernetes types, and the
  // packages that are planted to import what their manifest does not declare get the link as a hoisted install would.
  await writeFile(
    join(copy, "packages/meshinventory/src/index.ts"),
    `${await readFile(join(copy, "packages/meshinventory/src/index.ts"), "utf8")}\nexport type * as planted from "@org/kubeinventory";\n`,
  );
  for (const [from, to] of [
    ["apps/sandbox-e2b", "kubeinventory"],
    ["apps/sandbox-e2b", "sandbox-apiserver"],
    ["apps/sandbox-e2b", "warm-pool-driver"],
    ["packages/meshinventory", "kubeinventory"],
    ["packages/e2bcompat", "meshinventory"],
    ["packages/envdproxy", "e2bcompat"],
    ["packages/sandboxd-client", "scale"],
    ["packages/devnode", "code-interpreter"],
  ] as const) {
    await mkdir(join(copy, from, "node_modules/@org"), { recursive: true });
    await symlink(join(copy, "packages", to), join(copy, from, "node_modules/@org", to));
  }
  ({ violations } = await cruise(copy));
}, 120_000);

afterAll(async () => {
  await rm(copy, { recursive: true, force: true });
});

test.each(planted)("$why breaks the rule $rule", ({ file, rule }) => {
  const broken = violations.filter((violation) => violation.from === file).map((violation) => violation.rule.name);
  expect(broken).toContain(rule);
});

test("the tree as it is breaks no rule, and all of it was looked at", async () => {
  const clean = await cruise(root);
  expect(clean.violations).toEqual([]);
  expect(clean.modules).toBeGreaterThan(100);
}, 120_000);

test("the query that finds no Kubernetes code behind sandbox-e2b finds it behind apiserver-shim", async () => {
  const tree = await copyTree();
  try {
    const rules = await readFile(join(tree, ".dependency-cruiser.cjs"), "utf8");
    const turned = rules.replace(
      'from: { path: "^apps/sandbox-e2b/" },\n      to: { path: kubernetes',
      'from: { path: "^apps/apiserver-shim/" },\n      to: { path: kubernetes',
    );
    expect(turned).not.toBe(rules);
    await writeFile(join(tree, "turned.cjs"), turned);
    const found = await cruise(tree, "turned.cjs");
    expect(found.violations.map((violation) => violation.rule.name)).toContain("sandbox-e2b-never-kubernetes");
  } finally {
    await rm(tree, { recursive: true, force: true });
  }
}, 120_000);
