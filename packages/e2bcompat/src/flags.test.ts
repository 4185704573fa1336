import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StaticInventorySource } from "@org/scale/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { BuildFlags } from "./build-flags.ts";
import { Flags } from "./flags.ts";

/** Writes files and gives their paths. */
async function files<const T extends Record<string, string>>(contents: T): Promise<Record<keyof T, string>> {
  const folder = await mkdtemp(join(tmpdir(), "e2b-flags-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const paths: Record<string, string> = {};
  for (const [name, text] of Object.entries(contents)) {
    paths[name] = join(folder, name);
    await writeFile(paths[name], text);
  }
  return paths as Record<keyof T, string>;
}

describe("Flags", () => {
  it("declares every flag in one group, without a prefix in its alias only", () => {
    const options = Flags.options();
    expect(Object.keys(options)).toStrictEqual([
      "e2b-bind-address",
      "e2b-namespace",
      "e2b-domain",
      "e2b-envd-version",
      "e2b-default-timeout",
      "e2b-api-key-file",
      "e2b-allow-anonymous",
      "e2b-template-aliases",
      "e2b-envd-secret-file",
      "e2b-cors-origins",
      "e2b-builds",
      "e2b-build-parallel",
      "e2b-build-timeout",
      "e2b-build-log-lines",
      "e2b-build-dir",
      "e2b-build-upload-max",
      "e2b-build-store-s3-bucket",
      "e2b-build-store-s3-prefix",
      "e2b-build-store-s3-endpoint",
      "e2b-build-store-s3-region",
      "e2b-build-store-s3-force-path-style",
      "e2b-build-store-s3-credentials-file",
    ]);
    expect(new Set(Object.values(options).map((option) => option.group)).size).toBe(1);
    expect(options["e2b-template-aliases"]?.alias).toBe("e2b-template-alias-file");
    expect(Object.values(options).every((option) => option.describe.length > 10)).toBe(true);
  });

  it("reads its own defaults as the defaults", () => {
    const defaults = Object.fromEntries(
      Object.entries(Flags.options()).map(([name, option]) => [name, option.default] as const),
    );
    for (const argv of [{}, defaults]) {
      expect(Object.fromEntries(Object.entries(Flags.from(argv)))).toStrictEqual({
        bindAddress: ":8080",
        namespace: "default",
        domain: "",
        envdVersion: "0.8.0",
        defaultTimeoutSeconds: 300,
        allowAnonymous: false,
        apiKeyFile: undefined,
        templateAliasFile: undefined,
        envdSecretFile: undefined,
        corsOrigins: "*",
        builds: BuildFlags.from({}),
      });
      expect(Object.fromEntries(Object.entries(Flags.from(argv).builds))).toStrictEqual({
        on: false,
        parallel: 2,
        timeoutSeconds: 1800,
        logLines: 10_000,
        directory: undefined,
        uploadMaxBytes: 1_073_741_824,
        s3: undefined,
      });
    }
  });

  it("takes an empty version and a zero timeout for the defaults", () => {
    const flags = Flags.from({ "e2b-envd-version": "", "e2b-default-timeout": "0" });
    expect([flags.envdVersion, flags.defaultTimeoutSeconds]).toStrictEqual(["0.8.0", 300]);
  });

  it.each([
    ["e2b-bind-address", "8080"],
    ["e2b-bind-address", "host:port"],
    ["e2b-namespace", "a/b"],
    ["e2b-namespace", ""],
    ["e2b-domain", "https://example.com"],
    ["e2b-domain", " "],
    ["e2b-envd-version", "new"],
    ["e2b-envd-version", "0.0.1"],
    ["e2b-default-timeout", "soon"],
    ["e2b-default-timeout", "1.5s"],
    ["e2b-default-timeout", "-5s"],
    ["e2b-default-timeout", ""],
    ["e2b-domain", ["a", "b"]],
    ["e2b-allow-anonymous", "yes"],
    ["e2b-api-key-file", 7],
    ["e2b-cors-origins", "example.com"],
    ["e2b-cors-origins", "https://a.example, *"],
    ["e2b-builds", "yes"],
    ["e2b-build-parallel", "0"],
    ["e2b-build-parallel", "two"],
    ["e2b-build-timeout", "0s"],
    ["e2b-build-timeout", "1.5s"],
    ["e2b-build-log-lines", "-1"],
    ["e2b-build-upload-max", "1GB"],
    ["e2b-build-store-s3-bucket", ["a", "b"]],
  ])("refuses --%s=%j and names it", (name, value) => {
    const read = (): unknown => Flags.from({ [name]: value });
    expect(read).toThrow(expect.objectContaining({ name: "E2bError", code: "invalid_flag" }));
    expect(read).toThrow(`--${name}`);
  });
});

describe("load", () => {
  it("reads the files and gives a server's options", async () => {
    const paths = await files({
      keys: "k1\nk2 team max_sandboxes=3\n",
      aliases: "base image:1 medium\n",
      secret: "  s3cret \n",
    });
    const flags = Flags.from({
      "e2b-domain": "example.com",
      "e2b-namespace": "own",
      "e2b-bind-address": "127.0.0.1:0",
      "e2b-default-timeout": "5m",
      "e2b-envd-version": "0.4.0",
      "e2b-api-key-file": paths.keys,
      "e2b-template-aliases": paths.aliases,
      "e2b-envd-secret-file": paths.secret,
      "e2b-cors-origins": "https://A.example, http://localhost:3000",
    });
    const loaded = await flags.load();
    const inventory = new StaticInventorySource();
    expect([loaded.bindAddress, loaded.envdSecret]).toStrictEqual(["127.0.0.1:0", "s3cret"]);
    expect(loaded.serverOptions(inventory)).toStrictEqual({
      inventory,
      domain: "example.com",
      namespace: "own",
      keys: [
        { key: "k1", namespace: "own" },
        { key: "k2", namespace: "team", limits: { maxSandboxes: 3 } },
      ],
      allowAnonymous: false,
      aliases: [{ alias: "base", image: "image:1", size: "medium" }],
      envdSecret: "s3cret",
      envdVersion: "0.4.0",
      builds: undefined,
      defaultTimeoutSeconds: 300,
      corsOrigins: ["https://a.example", "http://localhost:3000"],
    });
  });

  it("takes the alias file under either name", async () => {
    const { aliases } = await files({ aliases: "base image:1\n" });
    const argv = { "e2b-domain": "d", "e2b-allow-anonymous": true, "e2b-template-alias-file": aliases };
    expect((await Flags.from(argv).load()).aliases).toHaveLength(1);
  });

  it.each([
    ["no domain", {}, "invalid_options", "--e2b-domain"],
    ["no key", { "e2b-domain": "d" }, "invalid_options", "--e2b-api-key-file"],
    ["a key file without keys", { "e2b-domain": "d", "e2b-api-key-file": "blank" }, "invalid_file", "holds no key"],
    ["no such key file", { "e2b-domain": "d", "e2b-api-key-file": "nope" }, "file_unreadable", "nope"],
    ["a bad key line", { "e2b-domain": "d", "e2b-api-key-file": "bad" }, "invalid_file", "line 1"],
    ["no such alias file", { "e2b-template-aliases": "nope" }, "file_unreadable", "nope"],
    ["a bad alias line", { "e2b-template-aliases": "one" }, "invalid_file", "line 1"],
    ["no such secret file", { "e2b-envd-secret-file": "nope" }, "file_unreadable", "nope"],
    ["a blank secret file", { "e2b-envd-secret-file": "blank" }, "invalid_file", "blank"],
  ])("fails for %s", async (_what, argv, code, words) => {
    const paths: Record<string, string> = await files({ blank: " \n", bad: "a b c d", one: "one" });
    const usual =
      "e2b-domain" in argv || code === "invalid_options" ? {} : { "e2b-domain": "d", "e2b-allow-anonymous": true };
    const located = Object.entries(argv).map(([name, value]) => [name, paths[value] ?? value] as const);
    const load = Flags.from({ ...usual, ...Object.fromEntries(located) }).load();
    await expect(load).rejects.toMatchObject({ code, message: expect.stringContaining(words) });
  });
});
