import { mkdir } from "node:fs/promises";
import { join } from "node:path";

import type { ManagedProcess, ProcessSet } from "./processes.ts";
import { cleanEnv, type Programs } from "./programs.ts";
import { IMAGE, type RigFiles } from "./rig.ts";

/** Choices of {@link startDevNodeProcess}. */
export interface DevNodeProcessOptions {
  readonly name: string;
  /** Loopback port it listens at. */
  readonly port: number;
  /** Address that it names itself by. */
  readonly advertise: string;
  readonly peers: readonly string[];
  /** Warm guests on the lane without network. */
  readonly warm: number;
  readonly isolation?: string | undefined;
  /** Further flags. */
  readonly flags?: readonly string[];
  /** @default info */
  readonly logLevel?: string;
}

/** Starts `sandbox-e2b dev-node` and returns once it is up; its pool may still be filling. */
export async function startDevNodeProcess(
  set: ProcessSet,
  programs: Programs,
  files: RigFiles,
  options: DevNodeProcessOptions,
): Promise<ManagedProcess> {
  const stateDir = join(files.dir, `state-${options.name}`);
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
  const child = await set.start({
    name: `dev-node ${options.name}`,
    command: process.execPath,
    args: [
      programs.sandboxE2b,
      "dev-node",
      `--listen=127.0.0.1:${options.port}`,
      `--advertise=${options.advertise}`,
      `--peers=${options.peers.join(",")}`,
      `--token-file=${files.tokenFile}`,
      `--pool=${IMAGE}=${options.warm}`,
      `--state-dir=${stateDir}`,
      `--isolation=${options.isolation ?? "auto"}`,
      ...(options.flags ?? []),
    ],
    env: cleanEnv({ OPERATOR_LOG_LEVEL: options.logLevel ?? "info" }),
  });
  await child.waitForOutput(/development node up/, 90_000);
  return child;
}
