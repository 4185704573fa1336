import { once } from "node:events";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import type { RequestOptions } from "node:https";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { expect, test } from "vitest";
import { scratchFolder, startProgram } from "../testing/program.ts";
import type { ProgramRun } from "../testing/program.ts";

/** Starts `dev` in a scratch folder; the file it writes says that everything is ready. */
function startDev(folder: string, name: string, args: readonly string[] = []): ProgramRun {
  const state = `--state-dir=${join(folder, "state")}`;
  // The other spelling of the flag: Node takes --env-file for itself when it is not started by the bin.
  const envFile = `--write-env-file=${join(folder, name)}`;
  return startProgram(["dev", "--warm=1", "--warm-egress=0", state, envFile, ...args]);
}

async function environment(run: ProgramRun, folder: string, name: string): Promise<Record<string, string>> {
  await run.output(/Sandboxes are ready/);
  expect((await stat(join(folder, name))).mode & 0o777).toBe(0o600);
  return parseEnv(await readFile(join(folder, name), "utf8")) as Record<string, string>;
}

async function createSandbox(variables: Record<string, string>): Promise<Response> {
  return fetch(`${variables["E2B_API_URL"]}/sandboxes`, {
    method: "POST",
    headers: { "x-api-key": variables["E2B_API_KEY"] ?? "", "content-type": "application/json" },
    body: JSON.stringify({ templateID: "base", envVars: { A: "1" } }),
  });
}

test("two runs at once serve sandboxes beside each other with the same keys, and leave nothing running", async () => {
  await using folder = await scratchFolder();
  await using first = startDev(folder.path, "first.env");
  const one = await environment(first, folder.path, "first.env");
  await using second = startDev(folder.path, "second.env", ["--nodes=2"]);
  const two = await environment(second, folder.path, "second.env");

  expect(two["E2B_API_KEY"]).toBe(one["E2B_API_KEY"]);
  expect(two["E2B_API_URL"]).not.toBe(one["E2B_API_URL"]);
  expect(one["E2B_DOMAIN"]).toBe(one["E2B_SANDBOX_URL"]?.replace("http://127.0.0.1", "localhost"));
  expect(second.stdout).toContain("2 nodes");
  expect(second.stdout).toContain("Note: port 3627 is taken, the API listens on");
  for (const variables of [one, two]) {
    const reply = await createSandbox(variables);
    expect(reply.status).toBe(201);
    const { sandboxID, envdAccessToken } = (await reply.json()) as { sandboxID: string; envdAccessToken: string };
    const guest = await fetch(`${variables["E2B_SANDBOX_URL"]}/envs`, {
      headers: { "e2b-sandbox-id": sandboxID, "e2b-sandbox-port": "49983", "x-access-token": envdAccessToken },
    });
    expect([guest.status, await guest.json()]).toMatchObject([200, { A: "1" }]);
  }

  for (const run of [first, second]) run.signal("SIGTERM");
  expect(await Promise.all([first.exited, second.exited])).toEqual([0, 0]);
  expect(await readdir(join(folder.path, "state", "runs"))).toEqual([]);
  for (const secret of [one["E2B_API_KEY"], await readFile(join(folder.path, "state", "node-token"), "utf8")]) {
    expect(first.stderr + second.stderr).not.toContain(secret?.trim());
  }
}, 90_000);

test.each([
  ["--image=a b", /--image/],
  ["--image=", /--image/],
  ["--image=e2b/x", /--image/],
  ["--refill-delay=-1s", /--refill-delay/],
  ["--refill-delay=999h", /--refill-delay/],
])("%s is a usage error", async (flag, message) => {
  await using folder = await scratchFolder();
  await using run = startDev(folder.path, "never.env", [flag]);
  expect(await run.exited).toBe(2);
  expect(run.stderr.split("\n")[0]).toMatch(message);
  expect(await readdir(folder.path)).toEqual([]);
});

test("a signal while the guests start ends it without a complaint, and leaves nothing running", async () => {
  await using folder = await scratchFolder();
  await using run = startDev(folder.path, "never.env", ["--warm=50"]);
  await run.output(/starting sandbox-e2b/);
  while (!(await readdir(join(folder.path, "state", "runs")).catch(() => [])).some((name) => !name.startsWith("."))) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  run.signal("SIGTERM");
  expect(await run.exited).toBe(0);
  expect(run.stderr).not.toMatch(/^sandbox-e2b: /m);
  expect(await readdir(join(folder.path, "state", "runs"))).toEqual([]);
}, 60_000);

test("given values win over made ones, and an empty secret file turns derived tokens off", async () => {
  await using folder = await scratchFolder();
  await using run = startDev(folder.path, "env", [
    "--e2b-envd-secret-file=",
    "--e2b-domain=sandbox.test",
    "--e2b-bind-address=127.0.0.1:0",
    "--envd-proxy-bind-address=",
    "--e2b-allow-anonymous",
  ]);
  const variables = await environment(run, folder.path, "env");
  expect(variables["E2B_DOMAIN"]).toBe("sandbox.test");
  expect(variables).not.toHaveProperty("E2B_SANDBOX_URL");
  // Environment variables of a sandbox need the secret.
  const reply = await createSandbox(variables);
  expect(reply.status).toBe(400);
  expect(await reply.text()).toContain("--e2b-envd-secret-file");
  run.signal("SIGINT");
  expect(await run.exited).toBe(0);
}, 60_000);

/** A request under a name of the data plane, which need not resolve, trusting one authority alone. */
async function byName(options: RequestOptions): Promise<{ readonly status: number; readonly text: string }> {
  const sent = request({ ...options, host: "127.0.0.1", agent: false });
  sent.end();
  const [reply] = (await once(sent, "response")) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of reply as AsyncIterable<Buffer>) chunks.push(chunk);
  return { status: reply.statusCode ?? 0, text: Buffer.concat(chunks).toString() };
}

test("--tls serves sandboxes under their own names, for clients that trust the authority it made", async () => {
  await using folder = await scratchFolder();
  await using run = startDev(folder.path, "env", ["--tls", "--envd-proxy-bind-address=127.0.0.1:0"]);
  const variables = await environment(run, folder.path, "env");
  const domain = variables["E2B_DOMAIN"] ?? "";
  expect(domain).toMatch(/^sandbox\.localhost:\d+$/);
  const caFile = join(folder.path, "state", "tls", "localhost", "ca.pem");
  expect(run.stdout).toContain(`Certificate authority: ${caFile}`);
  expect(variables["NODE_EXTRA_CA_CERTS"]).toBe(caFile);
  expect(variables["SSL_CERT_FILE"]).toBe(join(folder.path, "state", "tls", "localhost", "ca-bundle.pem"));
  const reply = await createSandbox(variables);
  const { sandboxID, envdAccessToken } = (await reply.json()) as { sandboxID: string; envdAccessToken: string };
  const [host = "", port] = domain.split(":");
  const servername = `49983-${sandboxID}.${host}`;
  const headers = { host: `${servername}:${port}`, "x-access-token": envdAccessToken };
  const ca = await readFile(caFile, "utf8");
  expect(await byName({ port, servername, ca, headers, path: "/envs" })).toMatchObject({
    status: 200,
    text: expect.stringContaining('"A":"1"'),
  });
  await expect(byName({ port, servername, headers, path: "/envs" })).rejects.toThrow(/certificate/);
  const old = {
    port,
    servername,
    ca,
    headers,
    maxVersion: "TLSv1.1",
    minVersion: "TLSv1",
    ciphers: "ALL@SECLEVEL=0",
  } as const;
  await expect(byName(old)).rejects.toThrow(/protocol version|EPROTO|ECONNRESET|hang up|disconnected/i);
  run.signal("SIGTERM");
  expect(await run.exited).toBe(0);
  expect(run.stderr).not.toContain("PRIVATE KEY");
}, 60_000);

test.each<[readonly string[], number, RegExp]>([
  [["--tls", "--e2b-domain=localhost"], 2, /--tls needs a name of two labels or more/],
  [["--tls", "--envd-proxy-bind-address="], 2, /--tls is about the data plane/],
  // A given certificate wins over one that would be made, also when it cannot be used.
  [
    ["--tls", "--envd-proxy-tls-cert-file=/nonexistent/c.pem", "--envd-proxy-tls-private-key-file=/nonexistent/k.pem"],
    1,
    /read TLS certificate "\/nonexistent\/c\.pem"/,
  ],
])("%j does not start, and makes no certificate", async (args, status, message) => {
  await using folder = await scratchFolder();
  await using run = startDev(folder.path, "never.env", args);
  expect(await run.exited).toBe(status);
  expect(run.stderr).toMatch(message);
  expect(await readdir(join(folder.path, "state")).catch(() => [])).not.toContain("tls");
});

test("a node alone serves the pools it was given, and tells its address", async () => {
  await using folder = await scratchFolder();

  const tokenFile = join(folder.path, "token");
  await writeFile(tokenFile, "t0ken\n");
  await using run = startProgram([
    "dev-node",
    "--listen=127.0.0.1:0",
    `--token-file=${tokenFile}`,
    `--state-dir=${join(folder.path, "state")}`,
    "--pool=img:1=1",
    "--pool=img:1,none,medium=0",
  ]);
  const [, address = ""] = await run.output(/development node up address=(\S+) isolation=/);
  const info = await fetch(`http://${address}/v1/info`, { headers: { authorization: "Bearer t0ken" } });
  expect(await info.json()).toMatchObject({
    advertise_addr: address,
    pools: [
      { key: { template: "img:1", net: "none", size: "small" }, target: 1 },
      { key: { size: "medium" }, target: 0 },
    ],
  });
  expect((await fetch(`http://${address}/v1/info`)).status).toBe(401);
  run.signal("SIGTERM");
  expect(await run.exited).toBe(0);
}, 60_000);

/** Starts `dev-node` with a token file and a tenant file; answers how to call it. */
async function startNode(folder: string, flags: readonly string[], startOptions: { open?: boolean } = {}) {
  const tokenFile = join(folder, "token");
  const tenantFile = join(folder, "tenants");
  await writeFile(tokenFile, "t0ken\n");
  await writeFile(tenantFile, "acme acme-token 1\nbolt bolt-token\n");
  const secrets = startOptions.open === true ? [] : [`--token-file=${tokenFile}`, `--tenant-file=${tenantFile}`];
  const state = `--state-dir=${join(folder, "state")}`;
  const run = startProgram(["dev-node", "--listen=127.0.0.1:0", state, ...secrets, ...flags]);
  const [, address = ""] = await run.output(/development node up address=(\S+) isolation=/);
  const call = async (method: string, path: string, body?: object, token = "t0ken") => {
    const reply = await fetch(`http://${address}${path}`, {
      method,
      headers: token === "" ? {} : { authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: reply.status, text: await reply.text() };
  };
  return { run, call, [Symbol.asyncDispose]: () => run[Symbol.asyncDispose]() };
}

test("a node knows its tenants, refuses what no pool serves, and makes requests fail when allowed", async () => {
  await using folder = await scratchFolder();
  await using node = await startNode(folder.path, [
    "--pool=img:1=0",
    "--refuse-unpooled",
    "--egress=false",
    "--allow-faults",
  ]);
  const { call } = node;
  const claim = { template: "img:1" };
  expect((await call("POST", "/v1/claim", claim, "nobody")).status).toBe(401);
  expect((await call("POST", "/v1/claim", claim, "acme-token")).status).toBe(200);
  expect(await call("POST", "/v1/claim", claim, "acme-token")).toMatchObject({
    status: 429,
    text: expect.stringContaining("tenant acme at 1 live claims, cap 1"),
  });
  expect((await call("GET", "/v1/info", undefined, "bolt-token")).status).toBe(403);
  expect(await call("POST", "/v1/claim", { template: "other:1" })).toMatchObject({
    status: 500,
    text: expect.stringContaining("provisioning failed"),
  });
  expect((await call("POST", "/v1/claim", { ...claim, net: "egress" })).status).toBe(409);
  const faults = [{ kind: "status", path: "/v1/claim", status: 418 }];
  expect((await call("PUT", "/debug/faults", { faults }, "acme-token")).status).toBe(403);
  expect((await call("PUT", "/debug/faults", { faults })).status).toBe(200);
  expect((await call("POST", "/v1/claim", claim)).status).toBe(418);
  node.run.signal("SIGTERM");
  expect(await node.run.exited).toBe(0);
  expect(node.run.stderr).not.toMatch(/t0ken|acme-token|bolt-token/);
}, 60_000);

test("an open node asks for no token, has no faults unless allowed, and offers the lane with network", async () => {
  await using folder = await scratchFolder();
  await using node = await startNode(folder.path, ["--open", "--max-claims=1"], { open: true });
  const egress = { template: "img:1", net: "egress" };
  expect((await node.call("POST", "/v1/claim", egress, "")).status).toBe(200);
  expect((await node.call("POST", "/v1/claim", egress, "")).status).toBe(429);
  expect((await node.call("GET", "/debug/faults", undefined, "")).status).toBe(404);
  node.run.signal("SIGTERM");
  expect(await node.run.exited).toBe(0);
}, 60_000);

test.each([
  [[], "--token-file is required"],
  [["--open", "--token-file=t"], "leave --token-file and --tenant-file out"],
  [["--open", "--tenant-file=t"], "leave --token-file and --tenant-file out"],
  [["--open", "--listen=:7001"], "--listen must be a loopback address"],
  [["--open", "--listen=10.0.0.1:7001"], "--listen must be a loopback address"],
])("dev-node with %j is a usage error", async (flags, message) => {
  await using run = startProgram(["dev-node", ...flags]);
  expect(await run.exited).toBe(2);
  expect(run.stderr.split("\n")[0]).toContain(message);
});

test("a tenant file that cannot be read keeps a node from starting", async () => {
  await using folder = await scratchFolder();
  const tokenFile = join(folder.path, "token");
  await writeFile(tokenFile, "t0ken\n");
  await using run = startProgram(["dev-node", `--token-file=${tokenFile}`, `--tenant-file=${folder.path}/none`]);
  expect(await run.exited).toBe(1);
  expect(run.stderr).toContain(`sandbox-e2b: read tenant file "${folder.path}/none"`);
});
