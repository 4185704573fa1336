import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { startDevNodeProcess } from "./dev-node-process.ts";
import { type Front, type FrontOptions, launchFront, startFront } from "./front.ts";
import { type NodeAdmin, nodeAdmin, type NodeSandbox } from "./node-admin.ts";
import { waitFor } from "./polling.ts";
import { freePorts } from "./ports.ts";
import type { ManagedProcess, ProcessSet } from "./processes.ts";
import type { Programs } from "./programs.ts";
import { IMAGE, poolsFull, RIG, type RigFiles, writeRigFiles } from "./rig.ts";

/** A node with guests that may be killed and started again. */
export interface GuestNode {
  readonly admin: NodeAdmin;
  readonly process: ManagedProcess;
  /** Ends it with its guests at once, as a lost machine would. */
  kill(): Promise<void>;
  /** Starts it again over the same folder and waits until its pools are full. */
  restart(): Promise<void>;
}

/** Choices of a front over a {@link GuestMesh}. */
export type GuestMeshFront = Partial<Omit<FrontOptions, "nodeAddresses" | "seeds">>;

/** Nodes with guests, each in a process of its own and with `/debug/faults`, and fronts over all of them. */
export interface GuestMesh extends AsyncDisposable {
  readonly files: RigFiles;
  readonly nodes: readonly GuestNode[];
  /** Fronts that were started and not stopped. */
  readonly fronts: readonly Front[];
  /** Starts a front. Derived tokens and a poll of half a second unless it is told otherwise. */
  front(options?: GuestMeshFront): Promise<Front>;
  /** Starts a front and returns before it is up. */
  launch(options?: GuestMeshFront): Promise<Front>;
  /** Sandboxes of a namespace on all nodes. */
  sandboxes(namespace: string): Promise<readonly NodeSandbox[]>;
  /** Names of templates that a namespace has on any node. */
  templates(namespace: string): Promise<readonly string[]>;
}

/** Choices of {@link startGuestMesh}. */
export interface GuestMeshOptions {
  readonly isolation: string | undefined;
  readonly nodes: number;
  /** Warm guests of the usual image and size per node. */
  readonly warm: number;
  /** Warm guests of the size `medium`, which older clients build on. @default 0 */
  readonly medium?: number;
  /** @default info */
  readonly logLevel?: string;
  /** Further flags of the nodes. */
  readonly nodeFlags?: readonly string[];
}

/** Starts the nodes and waits until their pools are full. */
export async function startGuestMesh(
  set: ProcessSet,
  programs: Programs,
  label: string,
  options: GuestMeshOptions,
): Promise<GuestMesh> {
  const files = await writeRigFiles(label);
  const ports = await freePorts(options.nodes);
  const fronts = new Set<Front>();
  const addressOf = (port: number): string => `127.0.0.1:${port}`;

  const guestNode = async (port: number, index: number): Promise<GuestNode> => {
    const admin = nodeAdmin(addressOf(port), RIG.nodeToken);
    const { warm, isolation, logLevel = "info", medium = 0, nodeFlags = [] } = options;
    const start = (): Promise<ManagedProcess> =>
      startDevNodeProcess(set, programs, files, {
        name: `guests-${index}`,
        port,
        advertise: addressOf(port),
        peers: ports.filter((other) => other !== port).map(addressOf),
        warm,
        isolation,
        logLevel,
        flags: ["--allow-faults", ...(medium === 0 ? [] : [`--pool=${IMAGE},none,medium=${medium}`]), ...nodeFlags],
      });
    let running = await start();
    return {
      admin,
      get process() {
        return running;
      },
      kill: async () => {
        running.signal("SIGKILL", true);
        await running.ended;
      },
      restart: async () => {
        await running.stop(1_000);
        running = await start();
        await poolsFull([admin]);
      },
    };
  };

  const nodes = await Promise.all(ports.map(guestNode));
  await poolsFull(nodes.map((node) => node.admin));
  const whole = (choices: GuestMeshFront): FrontOptions => ({
    seeds: ports.map(addressOf).join(","),
    nodeAddresses: ports.map(addressOf),
    mode: "secret",
    pollMs: 500,
    ...choices,
  });
  const kept = (front: Front): Front => {
    fronts.add(front);
    void front.process.ended.then(() => fronts.delete(front));
    return front;
  };
  return {
    files,
    nodes,
    get fronts() {
      return [...fronts];
    },
    front: async (choices = {}) => kept(await startFront(set, programs, files, whole(choices))),
    launch: async (choices = {}) => kept(await launchFront(set, programs, files, whole(choices))),
    sandboxes: async (namespace) => {
      const rows = await Promise.all(nodes.map((node) => node.admin.sandboxes()));
      return rows.flat().filter((row) => row.claim_ref?.startsWith(`${namespace}/`));
    },
    templates: async (namespace) => {
      const infos = await Promise.all(nodes.map((node) => node.admin.info()));
      const prefix = `e2b/${namespace}/`;
      const names = infos.flatMap(({ templates = [] }) => templates.map(({ key }) => key.template));
      return names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...fronts].map((front) => front.process.stop(5_000)));
      await Promise.all(
        nodes.map(async (node) => {
          node.process.signal("SIGCONT");
          await node.process.stop(5_000);
        }),
      );
      await rm(files.dir, { recursive: true, force: true });
    },
  };
}

/** Flags of a front that builds templates and keeps their files in a folder of the rig. */
export function buildFlags(files: RigFiles, more: readonly string[] = []): readonly string[] {
  return ["--e2b-builds=true", `--e2b-build-dir=${join(files.dir, "uploads")}`, ...more];
}

/** Waits until a namespace has no sandbox on any node. */
export async function noSandboxLeft(mesh: GuestMesh, namespace: string, withinMs: number): Promise<void> {
  await waitFor(
    `an end of every sandbox of ${namespace}`,
    async () => (await mesh.sandboxes(namespace)).length === 0,
    withinMs,
    100,
  );
}

/** Waits until there are guests for a row, and fronts that poll so often know of them. */
export async function restock(mesh: Pick<GuestMesh, "nodes">, pollMs: number): Promise<void> {
  const admins = mesh.nodes.map(({ admin }) => admin);
  const infos = await Promise.all(admins.map((admin) => admin.info()));
  if (infos.some(({ pools }) => pools.some(({ warm, target }) => warm < target))) {
    await poolsFull(admins);
    await delay(2 * pollMs + 200);
  }
}
