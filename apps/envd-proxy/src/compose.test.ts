import { createHmac } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Flags as ProxyFlags } from "@org/envdproxy";
import type { Logger } from "@org/scale";
import { describe, expect, onTestFinished, test } from "vitest";
import { serve } from "./compose.ts";
import type { ProxyConfig } from "./compose.ts";

/** A node with one sandbox, `sb_0123456789abcdef` of the namespace `team`, in which nothing listens. */
async function startNode(): Promise<{ readonly address: string; readonly asked: string[] } & AsyncDisposable> {
  const asked: string[] = [];
  const row = {
    id: "sb_0123456789abcdef",
    claim_ref: "team/one",
    key: { template: "img", net: "none", size: "small" },
    claimed_at: "2026-01-01T00:00:00Z",
    deadline: "2126-01-01T00:00:00Z",
  };
  let address = "";
  const server = createServer((request, response) => {
    const path = request.url ?? "";
    asked.push(path);
    const replies: Readonly<Record<string, object>> = {
      "/v1/info": { advertise_addr: address, peers: [], pools: [] },
      "/v1/sandboxes": { sandboxes: [row] },
      [`/v1/sandboxes/${row.id}`]: { ...row, token: "claim-token" },
    };
    const reply = replies[path];
    const missing = path.includes("/ports/") ? 502 : 404;
    response.writeHead(reply === undefined ? missing : 200, { "content-type": "application/json" });
    response.end(JSON.stringify(reply ?? { error: "not found" }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    address,
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const KUBE = { kind: "kube", staleAfterMs: 90_000 } as const;

/** A cluster with one `NodeInventory` object, of a node with the sandbox of {@link startNode}, and a kubeconfig for it. */
async function startCluster(
  address: string,
): Promise<{ readonly kubeconfig: string; readonly asked: string[] } & AsyncDisposable> {
  const asked: string[] = [];
  const object = {
    metadata: { name: "n1", resourceVersion: "7" },
    node: "n1",
    address,
    entries: [{ name: "team/one", id: "sb_0123456789abcdef", phase: "Running", claimRef: "team/one" }],
  };
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://x");
    asked.push(pathname);
    response.writeHead(200, { "content-type": "application/json" });
    if (searchParams.get("watch") === "true") response.flushHeaders();
    else response.end(JSON.stringify({ kind: "List", metadata: { resourceVersion: "7" }, items: [object] }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const folder = await mkdtemp(join(tmpdir(), "envd-proxy-cluster-"));
  const kubeconfig = join(folder, "kubeconfig");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await writeFile(
    kubeconfig,
    JSON.stringify({
      clusters: [{ name: "c", cluster: { server: url } }],
      contexts: [{ name: "x", context: { cluster: "c" } }],
      "current-context": "x",
    }),
  );
  return {
    kubeconfig,
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await rm(folder, { recursive: true });
    },
  };
}

interface Running extends AsyncDisposable {
  readonly origin: string;
  readonly messages: readonly string[];
}

function configOf(
  { seeds = [], ...extra }: Partial<ProxyConfig> & { readonly seeds?: readonly string[] } = {},
  flags: Readonly<Record<string, unknown>> = {},
): ProxyConfig {
  return {
    inventory: { kind: "mesh", seeds, pollIntervalMs: 5000 },
    token: "",
    tokenFile: "",
    caFile: "",
    domain: "sandbox.test",
    namespace: "default",
    envdSecretFile: "",
    proxy: ProxyFlags.from({ "bind-address": "127.0.0.1:0", ...flags }, ""),
    ...extra,
  };
}

/** Serves until the test ends. */
async function run(config: ProxyConfig, env: Readonly<Record<string, string>> = {}): Promise<Running> {
  const messages: string[] = [];
  const stop = new AbortController();
  const up = Promise.withResolvers<string>();
  const log = (_fields: object, message: string): void => {
    messages.push(message);
    const [, address] = /serving envd-proxy address=(\S+)/.exec(message) ?? [];
    if (address !== undefined) up.resolve(address);
  };
  const logger: Logger = { debug: log, info: log, warn: log, error: log };
  const ended = serve(config, { signal: stop.signal, logger, env, home: "/nonexistent" });
  ended.catch(up.reject);
  return {
    origin: `http://${await up.promise}`,
    messages,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await ended;
    },
  };
}

const toSandbox = {
  headers: { "e2b-sandbox-id": "sb-0123456789abcdef", "e2b-sandbox-port": "49983", "x-access-token": "wrong" },
};

describe("serving", () => {
  test("the data plane answers, with the pinned lines in the log", async () => {
    await using node = await startNode();
    await using proxy = await run(configOf({ seeds: [node.address] }));
    expect((await fetch(`${proxy.origin}/healthz`)).status).toBe(204);
    expect(proxy.messages).toContain(`mesh inventory up seeds=[${node.address}] nodes=[${node.address}] poll=5s`);
    expect(proxy.messages.join("\n")).toMatch(
      /serving envd-proxy address=127\.0\.0\.1:\d+ tls=false domain=sandbox\.test/,
    );
  });

  test.each([
    ["team", 401],
    ["", 401],
    ["default", 502],
  ])("a sandbox of another namespace is not there: with %j the answer is %i", async (namespace, status) => {
    await using node = await startNode();
    await using proxy = await run(configOf({ seeds: [node.address], namespace }));
    expect((await fetch(`${proxy.origin}/files`, toSandbox)).status).toBe(status);
  });
});

describe("nodes of a cluster", () => {
  test("are learned from NodeInventory objects, and their sandboxes are reached", async () => {
    await using node = await startNode();
    await using cluster = await startCluster(node.address);
    await using proxy = await run(configOf({ namespace: "", inventory: KUBE }), { KUBECONFIG: cluster.kubeconfig });
    expect(proxy.messages).toContain("kube inventory up nodes=[n1] staleAfter=1m30s");
    const statuses = ["claim-token", "wrong"].map(async (token) => {
      const headers = { ...toSandbox.headers, "x-access-token": token };
      return (await fetch(`${proxy.origin}/files`, { headers })).status;
    });
    // That nothing listens is found out with the right token only.
    expect(await Promise.all(statuses)).toEqual([502, 401]);
    expect(cluster.asked).toContain("/apis/sandbox.cocoonstack.io/v1beta1/nodeinventories");
  });

  test("cannot be learned without a cluster: it is told what to set", async () => {
    await expect(run(configOf({ inventory: KUBE }))).rejects.toThrow(
      /no Kubernetes cluster is configured: set KUBECONFIG/,
    );
  });
});

describe("flags that reach the data plane", () => {
  test.each([
    ["none", 401],
    ["3000", 502],
  ])("with public ports %s a request without a token for port 3000 is %i", async (ports, status) => {
    await using node = await startNode();
    await using proxy = await run(configOf({ seeds: [node.address], namespace: "" }, { "public-ports": ports }));
    const headers = { "e2b-sandbox-id": "sb-0123456789abcdef", "e2b-sandbox-port": "3000" };
    expect((await fetch(`${proxy.origin}/`, { headers })).status).toBe(status);
  });

  test("with the secret the derived token is the sandbox's, and the node's own is not", async () => {
    await using node = await startNode();
    const folder = await mkdtemp(join(tmpdir(), "envd-proxy-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const envdSecretFile = join(folder, "secret");
    await writeFile(envdSecretFile, "a secret\n");
    await using proxy = await run(configOf({ seeds: [node.address], namespace: "", envdSecretFile }));
    const derived = createHmac("sha256", "a secret").update("claim-token").digest("hex");
    const statuses = [derived, "claim-token"].map(async (token) => {
      const headers = { ...toSandbox.headers, "x-access-token": token };
      return (await fetch(`${proxy.origin}/files`, { headers })).status;
    });
    // That nothing listens is found out with the right token only.
    expect(await Promise.all(statuses)).toEqual([502, 401]);
  });
});

describe("failures at start", () => {
  test.each<[string, ProxyConfig, RegExp]>([
    ["no seed", configOf(), /at least one seed is required: set --sandboxd-seeds/],
    ["no domain", configOf({ seeds: ["a:1"], domain: " " }), /a domain is required: set --domain/],
    ["no token file", configOf({ seeds: ["a:1"], tokenFile: "/nonexistent/t" }), /read token file "\/nonexistent\/t"/],
    ["no CA file", configOf({ seeds: ["a:1"], caFile: "/nonexistent/ca" }), /CA file "\/nonexistent\/ca"/],
    ["no secret file", configOf({ seeds: ["a:1"], envdSecretFile: "/nonexistent/s" }), /read envd secret file/],
    ["half of a pair", configOf({ seeds: ["a:1"] }, { "tls-cert-file": "/c" }), /must be set together/],
  ])("%s is told before a node is asked", async (_name, config, message) => {
    await expect(run(config)).rejects.toThrow(message);
  });

  test("an address that is taken is named, and no node is asked", async () => {
    await using node = await startNode();
    const config = configOf({ seeds: [node.address] }, { "bind-address": node.address });
    await expect(run(config)).rejects.toThrow(`listen on envd-proxy address "${node.address}"`);
    expect(node.asked).toEqual([]);
  });
});
