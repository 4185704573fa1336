import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { runProgram } from "@org/command-line";
import { DEFAULT_STALE_AFTER_MS } from "@org/kubeinventory";
import { expect, test } from "vitest";
import type { ShimConfig } from "./compose.ts";
import { programSpec, shimConfig } from "./flags.ts";

async function parse(
  argv: readonly string[],
): Promise<{ status: number; stderr: string; config: ShimConfig | undefined }> {
  let stderr = "";
  let config: ShimConfig | undefined;
  const io = { argv, env: {}, stdout: () => undefined, stderr: (text: string) => void (stderr += text) };
  const status = await runProgram(programSpec("1.0.0"), io, ({ values }) => {
    const checked = shimConfig(values);
    return async () => void (config = checked);
  });
  return { status, stderr, config };
}

test.each([
  [[], DEFAULT_STALE_AFTER_MS],
  [["--inventory-stale-after=0"], DEFAULT_STALE_AFTER_MS],
  [["--inventory-stale-after=2m"], 120_000],
])("with %j an inventory is stale after %i ms", async (argv, ms) => {
  expect((await parse(argv)).config?.staleAfterMs).toBe(ms);
});

test.each([
  ["--inventory-stale-after=-1s", /--inventory-stale-after/],
  ["--warm-pool-sync-interval=often", /--warm-pool-sync-interval/],
  ["--secure-port=https", /--secure-port/],
  ["--tls-cert-file=c", /must be set together/],
  ["--e2b-bind-address=nowhere", /--e2b-bind-address/],
  ["--leader-elect", /unknown flag --leader-elect/],
])("%s is a usage error", async (argument, message) => {
  const { status, stderr } = await parse([argument]);
  expect(status).toBe(2);
  expect(stderr).toMatch(message);
});

test("the program ends with one line and status 1 where no cluster is configured", async () => {
  const main = fileURLToPath(new URL("./main.ts", import.meta.url));
  const env = { PATH: process.env["PATH"] ?? "", HOME: "/nonexistent" };
  const ended = await new Promise<{ status: unknown; stdout: string; stderr: string }>((resolve) => {
    execFile(process.execPath, ["--conditions=@org/source", main], { env }, (error, stdout, stderr) =>
      resolve({ status: error?.code, stdout, stderr }),
    );
  });
  expect(ended).toEqual({
    status: 1,
    stdout: "",
    stderr: expect.stringMatching(/^apiserver-shim: no Kubernetes cluster is configured: set KUBECONFIG [^\n]*\n$/),
  });
});
