import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";

const execute = promisify(execFile);
const root = new URL("../../../", import.meta.url).pathname;
let folder = "";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "app-"));
  const { packageManager } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
    packageManager: string;
  };
  const packing = ["-y", packageManager, "--recursive", "--filter", "@org/sandbox-e2b...", "pack"];
  await execute("npx", [...packing, "--pack-destination", folder], { cwd: root, maxBuffer: 16 * 1024 * 1024 });
  const tarballs: Record<string, string> = {};
  for (const file of await readdir(folder)) {
    const name = /^org-(.+)-\d+\.\d+\.\d+.*\.tgz$/.exec(file)?.[1];
    if (name !== undefined) tarballs[`@org/${name}`] = `file:${join(folder, file)}`;
  }
  // The packages name each other by version; here each of them is the tarball.
  const manifest = { type: "module", dependencies: tarballs, overrides: tarballs };
  await writeFile(join(folder, "package.json"), JSON.stringify(manifest));
  // Binaries come with their packages: no script of an install is needed.
  const install = ["install", "--no-audit", "--no-fund", "--prefer-offline", "--ignore-scripts"];
  await execute("npm", install, { cwd: folder, maxBuffer: 16 * 1024 * 1024 });
}, 300_000);

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

test("the installed program starts guests in which directories can be watched and files have attributes", async () => {
  const [api, data] = [await freePort(), await freePort()];
  const envFile = join(folder, "env");
  const flags = [
    "--nodes=1",
    "--warm=1",
    "--warm-egress=0",
    `--env-file=${envFile}`,
    `--state-dir=${join(folder, "s")}`,
  ];
  flags.push(`--e2b-bind-address=127.0.0.1:${api}`, `--envd-proxy-bind-address=127.0.0.1:${data}`);
  const program = join(folder, "node_modules/@org/sandbox-e2b/bin/sandbox-e2b");
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env["PATH"] ?? ""}` };
  const child = spawn(program, ["dev", ...flags], { cwd: folder, stdio: "pipe", env });
  let said = "";
  child.stdout.on("data", (bytes: Buffer) => (said += bytes.toString()));
  child.stderr.on("data", (bytes: Buffer) => (said += bytes.toString()));
  try {
    let settings = "";
    while (!settings.includes("E2B_API_KEY")) {
      expect(child.exitCode, said).toBeNull();
      await delay(100);
      settings = await readFile(envFile, "utf8").catch(() => "");
    }
    const key = /E2B_API_KEY=["']?([^"'\n]+)/.exec(settings)?.[1] ?? "";
    const headers = { "content-type": "application/json", "x-api-key": key };
    const created = await fetch(`http://127.0.0.1:${api}/v2/sandboxes`, {
      method: "POST",
      headers,
      body: JSON.stringify({ templateID: "base" }),
    });
    const sandbox = (await created.json()) as { sandboxID: string; envdAccessToken: string };
    expect(created.status, JSON.stringify(sandbox)).toBe(201);
    const own = {
      "e2b-sandbox-id": sandbox.sandboxID,
      "e2b-sandbox-port": "49983",
      "x-access-token": sandbox.envdAccessToken,
    };
    const call = async (method: string, body: object): Promise<Record<string, unknown>> => {
      const reply = await fetch(`http://127.0.0.1:${data}/filesystem.Filesystem/${method}`, {
        method: "POST",
        headers: { ...own, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      const answer = (await reply.json()) as Record<string, unknown>;
      expect(reply.status, JSON.stringify(answer)).toBe(200);
      return answer;
    };
    await call("MakeDir", { path: "watched" });
    const { watcherId } = await call("CreateWatcher", { path: "watched" });
    const written = await fetch(`http://127.0.0.1:${data}/files?path=watched/f`, {
      method: "POST",
      headers: { ...own, "content-type": "application/octet-stream", "x-metadata-kind": "packed" },
      body: "x",
    });
    expect(await written.json()).toMatchObject([{ name: "f", metadata: { kind: "packed" } }]);
    const { events } = await call("GetWatcherEvents", { watcherId });
    const types = (events as { name: string; type: string }[]).map(({ name, type }) => `${name} ${type}`);
    expect(types).toEqual(expect.arrayContaining(["f EVENT_TYPE_CREATE", "f EVENT_TYPE_WRITE"]));
    await fetch(`http://127.0.0.1:${api}/sandboxes/${sandbox.sandboxID}`, { method: "DELETE", headers });
  } finally {
    child.kill("SIGTERM");
    await Promise.race([once(child, "exit"), delay(20_000)]);
    child.kill("SIGKILL");
  }
}, 120_000);
