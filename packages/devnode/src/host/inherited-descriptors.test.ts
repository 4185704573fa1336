import { spawnSync } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { inheritedDescriptors } from "./inherited-descriptors.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const source = fileURLToPath(new URL("./inherited-descriptors.ts", import.meta.url));

test.runIf(process.platform === "linux")("are found whatever their numbers are, and no others", async () => {
  await using folder = temporaryFolder();
  const fd = openSync(folder.path, "r");
  try {
    const stdio: ("ignore" | "pipe" | "inherit" | number)[] = Array.from({ length: 301 }, () => "ignore" as const);
    stdio[1] = "pipe";
    stdio[2] = "inherit";
    stdio[3] = fd;
    stdio[40] = fd;
    stdio[300] = fd;
    const script = `const { inheritedDescriptors } = await import(${JSON.stringify(source)});
      const own = (await import("node:fs")).openSync("/", "r");
      console.log(JSON.stringify({ found: inheritedDescriptors(), own }));`;
    const { stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", script], { stdio, encoding: "utf8" });
    const { found, own } = JSON.parse(stdout) as { found: number[]; own: number };
    // Node itself closes low ones to its children.
    expect(found).toEqual(expect.arrayContaining([40, 300]));
    expect(found).not.toContain(own);
  } finally {
    closeSync(fd);
  }
});

test("are none where the system does not tell", async () => {
  await using folder = temporaryFolder();
  expect(inheritedDescriptors(folder.path)).toEqual([]);
});
