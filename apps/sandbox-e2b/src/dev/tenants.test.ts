import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { scratchFolder } from "../testing/program.ts";
import { parseTenants, readTenants } from "./tenants.ts";

test("a line is a name, a token and perhaps a limit", () => {
  const text = "\uFEFF# tenants\r\nacme  s3cret-a 5\r\n\r\n  bolt\ts3cret-b\n";
  expect(parseTenants(text, "f")).toEqual([
    { name: "acme", token: "s3cret-a", maxClaims: 5 },
    { name: "bolt", token: "s3cret-b", maxClaims: 0 },
  ]);
});

test.each([
  ["acme", "want name token [max_claims]"],
  ["acme s3cret 5 more", "want name token [max_claims]"],
  ["-acme s3cret", "the name is not valid"],
  ["acme s3cret -1", "max_claims must be a number that is not negative"],
  ["acme s3cret many", "max_claims must be a number that is not negative"],
  ["acme s3cret\nacme other", "tenant acme is there twice"],
  ["acme s3cret\nbolt s3cret", "tenant bolt has another's token"],
])("%j is refused by its line, without its token", (text, message) => {
  const line = text.split("\n").length;
  expect(() => parseTenants(text, "f")).toThrow(`tenant file "f", line ${line}: ${message}`);
  expect(() => parseTenants(text, "f")).not.toThrow("s3cret");
});

test("a file is read, and one that is missing is named", async () => {
  await using folder = await scratchFolder();
  const file = join(folder.path, "tenants");
  await expect(readTenants(file)).rejects.toThrow(`read tenant file "${file}"`);
  await writeFile(file, "acme t\n");
  expect(await readTenants(file)).toEqual([{ name: "acme", token: "t", maxClaims: 0 }]);
});
