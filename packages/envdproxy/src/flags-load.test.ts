import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EnvdProxyError } from "./errors.ts";
import { Flags } from "./flags.ts";
import { selfSigned } from "./testing/self-signed.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "envdproxy-flags-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

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
