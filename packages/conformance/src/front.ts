import type { ManagedProcess, ProcessSet } from "./processes.ts";
import { freePorts } from "./ports.ts";
import { cleanEnv, type Programs } from "./programs.ts";
import { frontFlags, IMAGE, RIG, type RigFacts, type RigFiles, surfacesUp, type TokenMode } from "./rig.ts";

/** A control plane in a process of its own, with the data plane in it. */
export interface Front {
  readonly facts: RigFacts;
  readonly process: ManagedProcess;
  /** What it has logged so far. */
  log(): string;
  stop(): Promise<void>;
}

/** Choices of {@link startFront}. */
export interface FrontOptions {
  /** As `--sandboxd-seeds` takes them. */
  readonly seeds: string;
  /** Where the harness finds the nodes. */
  readonly nodeAddresses: readonly string[];
  readonly mode: TokenMode;
  readonly pollMs: number;
  /** Added to the program's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Put behind the other flags, where they win over the same flags. */
  readonly flags?: readonly string[];
  /** The certificate among the flags: the data plane is served over TLS. */
  readonly certFile?: string;
}

/** Starts the service and returns it before it is up, for rows that watch or expect to fail the start. */
export async function launchFront(
  set: ProcessSet,
  programs: Programs,
  files: RigFiles,
  options: FrontOptions,
): Promise<Front> {
  const [apiPort = 0, proxyPort = 0] = await freePorts(2);
  const added = options.flags ?? [];
  const replaced = new Set(added.map((flag) => flag.split("=")[0]));
  const flags = frontFlags(files, options.mode, apiPort, proxyPort, options.pollMs);
  const child = await set.start({
    name: "sandbox-e2b",
    command: process.execPath,
    args: [
      programs.sandboxE2b,
      `--sandboxd-seeds=${options.seeds}`,
      ...flags.filter((flag) => !replaced.has(flag.split("=")[0])),
      ...added,
    ],
    env: cleanEnv({ OPERATOR_LOG_LEVEL: "debug", ...options.env }),
  });
  const facts: RigFacts = {
    ...RIG,
    mode: options.mode,
    apiUrl: `http://127.0.0.1:${apiPort}`,
    proxyUrl: `${options.certFile === undefined ? "http" : "https"}://127.0.0.1:${proxyPort}`,
    image: IMAGE,
    nodeAddresses: options.nodeAddresses,
    pollMs: options.pollMs,
    frontPid: child.pid,
    ...(options.certFile === undefined ? {} : { trust: { caFile: options.certFile, bundleFile: options.certFile } }),
  };
  return {
    facts,
    process: child,
    log: () => child.stdout() + child.stderr(),
    stop: async () => void (await child.stop()),
  };
}

/** Starts the service over nodes that answer and returns once both of its surfaces do. */
export async function startFront(
  set: ProcessSet,
  programs: Programs,
  files: RigFiles,
  options: FrontOptions,
): Promise<Front> {
  const front = await launchFront(set, programs, files, options);
  await front.process.waitForOutput(/mesh inventory up/, 30_000);
  await surfacesUp({ ...front.facts, pollMs: 0 });
  return front;
}
