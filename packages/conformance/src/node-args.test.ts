import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { readArgs } from "./args.ts";
import { loadNodeTarget } from "./node-args.ts";

describe("the flags of --suite node", () => {
  it("without an address nodes of its own are started", () => {
    expect(readArgs(["--suite=node"]).node).toBeUndefined();
  });

  it("take an address, its secrets and its peers", () => {
    const argv = ["--suite=node", "--url=http://10.0.0.1:7777", "--token-file=t", "--tenant-token-file=acme"];
    const more = ["--peer-url=10.0.0.2:7777", "--peer-url", "10.0.0.3:7777", "--template=base", "--max-claims=4"];
    expect(readArgs([...argv, ...more, "--keep-pools"]).node).toEqual({
      url: "http://10.0.0.1:7777",
      token: undefined,
      tokenFile: "t",
      peerUrls: ["10.0.0.2:7777", "10.0.0.3:7777"],
      tenantTokenFile: "acme",
      template: "base",
      maxClaims: 4,
      keepPools: true,
    });
  });

  it.each([
    [["--url=a:1"], "--url belongs to --suite node"],
    [["--suite=mesh", "--token=t"], "--token belongs to --suite node"],
    [["--suite=node", "--peer-url=a:1"], "--peer-url wants --url"],
    [["--suite=node", "--keep-pools"], "--keep-pools wants --url"],
    [["--suite=node", "--url=a:1", "--token=t", "--token-file=f"], "give one of them"],
    [["--suite=node", "--url=a:1", "--max-claims=0"], "--max-claims must be a number above 0"],
    [["--suite=node", "--url=a:1", "--max-claims=few"], '--max-claims must be a number above 0, not "few"'],
  ])("%j is refused", (argv, message) => {
    expect(() => readArgs(argv)).toThrow(message);
  });
});

describe("the files of --suite node", () => {
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "node-args-"));
  });
  afterAll(() => rm(dir, { recursive: true, force: true }));

  it("are read and trimmed", async () => {
    await writeFile(join(dir, "root"), " r00t\n");
    await writeFile(join(dir, "acme"), "acme-token\n");
    const argv = [`--token-file=${join(dir, "root")}`, `--tenant-token-file=${join(dir, "acme")}`];
    const args = readArgs(["--suite=node", "--url=a:1", ...argv]).node;
    expect(args && (await loadNodeTarget(args))).toMatchObject({
      url: "a:1",
      token: "r00t",
      tenantToken: "acme-token",
    });
  });

  it.each([
    ["missing", undefined, "read token file"],
    ["empty", "\n", "must hold a token alone"],
    ["pairs", "acme s3cret\n", "must hold a token alone"],
  ])("%s ones are named, what stands in them is not", async (name, text, message) => {
    const file = join(dir, name);
    if (text !== undefined) {
      await writeFile(file, text);
    }
    const args = readArgs(["--suite=node", "--url=a:1", `--token-file=${file}`]).node;
    const load = args === undefined ? Promise.resolve() : loadNodeTarget(args);
    await expect(load).rejects.toThrow(message);
    await expect(load).rejects.toThrow(file);
    await expect(load).rejects.not.toThrow("s3cret");
  });
});
