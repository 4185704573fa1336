import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { runProgram } from "@org/command-line";
import { DEFAULT_STALE_AFTER_MS } from "@org/kubeinventory";
import { describe, expect, test } from "vitest";
import type { ShimConfig } from "./flags.ts";
import { programSpec, shimConfig } from "./flags.ts";

async function parse(
  argv: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ status: number; stderr: string; config: ShimConfig | undefined }> {
  let stderr = "";
  let config: ShimConfig | undefined;
  const io = { argv, env, stdout: () => undefined, stderr: (text: string) => void (stderr += text) };
  const status = await runProgram(programSpec("1.0.0"), io, (call) => {
    const checked = shimConfig(call);
    return async () => void (config = checked);
  });
  return { status, stderr, config };
}

test("the documented defaults hold", async () => {
  expect((await parse([])).config).toEqual({
    token: "",
    tokenFile: "",
    caFile: "",
    staleAfterMs: DEFAULT_STALE_AFTER_MS,
    uniqueNames: false,
    driver: { syncIntervalMs: 5000 },
    e2b: undefined,
    serving: {
      address: "0.0.0.0",
      port: 6443,
      certDir: "apiserver.local.config/certificates",
      certFile: "",
      keyFile: "",
      named: [],
      cipherSuites: [],
      minVersion: undefined,
      curves: [],
      http2: true,
      http2MaxStreams: 0,
      reusePort: false,
    },
    auth: {
      authenticationKubeconfig: "",
      authorizationKubeconfig: "",
      skipLookup: false,
      tolerateLookupFailure: false,
      tokenTtlMs: 10_000,
      allowedTtlMs: 10_000,
      deniedTtlMs: 10_000,
      alwaysAllowPaths: ["/healthz", "/readyz", "/livez"],
      clientCaFile: "",
      requestHeader: {
        clientCaFile: "",
        allowedNames: [],
        usernameHeaders: ["x-remote-user"],
        groupHeaders: ["x-remote-group"],
        extraHeadersPrefix: ["x-remote-extra-"],
        uidHeaders: [],
      },
    },
  });
});

test.each([
  [["--inventory-stale-after=0"], { staleAfterMs: DEFAULT_STALE_AFTER_MS }],
  [["--inventory-stale-after=2m"], { staleAfterMs: 120_000 }],
  [["--enable-warm-pool-driver=false"], { driver: undefined }],
  [["--warm-pool-sync-interval=1m30s"], { driver: { syncIntervalMs: 90_000 } }],
  [["--unique-sandbox-names"], { uniqueNames: true }],
  [["--enable-e2b-api", "--e2b-domain=d.test"], { e2b: { domain: "d.test", bindAddress: ":8080" } }],
  [
    ["--tls-cert-file=c", "--tls-private-key-file=k", "--tls-min-version=VersionTLS13"],
    { serving: { certFile: "c", keyFile: "k", minVersion: "TLSv1.3" } },
  ],
  [
    ["--tls-sni-cert-key=a.crt,a.key", "--tls-sni-cert-key=b.crt,b.key:one.test,*.two.test"],
    {
      serving: {
        named: [
          { certFile: "a.crt", keyFile: "a.key", names: [] },
          { certFile: "b.crt", keyFile: "b.key", names: ["one.test", "*.two.test"] },
        ],
      },
    },
  ],
  [["--tls-curve-preferences=X25519, 23"], { serving: { curves: [29, 23] } }],
  [["--disable-http2-serving", "--permit-port-sharing"], { serving: { http2: false, reusePort: true } }],
  [
    ["--requestheader-client-ca-file=f", "--requestheader-allowed-names=a,b", "--requestheader-uid-headers=X-Uid"],
    { auth: { requestHeader: { clientCaFile: "f", allowedNames: ["a", "b"], uidHeaders: ["X-Uid"] } } },
  ],
  [["--authorization-webhook-cache-unauthorized-ttl=0s"], { auth: { deniedTtlMs: 0, allowedTtlMs: 10_000 } }],
])("%j is taken up", async (argv, expected) => {
  const { config, stderr } = await parse(argv);
  expect(stderr).toBe("");
  expect(config).toMatchObject(expected);
});

describe("what is no value", () => {
  test.each([
    ["--inventory-stale-after=-1s", /--inventory-stale-after/],
    ["--warm-pool-sync-interval=often", /--warm-pool-sync-interval/],
    ["--authentication-token-webhook-cache-ttl=10", /--authentication-token-webhook-cache-ttl/],
    ["--secure-port=https", /--secure-port/],
    ["--secure-port=65536", /--secure-port/],
    ["--http2-max-streams-per-connection=-1", /--http2-max-streams-per-connection/],
    ["--tls-cert-file=c", /must be set together/],
    ["--tls-min-version=VersionTLS10", /--tls-min-version: want VersionTLS12 or VersionTLS13/],
    ["--tls-curve-preferences=brainpool", /--tls-curve-preferences/],
    ["--tls-sni-cert-key=a.crt", /--tls-sni-cert-key/],
    ["--leader-elect", /unknown flag --leader-elect/],
  ])("%s is a usage error", async (argument, message) => {
    const { status, stderr } = await parse([argument]);
    expect(status).toBe(2);
    expect(stderr).toMatch(message);
  });
});

describe("what would count for nothing", () => {
  test.each<[string[], RegExp]>([
    [["--e2b-domain=d"], /--e2b-domain counts for nothing without --enable-e2b-api/],
    [
      ["--enable-warm-pool-driver=false", "--warm-pool-sync-interval=9s"],
      /--warm-pool-sync-interval counts for nothing/,
    ],
    [["--requestheader-allowed-names=a"], /--requestheader-allowed-names needs --requestheader-client-ca-file/],
    [["--requestheader-username-headers="], /want at least one header/],
    [["--profiling"], /--profiling is not supported/],
    [["--contention-profiling=true"], /--contention-profiling is not supported/],
    [["--debug-socket-path=/tmp/s"], /--debug-socket-path is not supported/],
    [["--enable-priority-and-fairness"], /--enable-priority-and-fairness is not supported/],
    [["--permit-address-sharing"], /--permit-address-sharing is not supported/],
  ])("%j is refused by name", async (argv, message) => {
    const { status, stderr } = await parse(argv);
    expect(status).toBe(2);
    expect(stderr).toMatch(message);
  });

  test("counts as well when a variable says it, and not when what it belongs to is on", async () => {
    const env = { APISERVER_SHIM_E2B_BIND_ADDRESS: "127.0.0.1:1" };
    expect((await parse([], env)).stderr).toMatch(/--e2b-bind-address counts for nothing/);
    expect((await parse(["--enable-e2b-api", "--e2b-domain=d"], env)).status).toBe(0);
  });

  test("is accepted when it says what holds anyway", async () => {
    const argv = ["--profiling=false", "--enable-priority-and-fairness=false", "--permit-address-sharing=false"];
    expect((await parse(argv)).status).toBe(0);
  });
});

test.each<[Record<string, string>, RegExp]>([
  [{}, /^apiserver-shim: no Kubernetes cluster is configured: set KUBECONFIG [^\n]*\n$/m],
  [{ KUBECONFIG: "/nonexistent/k" }, /^apiserver-shim: KUBECONFIG names no file that exists \(\/nonexistent\/k\)\n$/m],
  [{ OPERATOR_LOG_LEVEL: "loud" }, /^apiserver-shim: OPERATOR_LOG_LEVEL is "loud": set it to one of debug, /],
])("with %j the program ends with status 1 and one line that says what to do", async (extra, message) => {
  const main = fileURLToPath(new URL("./main.ts", import.meta.url));
  const env = { PATH: process.env["PATH"] ?? "", HOME: "/nonexistent", ...extra };
  const ended = await new Promise<{ status: unknown; stdout: string; stderr: string }>((resolve) => {
    execFile(process.execPath, ["--conditions=@org/source", main], { env }, (error, stdout, stderr) =>
      resolve({ status: error?.code, stdout, stderr }),
    );
  });
  expect(ended).toEqual({ status: 1, stdout: "", stderr: expect.stringMatching(message) });
});
