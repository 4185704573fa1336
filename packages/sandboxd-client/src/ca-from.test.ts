import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { caFrom, createNodePool, createSandboxdClient } from "./index.ts";
import { selfSigned } from "./testing/self-signed.ts";
import { tlsServer } from "./testing/servers.ts";

describe("caFrom", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "ca-"));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it("leaves the choice to the system without a file", async () => {
    expect(await caFrom("")).toBeUndefined();
    expect(await caFrom(undefined)).toBeUndefined();
  });

  it("gives what a pool trusts, whatever stands around the certificates", async () => {
    const identity = selfSigned();
    const file = join(folder, "ca.pem");
    await writeFile(file, `# our own\n${identity.cert}\r\n# twice\n${identity.cert}`);
    await using node = await tlsServer(identity, (socket) => {
      socket.once("data", () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{"sandboxes":[]}'));
    });
    await using pool = createNodePool({ ca: await caFrom(file) });
    const client = createSandboxdClient({ address: `https://localhost:${node.port}`, pool });
    expect(await client.index()).toEqual([]);
  });

  it.each([
    ["nothing", "", "has no PEM certificate"],
    ["a key only", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "has no PEM certificate"],
    ["no base64", "-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n", "certificate 1 cannot be read"],
  ])("refuses a file with %s by name", async (_what, content, why) => {
    const file = join(folder, "bad.pem");
    await writeFile(file, content);
    await expect(caFrom(file)).rejects.toMatchObject({
      code: "ca_file",
      message: `sandboxd: CA file ${JSON.stringify(file)}${why.startsWith("has") ? ` ${why}` : `: ${why}`}`,
    });
  });

  it("names a file that is not there", async () => {
    await expect(caFrom(join(folder, "nowhere"))).rejects.toThrow(/^sandboxd: CA file ".*nowhere": ENOENT/);
  });
});
