import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = new URL("..", import.meta.url).pathname;

interface Manifest {
  readonly name: string;
  readonly private?: boolean;
  readonly files?: readonly string[];
  readonly exports?: Readonly<Record<string, unknown>>;
  readonly dependencies?: Record<string, string>;
}

async function manifests(): Promise<Map<string, Manifest>> {
  const found = new Map<string, Manifest>();
  for (const group of ["packages", "apps"]) {
    for (const name of await readdir(join(root, group))) {
      const manifest = JSON.parse(await readFile(join(root, group, name, "package.json"), "utf8")) as Manifest;
      found.set(manifest.name, manifest);
    }
  }
  return found;
}

/** Every workspace and outside dependency behind a package, over any number of workspace packages. */
function behind(name: string, all: Map<string, Manifest>, seen: Set<string> = new Set()): Set<string> {
  for (const dependency of Object.keys(all.get(name)?.dependencies ?? {})) {
    if (seen.has(dependency)) continue;
    seen.add(dependency);
    behind(dependency, all, seen);
  }
  return seen;
}

test("no manifest behind sandbox-e2b names Kubernetes code, and one behind apiserver-shim does", async () => {
  const all = await manifests();
  const ofKubernetes = new Set(["@org/kubeinventory", "@org/sandbox-apiserver", "@org/warm-pool-driver"]);
  const kubernetes = (name: string): string[] =>
    [...behind(name, all)].filter(
      (dependency) => ofKubernetes.has(dependency) || dependency.startsWith("@kubernetes/"),
    );
  expect(kubernetes("@org/sandbox-e2b")).toEqual([]);
  expect(kubernetes("@org/apiserver-shim")).toContain("@org/kubeinventory");
});

test("no library drags the development node along", async () => {
  const all = await manifests();
  const libraries = ["@org/e2bcompat", "@org/envdproxy", "@org/meshinventory", "@org/scale", "@org/envd-proxy"];
  for (const name of libraries) expect([...behind(name, all)]).not.toContain("@org/devnode");
});

test("nobody who installs a package gets its tests, and doubles only where they are an entry", async () => {
  const published = [...(await manifests()).values()].filter((manifest) => manifest.private !== true);
  expect(published.length).toBeGreaterThan(10);
  for (const { name, files = [], exports = {} } of published) {
    const doubles = await readdir(join(root, name.replace("@org/", "packages/"), "src/testing")).catch(() => []);
    const wanted = doubles.length > 0 && exports["./testing"] === undefined ? ["!dist/testing"] : [];
    expect(files, name).toEqual(expect.arrayContaining(["dist", "!dist/**/*.test.d.ts", ...wanted]));
  }
});
