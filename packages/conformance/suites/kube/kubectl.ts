import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { SkipRow } from "../../src/harness-rows.ts";
import { type KubeMinor, kubeTools } from "../../src/kube-tools.ts";
import type { ManagedProcess, ProcessSet } from "../../src/processes.ts";
import { cleanEnv } from "../../src/programs.ts";

/** What a call of kubectl came to. */
export interface KubectlEnd {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A kubectl of one version with one kubeconfig. Its cache of discovery is its own. */
export interface Kubectl extends AsyncDisposable {
  readonly version: string;
  /** Runs it to its end, whatever that is. */
  run(args: readonly string[], input?: string): Promise<KubectlEnd>;
  /** Runs it and answers its output. @throws when it fails */
  ok(args: readonly string[], input?: string): Promise<string>;
  /** Runs it and answers what it says. @throws when it succeeds */
  refused(args: readonly string[], input?: string): Promise<string>;
  /** Starts it and lets it run. */
  start(args: readonly string[]): Promise<ManagedProcess>;
}

const LIMIT_MS = 60_000;

/** Skips the row when there is no kubectl of this version. */
export async function openKubectl(set: ProcessSet, minor: KubeMinor, kubeconfig: string): Promise<Kubectl> {
  const tools = await kubeTools(minor);
  if (tools.kind === "absent") {
    throw new SkipRow(tools.reason);
  }
  const home = await mkdtemp(join(tmpdir(), "conformance-kubectl-"));
  const env = { ...cleanEnv({ KUBECONFIG: kubeconfig }), HOME: home };
  const start = (args: readonly string[], input?: string): Promise<ManagedProcess> =>
    set.start({
      name: `kubectl ${args.slice(0, 3).join(" ")}`,
      command: tools.kubectl,
      args,
      env,
      ...(input === undefined ? {} : { input }),
    });
  const run: Kubectl["run"] = async (args, input) => {
    const child = await start(args, input);
    const timer = setTimeout(() => child.signal("SIGKILL", true), LIMIT_MS);
    const { code } = await child.ended;
    clearTimeout(timer);
    return { code, stdout: child.stdout(), stderr: child.stderr() };
  };
  const shown = (args: readonly string[], { code, stdout, stderr }: KubectlEnd): string =>
    `kubectl ${args.join(" ")}: exit ${code}\n${stdout}${stderr}`.slice(0, 1_200);
  return {
    version: tools.version,
    run,
    ok: async (args, input) => {
      const end = await run(args, input);
      if (end.code !== 0) {
        throw new Error(shown(args, end));
      }
      return end.stdout;
    },
    refused: async (args, input) => {
      const end = await run(args, input);
      if (end.code === 0 || end.code === null) {
        throw new Error(`it was not refused: ${shown(args, end)}`);
      }
      return end.stdout + end.stderr;
    },
    start: (args) => start(args),
    [Symbol.asyncDispose]: () => rm(home, { recursive: true, force: true }),
  };
}
