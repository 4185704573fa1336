import { readFile, writeFile } from "node:fs/promises";
import { withFlagTables } from "@org/command-line";
import { expect, test } from "vitest";
import { programSpec } from "./flags.ts";

const README = new URL("../README.md", import.meta.url);

// After a change of flags: UPDATE_README=1 vitest run apps/envd-proxy/src/readme.test.ts
test("the README has the flags of the program", async () => {
  const readme = await readFile(README, "utf8");
  const current = withFlagTables(readme, programSpec("0.0.0"));
  if (process.env["UPDATE_README"] === "1") await writeFile(README, current);
  else expect(readme).toBe(current);
});
