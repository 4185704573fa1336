import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Finding } from "@org/doctor";
import { expect, test } from "vitest";
import { fakeNode } from "./testing/fake-node.ts";
import { scratchFolder, startProgram } from "./testing/program.ts";

const KEY = `e2b_${"5".repeat(40)}`;

async function files(folder: string): Promise<string[]> {
  await mkdir(folder, { recursive: true });
  const write = async (name: string, text: string): Promise<string> => {
    await writeFile(join(folder, name), `${text}\n`);
    return join(folder, name);
  };
  return [
    `--sandboxd-token-file=${await write("token", "token-of-the-nodes")}`,
    `--e2b-api-key-file=${await write("keys", KEY)}`,
    `--e2b-template-aliases=${await write("aliases", "base img small")}`,
    "--e2b-domain=sandbox.localhost",
  ];
}

test("doctor has nothing to mend in a service that is in order", async () => {
  await using folder = await scratchFolder();
  await using node = await fakeNode({ token: "token-of-the-nodes" });
  const flags = await files(folder.path);
  await using run = startProgram(["doctor", `--sandboxd-seeds=${node.address}`, "--claim=false", ...flags]);
  expect(await run.exited).toBe(0);
  expect(run.stdout).toContain("template base (img, small): 1 of 1 warm");
  expect(run.stdout).toMatch(/Nothing to mend, \d to look at, \d in order\./);
  expect(node.requests).not.toContain("POST /v1/claim");
});

test("doctor tells every fault with what to do, files that cannot be read among them, and ends with status 1", async () => {
  await using folder = await scratchFolder();
  await using node = await fakeNode({ token: "another-token" });
  const flags = await files(folder.path);
  const missing = join(folder.path, "no-such-pair");
  const tls = ["cert-file", "private-key-file"].map((name) => `--envd-proxy-tls-${name}=${missing}`);
  await using run = startProgram([
    "doctor",
    "--json",
    `--sandboxd-seeds=${node.address}`,
    "--envd-proxy-bind-address=:0",
    "--console-bind-address=127.0.0.1:0",
    ...tls,
    ...flags,
  ]);
  expect(await run.exited).toBe(1);
  const found = run.stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Finding);
  const faults = found.filter(({ level }) => level === "fault");
  expect(faults.map(({ check }) => check)).toEqual(["configuration", "configuration", "token"]);
  expect(faults.map(({ message }) => message)).toContainEqual(expect.stringContaining("needs a credential"));
  expect(faults.every(({ fix = "" }) => fix !== "")).toBe(true);
  expect(run.stderr).toContain("sandbox-e2b: 3 to mend, ");
  expect(run.stdout + run.stderr).not.toMatch(new RegExp(`${KEY}|token-of-the-nodes`));
});
