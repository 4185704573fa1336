import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { fromJson, toJson } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";

import { ProcessEventSchema, StartRequestSchema } from "./index.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const bin = join(root, "node_modules", ".bin");

async function tree(dir: string): Promise<Record<string, string>> {
  const names = (await readdir(dir)).sort();
  return Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, await readFile(join(dir, name), "utf8")])),
  );
}

describe("generated code", () => {
  it.skipIf(!existsSync(join(bin, "buf")))("is what the schemas give (without buf: not checked)", async () => {
    const out = await mkdtemp(join(tmpdir(), "envd-gen-"));
    try {
      await promisify(execFile)(join(bin, "buf"), ["generate", "--output", out], {
        cwd: root,
        env: { ...process.env, PATH: `${bin}${delimiter}${process.env["PATH"] ?? ""}` },
      });
      expect(await tree(join(root, "gen"))).toEqual(await tree(join(out, "gen")));
    } finally {
      await rm(out, { recursive: true, force: true });
    }
  });

  it("reads what the SDKs put on the wire, unknown fields included", () => {
    const request = fromJson(
      StartRequestSchema,
      { process: { cmd: "/bin/bash", args: ["-l", "-c", "echo hi"], cwd: "/tmp" }, stdin: false, later: 1 },
      { ignoreUnknownFields: true },
    );
    expect(request.stdin).toBe(false);
    expect(request.process?.args).toEqual(["-l", "-c", "echo hi"]);
  });

  it.each([
    { end: { exited: true, status: "exit status 0" } },
    { end: { exitCode: 137, exited: true, status: "exit status 137", error: "exit status 137" } },
    { end: { exitCode: -1, status: "signal: killed", error: "signal: killed" } },
    { data: { stdout: "" } },
  ])("keeps an event as the daemon writes it: %j", (json) => {
    expect(toJson(ProcessEventSchema, fromJson(ProcessEventSchema, json))).toEqual(json);
  });
});
