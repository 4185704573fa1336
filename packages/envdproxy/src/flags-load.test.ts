import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Registry } from "prom-client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EnvdProxyError } from "./errors.ts";
import { Flags } from "./flags.ts";
import { selfSigned } from "./testing/self-signed.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "envdproxy-flags-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("reading", () => {
  test("what a proxy is built with has these defaults", () => {
    expect(Flags.from({}, "").proxyOptions).toStrictEqual({
      guestHttp2: false,
      publicPorts: "none",
      relayIdleMs: 1000,
      maxRelays: undefined,
      maxRelaysPerSandbox: undefined,
      accessLog: "debug",
      registry: undefined,
    });
  });

  test.each([
    [{ "relay-idle": "250ms" }, { relayIdleMs: 250 }],
    [{ "relay-idle": "1.5s" }, { relayIdleMs: 1500 }],
    [{ "relay-idle": "2m" }, { relayIdleMs: 120_000 }],
    [{ "relay-idle": "0" }, { relayIdleMs: 0 }],
    [
      { "max-relays": "5000", "max-relays-per-sandbox": "64" },
      { maxRelays: 5000, maxRelaysPerSandbox: 64 },
    ],
    [{ "max-relays": "0" }, { maxRelays: undefined }],
    [{ "access-log": "info" }, { accessLog: "info" }],
    [{ "access-log": "off" }, { accessLog: "off" }],
    [{ "metrics-bind-address": ":9090" }, { registry: expect.any(Registry) }],
  ])("%j is %j", (argv, options) => {
    expect(Flags.from(argv, "").proxyOptions).toMatchObject(options);
  });

  test.each([
    [{ "relay-idle": "soon" }, "relay-idle"],
    [{ "relay-idle": "-1s" }, "relay-idle"],
    [{ "relay-idle": "10" }, "relay-idle"],
    [{ "max-relays": "many" }, "max-relays"],
    [{ "max-relays-per-sandbox": "-1" }, "max-relays-per-sandbox"],
    [{ "access-log": "warn" }, "access-log"],
    [{ "metrics-bind-address": "nowhere" }, "metrics-bind-address"],
  ])("%j is refused, and the flag is named", (argv, flag) => {
    const read = (): unknown => Flags.from(argv, "");
    expect(read).toThrow(
      expect.objectContaining({ code: "invalid_flag", message: expect.stringContaining(`--${flag}`) }),
    );
  });

  test("metrics of a data plane that is off are refused", () => {
    const read = (): unknown => Flags.from({ "metrics-bind-address": ":9090" }, "envd-proxy-");
    expect(read).toThrow("set --envd-proxy-bind-address as well");
  });
});

describe("loading", () => {
  test("nothing to load is fine", async () => {
    await expect(Flags.from({}, "").load()).resolves.toBeUndefined();
  });

  test.each([{ "tls-cert-file": "c" }, { "tls-private-key-file": "k" }])("%j alone is refused", async (argv) => {
    await expect(Flags.from(argv, "").load()).rejects.toMatchObject({
      code: "tls_files",
      message: expect.stringContaining("must be set together: --tls-cert-file, --tls-private-key-file"),
    });
  });

  test("files that can not be read are named", async () => {
    const flags = Flags.from(
      { "envd-proxy-tls-cert-file": "/none/c", "envd-proxy-tls-private-key-file": "/none/k" },
      "envd-proxy-",
    );
    await expect(flags.load()).rejects.toThrow(EnvdProxyError);
    await expect(flags.load()).rejects.toThrow(/read TLS (certificate|private key) "\/none/);
  });

  test("a pair that belongs together is fine, one that does not is refused", async () => {
    const pair = selfSigned("*.sandbox.example.com");
    const [certFile, keyFile, otherKey] = ["c", "k", "o"].map((name) => join(folder, name)) as [string, string, string];
    await writeFile(certFile, pair.cert);
    await writeFile(keyFile, pair.key);
    await writeFile(otherKey, selfSigned("*.other.example.com").key);
    await Flags.from({ "tls-cert-file": certFile, "tls-private-key-file": keyFile }, "").load();
    const mixed = Flags.from({ "tls-cert-file": certFile, "tls-private-key-file": otherKey }, "");
    await expect(mixed.load()).rejects.toMatchObject({ code: "tls_files" });
  });
});
