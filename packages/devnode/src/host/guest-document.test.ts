import { mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { putInstanceDocument } from "./guest-document.ts";

const NAME = "instance-metadata.json";

test("is replaced as a whole and leaves nothing else behind", async () => {
  await using folder = temporaryFolder();
  mkdirSync(join(folder.path, "run"));
  for (const text of ["{}", '{"a": 1}']) {
    expect(await putInstanceDocument(folder.path, Buffer.from(text), undefined)).toBe(true);
    expect(readFileSync(join(folder.path, "run", NAME), "utf8")).toBe(text);
  }
  expect(readdirSync(join(folder.path, "run"))).toEqual([NAME]);
});

test.each(["a link to a folder of the host", "a file", "nothing"])(
  "is refused where the folder is %s",
  async (what) => {
    await using folder = temporaryFolder();
    const [tree, outside] = [join(folder.path, "tree"), join(folder.path, "outside")];
    mkdirSync(tree);
    mkdirSync(outside);
    if (what === "a file") {
      writeFileSync(join(tree, "run"), "");
    } else if (what !== "nothing") {
      symlinkSync(outside, join(tree, "run"));
    }
    expect(await putInstanceDocument(tree, Buffer.from("{}"), undefined)).toBe(false);
    expect(readdirSync(outside)).toEqual([]);
  },
);

test("replaces a link in its place, and not what that leads to", async () => {
  await using folder = temporaryFolder();
  const [tree, victim] = [join(folder.path, "tree"), join(folder.path, "victim")];
  mkdirSync(join(tree, "run"), { recursive: true });
  writeFileSync(victim, "untouched");
  symlinkSync(victim, join(tree, "run", NAME));
  expect(await putInstanceDocument(tree, Buffer.from("{}"), undefined)).toBe(true);
  expect([readFileSync(victim, "utf8"), readFileSync(join(tree, "run", NAME), "utf8")]).toEqual(["untouched", "{}"]);
  rmSync(join(tree, "run", NAME));
  mkdirSync(join(tree, "run", NAME));
  expect(await putInstanceDocument(tree, Buffer.from("{}"), undefined)).toBe(false);
  expect(readdirSync(join(tree, "run"))).toEqual([NAME]);
});
