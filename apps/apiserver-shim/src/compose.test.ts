import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { ServerResponse } from "node:http";
import { request } from "node:https";
import type { AddressInfo } from "node:net";
import { createServer as createListener } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { Flags as E2bFlags } from "@org/e2bcompat";
import type { Logger } from "@org/scale";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serve } from "./compose.ts";
import { programSpec, shimConfig } from "./flags.ts";
import type { ShimConfig } from "./flags.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "apiserver-shim-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Cluster extends AsyncDisposable {
  readonly kubeconfig: string;
  readonly asked: string[];
}

/** A cluster with one `NodeInventory` object, which knows one token, `alice's`, whose user may everything. */
async function startCluster(): Promise<Cluster> {
  const asked: string[] = [];
  const item = {
    metadata: { name: "n1", resourceVersion: "7" },
    node: "n1",
    address: "127.0.0.1:9",
    entries: [{ name: "team/one", id: "sb_0123456789abcdef", phase: "Running", claimRef: "team/one" }],
  };
  const answers: Readonly<Record<string, (body: string) => object>> = {
    nodeinventories: () => ({ kind: "List", metadata: { resourceVersion: "7" }, items: [item] }),
    configmaps: () => ({ kind: "List", metadata: { resourceVersion: "7" }, items: [] }),
    "extension-apiserver-authentication": () => ({
      metadata: { name: "extension-apiserver-authentication" },
      data: {},
    }),
    tokenreviews: (body) => ({
      status: body.includes("alice's")
        ? { authenticated: true, user: { username: "alice" } }
        : { authenticated: false },
    }),
    subjectaccessreviews: () => ({ status: { allowed: true } }),
  };
  const answer = async (path: string, isWatch: boolean, body: string, response: ServerResponse): Promise<void> => {
    const of = answers[path.split("/").at(-1) ?? ""];
    response.writeHead(of === undefined ? 404 : 200, { "content-type": "application/json" });
    if (isWatch) response.flushHeaders();
    else response.end(JSON.stringify(of?.(body) ?? { kind: "Status", code: 404 }));
  };
  const server = createServer((incoming, response) => {
    const { pathname, searchParams } = new URL(incoming.url ?? "/", "http://x");
    asked.push(pathname);
    void text(incoming).then((body) => answer(pathname, searchParams.get("watch") === "true", body, response));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const kubeconfig = join(folder, `kubeconfig-${(server.address() as AddressInfo).port}`);
  const clusters = [{ name: "c", cluster: { server: url } }];
  const contexts = [{ name: "x", context: { cluster: "c" } }];
  await writeFile(kubeconfig, JSON.stringify({ clusters, contexts, "current-context": "x" }));
  return {
    kubeconfig,
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const listener = createListener();
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address() as AddressInfo;
  await new Promise((resolve) => listener.close(resolve));
  return port;
}

/** The configuration of flags: the defaults, with some of them changed. */
function configOf(changed: Readonly<Record<string, string | number | boolean>>): ShimConfig {
  const options = programSpec("1.0.0").commands["$0"]?.options ?? {};
  const values = Object.fromEntries(
    Object.entries(options).map(([flag, option]) => [flag, option.repeatable === true ? [] : option.default]),
  );
  return shimConfig({ values: { ...values, "enable-warm-pool-driver": false, ...changed }, sources: {} });
}

interface Running extends AsyncDisposable {
  readonly messages: readonly string[];
}

/** Serves until the test ends; resolves once `last` was logged. */
async function run(config: ShimConfig, kubeconfig: string, last: RegExp): Promise<Running> {
  const messages: string[] = [];
  const stop = new AbortController();
  const up = Promise.withResolvers<void>();
  const log = (_fields: object, message: string): void => {
    messages.push(message);
    if (last.test(message)) up.resolve();
  };
  const logger: Logger = { debug: log, info: log, warn: log, error: log };
  const places = { env: { KUBECONFIG: kubeconfig }, home: "/nonexistent", serviceAccount: "/nonexistent" };
  const ended = serve(config, { signal: stop.signal, logger, places, version: { version: "1.2.3" } });
  ended.catch(up.reject);
  await up.promise;
  return {
    messages,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await ended;
    },
  };
}

function get(
  port: number,
  path: string,
  ca: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ status: number | undefined; body: string }> {
  return new Promise((resolve, reject) => {
    const asked = request(
      { host: "127.0.0.1", port, path, ca, servername: "localhost", agent: false, headers },
      (reply) => void text(reply).then((body) => resolve({ status: reply.statusCode, body }), reject),
    );
    asked.on("error", reject);
    asked.end();
  });
}

describe("serving", () => {
  test("the aggregated API has the cluster's sandboxes, for whom the cluster lets in", async () => {
    await using cluster = await startCluster();
    const port = await freePort();
    const config = configOf({
      "bind-address": "127.0.0.1",
      "secure-port": port,
      "cert-dir": folder,
      "authentication-kubeconfig": cluster.kubeconfig,
      "authorization-kubeconfig": cluster.kubeconfig,
    });
    await using shim = await run(config, cluster.kubeconfig, /serving the aggregated API/);
    expect(shim.messages).toContain("kube inventory up nodes=[n1] staleAfter=1m30s");
    const ca = await readFile(join(folder, "apiserver.crt"), "utf8");
    const path = "/apis/agents.x-k8s.io/v1beta1/namespaces/team/sandboxes";
    const list = await get(port, path, ca, { authorization: "Bearer alice's" });
    expect(JSON.parse(list.body)).toMatchObject({ items: [{ metadata: { name: "one" }, status: { nodeName: "n1" } }] });
    expect((await get(port, path, ca, { authorization: "Bearer bob's" })).status).toBe(401);
    expect((await get(port, "/readyz", ca)).body).toBe("ok");
    expect(JSON.parse((await get(port, "/version", ca, { authorization: "Bearer alice's" })).body)).toMatchObject({
      gitVersion: "v1.2.3",
    });
  });

  test("port 0 leaves the E2B API alone, over the same store", async () => {
    await using cluster = await startCluster();
    const port = await freePort();
    const e2b = E2bFlags.from({
      "e2b-bind-address": `127.0.0.1:${port}`,
      "e2b-domain": "sandbox.test",
      "e2b-allow-anonymous": true,
      "e2b-namespace": "team",
    });
    const config = { ...configOf({ "secure-port": 0 }), e2b };
    await using shim = await run(config, cluster.kubeconfig, /serving e2b/i);
    const reply = await fetch(`http://127.0.0.1:${port}/sandboxes`);
    expect(await reply.json()).toMatchObject([{ sandboxID: "sb-0123456789abcdef" }]);
    expect(cluster.asked.filter((path) => path.includes("review"))).toEqual([]);
    expect(shim.messages.join("\n")).not.toMatch(/aggregated/);
  });
});

describe("failures at start", () => {
  test("an address that is taken is named", async () => {
    await using cluster = await startCluster();
    const taken = createListener();
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
    const { port } = taken.address() as AddressInfo;
    const config = configOf({ "bind-address": "127.0.0.1", "secure-port": port, "cert-dir": folder });
    await expect(run(config, cluster.kubeconfig, /never/)).rejects.toThrow(`listen on 127.0.0.1, port ${port}`);
    await new Promise((resolve) => taken.close(resolve));
  });

  test.each<[string, Readonly<Record<string, string>>, RegExp]>([
    ["no token file", { "sandboxd-token-file": "/nonexistent/t" }, /read token file "\/nonexistent\/t"/],
    ["no CA file", { "sandboxd-ca-file": "/nonexistent/ca" }, /CA file "\/nonexistent\/ca"/],
    ["no reviewer", { "authentication-kubeconfig": "/nonexistent/k" }, /\/nonexistent\/k/],
    ["no authority", { "client-ca-file": "/nonexistent/c" }, /\/nonexistent\/c/],
  ])("%s is told", async (_what, changed, message) => {
    await using cluster = await startCluster();
    await expect(run(configOf(changed), cluster.kubeconfig, /never/)).rejects.toThrow(message);
  });
});
