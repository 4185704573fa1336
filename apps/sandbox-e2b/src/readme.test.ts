import { readFile, writeFile } from "node:fs/promises";
import { withFlagTables } from "@org/command-line";
import { expect, test } from "vitest";
import { programSpec } from "./flags.ts";

const PAGES = ["../README.md", "../../../docs/e2b-compat.md"];

// After a change of flags: UPDATE_README=1 vitest run apps/sandbox-e2b/src/readme.test.ts
test.each(PAGES)("%s has the flags of the program", async (path) => {
  const file = new URL(path, import.meta.url);
  const page = await readFile(file, "utf8");
  const current = withFlagTables(page, programSpec("0.0.0"));
  if (process.env["UPDATE_README"] === "1") await writeFile(file, current);
  else expect(page).toBe(current);
});
