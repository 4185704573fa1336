import { execFile } from "node:child_process";
import { access, cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const execute = promisify(execFile);

/** Runs a program; a failure carries what it printed. */
async function run(
  program: string,
  args: readonly string[],
  options: { cwd: string; timeout?: number },
): Promise<{ stdout: string }> {
  try {
    return await execute(program, args, { ...options, encoding: "utf8", maxBuffer: 16 * 1024 * 1024 });
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
    throw new Error(`${program} ${args.join(" ")} failed\n${stdout}\n${stderr}`, { cause: error });
  }
}

const root = new URL("../../../", import.meta.url).pathname;
const here = new URL("./consumer/", import.meta.url).pathname;

/** The pinned Node 22 that this package depends on, and the Node that runs the tests. */
function nodeBinaries(): { release: string; binary: string }[] {
  const require = createRequire(import.meta.url);
  const arch = process.arch === "arm64" ? "arm64" : "x64";
  const node22 = join(dirname(require.resolve(`node-22-linux-${arch}/package.json`)), "bin/node");
  return [
    { release: "22", binary: node22 },
    { release: "24", binary: process.execPath },
  ];
}

let folder = "";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "consumer-"));
  const manifest = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { packageManager: string };
  const versions = JSON.parse(await readFile(join(root, "node_modules/typescript-7/package.json"), "utf8")) as {
    version: string;
  };
  await run(
    "npx",
    [
      "-y",
      manifest.packageManager,
      "--recursive",
      "--filter",
      "@org/e2bcompat...",
      "pack",
      "--pack-destination",
      folder,
    ],
    {
      cwd: root,
    },
  );
  const tarballs: Record<string, string> = {};
  for (const file of await readdir(folder)) {
    const name = /^org-(.+)-\d+\.\d+\.\d+.*\.tgz$/.exec(file)?.[1];
    if (name !== undefined) tarballs[`@org/${name}`] = `file:${join(folder, file)}`;
  }
  await cp(join(here, "consumer.ts"), join(folder, "consumer.ts"));
  await writeFile(
    join(folder, "package.json"),
    JSON.stringify({
      type: "module",
      dependencies: { ...tarballs, hono: "^4", "@hono/node-server": "^2" },
      devDependencies: { typescript: versions.version, "@types/node": "^24" },
      // The packages name each other by version; here each of them is the tarball.
      overrides: tarballs,
    }),
  );
  await writeFile(
    join(folder, "tsconfig.json"),
    JSON.stringify({
      compilerOptions: {
        strict: true,
        exactOptionalPropertyTypes: true,
        noUncheckedIndexedAccess: true,
        module: "nodenext",
        target: "es2023",
        types: ["node"],
        outDir: "out",
      },
      include: ["consumer.ts"],
    }),
  );
  await run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", "--ignore-scripts"], { cwd: folder });
  // Declarations are checked as well: the configuration does not skip them. An error ends the set-up with its text.
  await run(process.execPath, [join(folder, "node_modules/typescript/bin/tsc"), "-p", ".", "--noEmitOnError"], {
    cwd: folder,
  });
}, 300_000);

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

test("what a consumer of the control plane installs is that package and the four behind it", async () => {
  const packed = (await readdir(folder)).filter((file) => file.endsWith(".tgz"));
  expect(packed.map((file) => file.replace(/^org-|-\d.*$/g, "")).sort()).toEqual([
    "e2bcompat",
    "envd-client",
    "sandbox-address",
    "sandboxd-client",
    "scale",
  ]);
});

test("a consumer outside the workspace type-checks against the packed libraries", async () => {
  await expect(access(join(folder, "out/consumer.js"))).resolves.toBeUndefined();
});

describe.each(nodeBinaries())("on Node $release", ({ release, binary }) => {
  test("the packed control plane creates sandboxes in a Hono server and in a plain one", async () => {
    const { stdout } = await run(binary, ["out/consumer.js"], { cwd: folder, timeout: 60_000 });
    const report = JSON.parse(stdout) as { node: string; answers: Record<string, unknown>[]; hello: string };
    expect(report.node).toMatch(new RegExp(`^v${release}\\.`));
    expect(report.hello).toBe("hello");
    expect(report.answers).toHaveLength(2);
    for (const answer of report.answers) {
      expect(answer).toMatchObject({
        status: 201,
        refused: 401,
        unknown: 404,
        body: { templateID: "image:1", alias: "base", domain: "sandbox.test", envdVersion: expect.any(String) },
      });
    }
  }, 120_000);
});
