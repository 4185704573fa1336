import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { NODE_FLAGS } from "./remote.ts";

test("the measured programs run with Node's flags of the sandbox-e2b bin", async () => {
  const bin = await readFile(new URL("../../../apps/sandbox-e2b/bin/sandbox-e2b", import.meta.url), "utf8");
  expect(bin).toContain(`exec node ${NODE_FLAGS.join(" ")} -- `);
});
