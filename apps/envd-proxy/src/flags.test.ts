import { runProgram } from "@org/command-line";
import { expect, test } from "vitest";
import type { ProxyConfig } from "./compose.ts";
import { programSpec, proxyConfig } from "./flags.ts";

async function parse(
  argv: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ status: number; stdout: string; stderr: string; config: ProxyConfig | undefined }> {
  let stdout = "";
  let stderr = "";
  let config: ProxyConfig | undefined;
  const io = {
    argv,
    env,
    stdout: (text: string) => void (stdout += text),
    stderr: (text: string) => void (stderr += text),
  };
  const status = await runProgram(programSpec("1.0.0"), io, (call) => {
    const checked = proxyConfig(call);
    return async () => void (config = checked);
  });
  return { status, stdout, stderr, config };
}

test("the documented defaults hold", async () => {
  const { config } = await parse([]);
  expect(config).toMatchObject({
    inventory: { kind: "mesh", seeds: [], pollIntervalMs: 10_000 },
    domain: "",
    namespace: "default",
    envdSecretFile: "",
  });
  expect(config?.proxy).toMatchObject({ bindAddress: ":8443", guestHttp2: false, publicPorts: "none" });
});

test("flags have no prefix, and variables that an orchestrator sets for a service of this name are left alone", async () => {
  const { config, stderr } = await parse(["--bind-address=127.0.0.1:1", "--public-ports=all", "--namespace="], {
    ENVD_PROXY_DOMAIN: "sandbox.example.com",
    ENVD_PROXY_SERVICE_HOST: "10.0.0.1",
    ENVD_PROXY_PORT: "tcp://10.0.0.1:8443",
  });
  expect(stderr).toBe("");
  expect(config).toMatchObject({ domain: "sandbox.example.com", namespace: "" });
  expect(config?.proxy).toMatchObject({ bindAddress: "127.0.0.1:1", publicPorts: "all" });
});

test.each([
  [["--inventory=kube"], 90_000],
  [["--inventory=kube", "--inventory-stale-after=0"], 90_000],
  [["--inventory=kube", "--inventory-stale-after=2m"], 120_000],
])("with %j the cluster's objects are stale after %i ms", async (argv, staleAfterMs) => {
  expect((await parse(argv)).config?.inventory).toEqual({ kind: "kube", staleAfterMs });
});

test.each([
  [["--inventory=kube", "--sandboxd-seeds=a:1"], {}, /--sandboxd-seeds counts for nothing with --inventory=kube/],
  [["--inventory=kube"], { ENVD_PROXY_INVENTORY_POLL: "5s" }, /--inventory-poll counts for nothing/],
  [["--inventory-stale-after=2m"], {}, /--inventory-stale-after counts for nothing with --inventory=mesh/],
])("%j with %j is a usage error: nothing is read and ignored", async (argv, env, message) => {
  const { status, stderr } = await parse(argv, env);
  expect(status).toBe(2);
  expect(stderr).toMatch(message);
});

test.each([
  ["--inventory=redis", /--inventory: want mesh or kube/],
  ["--inventory-stale-after=-1s", /--inventory-stale-after/],
  ["--bind-address=", /--bind-address/],
  ["--public-ports=49983", /--public-ports/],
  ["--inventory-poll=soon", /--inventory-poll/],
  ["--envd-proxy-bind-address=:1", /unknown flag --envd-proxy-bind-address/],
  ["--e2b-domain=x", /unknown flag --e2b-domain/],
])("%s is a usage error", async (argument, message) => {
  const { status, stderr } = await parse([argument]);
  expect(status).toBe(2);
  expect(stderr).toMatch(message);
});

test("--print-config masks the token", async () => {
  const { stdout } = await parse(["--print-config", "--sandboxd-token=s3cret"]);
  expect(stdout).not.toContain("s3cret");
  expect(JSON.parse(stdout)).toMatchObject({ flags: { "sandboxd-token": { value: "***" } } });
});
