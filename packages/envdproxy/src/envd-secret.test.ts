import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadEnvdSecret } from "./envd-secret.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "envd-secret-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test("no file is no secret", async () => {
  expect(await loadEnvdSecret("")).toBeUndefined();
});

test("white space around the secret is dropped", async () => {
  const file = join(folder, "secret");
  await writeFile(file, " key \r\n");
  expect(await loadEnvdSecret(file)).toBe("key");
});

test("a blank file is refused", async () => {
  const file = join(folder, "blank");
  await writeFile(file, " \n");
  await expect(loadEnvdSecret(file)).rejects.toMatchObject({
    code: "secret_file",
    message: expect.stringContaining(file),
  });
});

test("a file that can not be read is named", async () => {
  const file = join(folder, "none");
  await expect(loadEnvdSecret(file)).rejects.toMatchObject({
    code: "secret_file",
    message: expect.stringContaining(file),
  });
});
