import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";

import { type NodeAdmin, nodeAdmin } from "./node-admin.ts";
import { freePorts } from "./ports.ts";
import type { ManagedProcess, ProcessSet } from "./processes.ts";
import { cleanEnv, type Programs } from "./programs.ts";
import { type RecordingProxy, startRecordingProxy } from "./recording-proxy.ts";
import {
  frontFlags,
  IMAGE,
  poolsFull,
  RIG,
  type RigFacts,
  type RigFiles,
  surfacesUp,
  type TokenMode,
  writeRigFiles,
} from "./rig.ts";

/** A node in a process of its own. The control plane reaches it only through its recording proxy. */
export interface MeshNode {
  /** The address the node advertises: its recording proxy's. */
  readonly key: string;
  readonly calls: RecordingProxy;
  /** Operator access past the recording proxy. */
  readonly admin: NodeAdmin;
  readonly process: ManagedProcess;
}

/** A control plane in a process of its own, with the data plane in it. */
export interface MeshFront {
  readonly facts: RigFacts;
  readonly process: ManagedProcess;
  /** What it has logged so far. */
  log(): string;
  stop(): Promise<void>;
}

/** Two nodes in processes of their own that know each other, and the means to start fronts over them. */
export interface Mesh extends AsyncDisposable {
  readonly a: MeshNode;
  readonly b: MeshNode;
  /** Starts a control plane that is told of node A only. */
  readonly front: (options: { mode: TokenMode; pollMs: number }) => Promise<MeshFront>;
  /** Starts the stand-alone data plane, told of node A only. Answers its origin. */
  readonly dataPlane: (mode: TokenMode) => Promise<{ origin: string; process: ManagedProcess }>;
}

const NODE_POLL_MS = 1_200;

/** Starts two `sandbox-e2b dev-node` processes with `warm` guests each, joined by static peers. */
export async function startMesh(
  set: ProcessSet,
  programs: Programs,
  options: { warm: number; isolation?: string | undefined },
): Promise<Mesh> {
  const files = await writeRigFiles("mesh");
  const [portA = 0, portB = 0] = await freePorts(2);
  const proxies: RecordingProxy[] = [];
  const node = async (name: string, port: number, peer: number): Promise<MeshNode> => {
    const calls = await startRecordingProxy(`127.0.0.1:${port}`);
    proxies.push(calls);
    const stateDir = join(files.dir, `state-${name}`);
    await mkdir(stateDir, { recursive: true, mode: 0o700 });
    const child = await set.start({
      name: `dev-node ${name}`,
      command: process.execPath,
      args: [
        programs.sandboxE2b,
        "dev-node",
        `--listen=127.0.0.1:${port}`,
        `--advertise=${calls.address}`,
        `--peers=127.0.0.1:${peer}`,
        `--token-file=${files.tokenFile}`,
        `--pool=${IMAGE}=${options.warm}`,
        `--state-dir=${stateDir}`,
        `--isolation=${options.isolation ?? "auto"}`,
      ],
      env: cleanEnv({ OPERATOR_LOG_LEVEL: "info" }),
    });
    await child.waitForOutput(/development node up/, 30_000);
    return { key: calls.address, calls, admin: nodeAdmin(`127.0.0.1:${port}`, RIG.nodeToken), process: child };
  };
  const [a, b] = await Promise.all([node("a", portA, portB), node("b", portB, portA)]);
  await poolsFull([a.admin, b.admin]);
  // Members learn of each other by polling.
  await new Promise((resolve) => setTimeout(resolve, NODE_POLL_MS));

  return {
    a,
    b,
    front: (choices) => startFront(set, programs, files, [a, b], choices),
    dataPlane: async (mode) => {
      const [port = 0] = await freePorts(1);
      const child = await set.start({
        name: "envd-proxy",
        command: process.execPath,
        args: [
          programs.envdProxy,
          `--bind-address=127.0.0.1:${port}`,
          `--domain=${RIG.domain}`,
          `--sandboxd-seeds=${a.key}`,
          `--sandboxd-token-file=${files.tokenFile}`,
          `--e2b-envd-secret-file=${mode === "secret" ? files.secretFile : ""}`,
          "--inventory-poll=1s",
          // Every namespace: by default it serves only one.
          "--namespace=",
        ],
        env: cleanEnv({ OPERATOR_LOG_LEVEL: "debug" }),
      });
      await child.waitForOutput(/serving envd-proxy/, 30_000);
      return { origin: `http://127.0.0.1:${port}`, process: child };
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([a.process.stop(), b.process.stop()]);
      await Promise.all(proxies.map((proxy) => proxy.close()));
      await rm(files.dir, { recursive: true, force: true });
    },
  };
}

async function startFront(
  set: ProcessSet,
  programs: Programs,
  files: RigFiles,
  nodes: readonly [MeshNode, MeshNode],
  options: { mode: TokenMode; pollMs: number },
): Promise<MeshFront> {
  const [apiPort = 0, proxyPort = 0] = await freePorts(2);
  const child = await set.start({
    name: "sandbox-e2b",
    command: process.execPath,
    args: [
      programs.sandboxE2b,
      `--sandboxd-seeds=${nodes[0].key}`,
      ...frontFlags(files, options.mode, apiPort, proxyPort, options.pollMs),
    ],
    env: cleanEnv({ OPERATOR_LOG_LEVEL: "debug" }),
  });
  await child.waitForOutput(/mesh inventory up/, 30_000);
  const facts: RigFacts = {
    ...RIG,
    mode: options.mode,
    apiUrl: `http://127.0.0.1:${apiPort}`,
    proxyUrl: `http://127.0.0.1:${proxyPort}`,
    image: IMAGE,
    nodeAddresses: nodes.map((node) => node.admin.address),
    pollMs: options.pollMs,
    frontPid: child.pid,
  };
  await surfacesUp({ ...facts, pollMs: 0 });
  return {
    facts,
    process: child,
    log: () => child.stdout() + child.stderr(),
    stop: async () => void (await child.stop()),
  };
}
