import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { readResults } from "./results.ts";
import { SUITES } from "./suites.ts";

const run = promisify(execFile);
const MAIN = fileURLToPath(new URL("main.ts", import.meta.url));
const ARGS = ["--conditions=@org/source", MAIN];

it("a quick run measures something in every suite and judges nothing", { timeout: 600_000 }, async () => {
  const folder = await mkdtemp(join(tmpdir(), "bench-"));
  try {
    const file = join(folder, "figures.json");
    const { stdout } = await run(process.execPath, [...ARGS, "--quick", "--strict", "--json", file]);
    const { machine, figures } = readResults(await readFile(file, "utf8"));
    expect(machine?.node).toBe(process.version);
    expect(figures.length).toBeGreaterThan(40);
    for (const figure of figures) {
      expect(figure.value, figure.name).not.toBeNaN();
      expect(figure.bar).toBeUndefined();
      expect(stdout).toContain(`"name":"${figure.name}"`);
    }
    expect(new Set(figures.map(({ name, fleet }) => `${name} ${fleet}`)).size).toBe(figures.length);
    // The table takes the same file and measures nothing.
    const again = await run(process.execPath, [...ARGS, "--from", file]);
    expect(again.stdout).toContain("figures, 0 with a bar");
  } finally {
    await rm(folder, { recursive: true });
  }
});

it("lists its suites, and names them for one that it does not know", async () => {
  const { stdout } = await run(process.execPath, [...ARGS, "--list"]);
  expect(stdout.trimEnd().split("\n")).toHaveLength(SUITES.length);
  const unknown = run(process.execPath, [...ARGS, "--only", "speed"]);
  await expect(unknown).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining("no suite speed") });
});
