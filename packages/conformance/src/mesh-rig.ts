import { rm } from "node:fs/promises";

import { startDevNodeProcess } from "./dev-node-process.ts";
import { type Front, startFront } from "./front.ts";
import { type NodeAdmin, nodeAdmin } from "./node-admin.ts";
import { freePorts } from "./ports.ts";
import type { ManagedProcess, ProcessSet } from "./processes.ts";
import { cleanEnv, type Programs } from "./programs.ts";
import { type RecordingProxy, startRecordingProxy } from "./recording-proxy.ts";
import { poolsFull, RIG, type TokenMode, writeRigFiles } from "./rig.ts";

/** A node in a process of its own. The control plane reaches it only through its recording proxy. */
export interface MeshNode {
  /** The address the node advertises: its recording proxy's. */
  readonly key: string;
  readonly calls: RecordingProxy;
  /** Operator access past the recording proxy. */
  readonly admin: NodeAdmin;
  readonly process: ManagedProcess;
}

/** Two nodes in processes of their own that know each other, and the means to start fronts over them. */
export interface Mesh extends AsyncDisposable {
  readonly a: MeshNode;
  readonly b: MeshNode;
  /** Starts a control plane that is told of node A only. */
  readonly front: (options: { mode: TokenMode; pollMs: number }) => Promise<Front>;
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
    const child = await startDevNodeProcess(set, programs, files, {
      name,
      port,
      advertise: calls.address,
      peers: [`127.0.0.1:${peer}`],
      warm: options.warm,
      isolation: options.isolation,
    });
    return { key: calls.address, calls, admin: nodeAdmin(`127.0.0.1:${port}`, RIG.nodeToken), process: child };
  };
  const [a, b] = await Promise.all([node("a", portA, portB), node("b", portB, portA)]);
  await poolsFull([a.admin, b.admin]);
  // Members learn of each other by polling.
  await new Promise((resolve) => setTimeout(resolve, NODE_POLL_MS));

  return {
    a,
    b,
    front: (choices) =>
      startFront(set, programs, files, {
        ...choices,
        seeds: a.key,
        nodeAddresses: [a.admin.address, b.admin.address],
      }),
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
