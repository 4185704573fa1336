import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StaticInventorySource } from "@org/scale/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BuildFlags } from "./build-flags.ts";
import { Flags } from "./flags.ts";

const S3 = "e2b-build-store-s3";

let folder: string;
let credentials: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "build-flags-"));
  credentials = join(folder, "credentials");
  await writeFile(credentials, "[default]\naws_access_key_id = AK\naws_secret_access_key = hunter2\n");
});

afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

describe("build flags", () => {
  it("are off by default, whatever else is set, and then touch nothing", async () => {
    const directory = join(folder, "uploads");
    const flags = { "e2b-build-dir": directory, [`${S3}-bucket`]: "uploads" };
    expect(await BuildFlags.from({}).load()).toBeUndefined();
    expect(await BuildFlags.from(flags).load()).toBeUndefined();
    await expect(stat(directory)).rejects.toThrow("ENOENT");
  });

  it("give limits, and a folder that is made", async () => {
    const directory = join(folder, "deep", "uploads");
    const flags = BuildFlags.from({
      "e2b-builds": true,
      "e2b-build-parallel": "3",
      "e2b-build-timeout": "1h30m",
      "e2b-build-log-lines": "50",
      "e2b-build-dir": directory,
      "e2b-build-upload-max": "4096",
    });
    expect(await flags.load()).toStrictEqual({
      parallel: 3,
      timeoutSeconds: 5400,
      logLines: 50,
      uploads: { directory, maxBytes: 4096 },
    });
    expect((await stat(directory)).isDirectory()).toBe(true);
  });

  it("may leave the store out", async () => {
    const options = { parallel: 2, timeoutSeconds: 1800, logLines: 10_000, uploads: undefined };
    expect(await BuildFlags.from({ "e2b-builds": true }).load()).toStrictEqual(options);
  });

  it("take empty values for defaults, as unit files set them", async () => {
    const empty = Object.fromEntries(
      Object.entries(BuildFlags.options()).flatMap(([name, { type }]) => (type === "string" ? [[name, ""]] : [])),
    );
    expect(await BuildFlags.from({ ...empty, "e2b-builds": true }).load()).toMatchObject({
      parallel: 2,
      logLines: 10_000,
    });
  });

  it.each([
    [{ [`${S3}-region`]: "eu-central-1" }, { region: "eu-central-1", endpoint: undefined }],
    [{ [`${S3}-endpoint`]: "http://minio:9000" }, { region: "us-east-1", endpoint: "http://minio:9000" }],
    [
      { [`${S3}-region`]: "x", [`${S3}-prefix`]: "p", [`${S3}-force-path-style`]: true },
      { region: "x", prefix: "p", forcePathStyle: true },
    ],
  ])("describe an S3 store with %j", async (more, expected) => {
    const flags = { "e2b-builds": true, [`${S3}-bucket`]: "uploads", [`${S3}-credentials-file`]: credentials, ...more };
    const options = await BuildFlags.from(flags).load();
    expect(options?.uploads).toMatchObject({
      bucket: "uploads",
      credentials: { accessKeyId: "AK", secretAccessKey: "hunter2" },
      ...expected,
    });
  });

  it.each<[string, Record<string, string>, string]>([
    ["no credentials", { [`${S3}-region`]: "x", [`${S3}-credentials-file`]: "" }, `--${S3}-credentials-file`],
    ["no region", {}, `--${S3}-region`],
    [
      "a file that is not there",
      { [`${S3}-region`]: "x", [`${S3}-credentials-file`]: "/nonexistent/c" },
      "S3 credentials",
    ],
    ["a bucket that is none", { [`${S3}-region`]: "x", [`${S3}-bucket`]: "a/b" }, "bucket"],
    ["an endpoint that is none", { [`${S3}-endpoint`]: "minio:9000" }, "endpoint"],
  ])("refuse an S3 store with %s, and show no secret", async (_what, more, word) => {
    const flags = { "e2b-builds": true, [`${S3}-bucket`]: "uploads", [`${S3}-credentials-file`]: credentials, ...more };
    const failure = await BuildFlags.from(flags)
      .load()
      .then(
        () => "nothing",
        (error: unknown) => String(error),
      );
    expect(failure).toContain(word);
    expect(failure).not.toContain("hunter2");
  });

  it("name both stores when both are set", () => {
    const flags = { "e2b-builds": true, "e2b-build-dir": folder, [`${S3}-bucket`]: "uploads" };
    expect(() => BuildFlags.from(flags)).toThrow(/--e2b-build-dir and --e2b-build-store-s3-bucket/);
  });

  it("name a folder that cannot be had", async () => {
    const flags = { "e2b-builds": true, "e2b-build-dir": join(credentials, "below") };
    await expect(BuildFlags.from(flags).load()).rejects.toThrow("--e2b-build-dir");
  });

  it("need the secret of access tokens", async () => {
    const secret = join(folder, "secret");
    await writeFile(secret, "s3cret\n");
    const argv = { "e2b-domain": "example.com", "e2b-allow-anonymous": true, "e2b-builds": true };
    await expect(Flags.from(argv).load()).rejects.toThrow("--e2b-envd-secret-file");
    const loaded = await Flags.from({ ...argv, "e2b-envd-secret-file": secret }).load();
    expect(loaded.serverOptions(new StaticInventorySource()).builds).toMatchObject({ parallel: 2 });
  });
});
