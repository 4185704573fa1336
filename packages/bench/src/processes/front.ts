import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createServer } from "@org/e2bcompat";
import { MeshInventory } from "@org/meshinventory";
import { createNodePool } from "@org/sandboxd-client";
import { createStore } from "@org/scale";
import { createNodeClients } from "@org/scale/sandboxd";
import { cpuClock } from "../compare.ts";
import { NAMESPACE } from "../fleet.ts";
import type { FleetSize } from "../fleet.ts";
import { collectGarbage } from "../heap.ts";
import { LatenessMeter } from "../lateness.ts";
import type { Lateness } from "../lateness.ts";
import { indexBody, infoBody } from "../node-replies.ts";
import type { RowOrder } from "../node-replies.ts";
import { answerCalls } from "../remote.ts";

/** A mesh to stand before. */
export interface WorldToOpen {
  readonly name: string;
  readonly seeds: readonly string[];
  readonly key: string;
}

/** What a stretch of time cost. */
export interface Stretch extends Lateness {
  /** Processor time of the process, in microseconds. */
  readonly cpuMicros: number;
}

/** What this process does. */
export interface FrontCalls {
  readonly [name: string]: (argument: never) => unknown;
  /** Polls a mesh once and serves the API over it; tells where, and how many nodes answered. */
  readonly open: (world: WorldToOpen) => Promise<{ readonly address: string; readonly nodes: number }>;
  /** Forgets a mesh. */
  readonly close: (world: string) => Promise<void>;
  /** Polls a mesh now. */
  readonly tick: (world: string) => Promise<Stretch>;
  /** Polls a mesh over and over, from one start to the next this long, until it is told to stop. */
  readonly keepTicking: (request: { readonly world: string; readonly everyMs: number }) => void;
  readonly stopTicking: (argument: undefined) => Promise<void>;
  /** Does nothing for a while. */
  readonly idle: (ms: number) => Promise<Stretch>;
  /** Parses all replies of a mesh of this size, and does nothing with them. */
  readonly parse: (mesh: FleetSize & { readonly order: RowOrder }) => number;
  /** Processor time of this process so far, in microseconds. */
  readonly cpu: (argument: undefined) => number;
  /** Bytes of heap in use after a collection. */
  readonly heap: (argument: undefined) => number;
}

const NEVER_MS = 3_600_000;

interface World {
  readonly inventory: MeshInventory;
  readonly close: () => Promise<void>;
}

const worlds = new Map<string, World>();
const replies = new Map<string, readonly Buffer[]>();
let ticking: { readonly stop: AbortController; readonly ended: Promise<void> } | undefined;

function worldOf(name: string): World {
  const world = worlds.get(name);
  if (world === undefined) {
    throw new Error(`no world ${name}`);
  }
  return world;
}

async function measured(work: () => Promise<unknown>): Promise<Stretch> {
  const meter = new LatenessMeter();
  meter.start();
  const began = cpuClock();
  await work();
  const cpuMicros = cpuClock() - began;
  return { cpuMicros, ...meter.stop() };
}

/** Put together as the service puts it together: polls and claims have connections of their own. */
async function open({ name, seeds, key }: WorldToOpen): Promise<{ address: string; nodes: number }> {
  const stop = new AbortController();
  const { signal } = stop;
  const token = "bench";
  const polling = createNodePool();
  const routing = createNodePool();
  const inventory = await MeshInventory.start({ seeds, pool: polling, token, pollIntervalMs: NEVER_MS, signal });
  const store = createStore(inventory, { clients: createNodeClients({ token, pool: routing }) });
  const server = createServer(store, {
    inventory,
    domain: "sandbox.example.com",
    keys: [{ key, namespace: NAMESPACE }],
  });
  const { promise, resolve, reject } = Promise.withResolvers<AddressInfo>();
  const served = server.serve("127.0.0.1:0", { signal, onListening: resolve });
  served.catch(reject);
  const { port } = await promise;
  worlds.set(name, {
    inventory,
    close: async () => {
      stop.abort();
      await Promise.all([served, inventory.stopped]);
      await Promise.all([polling.destroy(), routing.destroy()]);
    },
  });
  return { address: `127.0.0.1:${port}`, nodes: inventory.listNodes().length };
}

async function tickOn(inventory: MeshInventory, everyMs: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await Promise.all([inventory.tick(), sleep(everyMs)]);
  }
}

function bodiesOf(mesh: FleetSize & { readonly order: RowOrder }): readonly Buffer[] {
  const key = JSON.stringify(mesh);
  const known = replies.get(key);
  if (known !== undefined) {
    return known;
  }
  const names = Array.from({ length: mesh.nodes }, (_node, index) => `127.0.0.1:${10_000 + index}`);
  const made = names.flatMap((name, index) => [
    infoBody(name, names, mesh.perNode),
    indexBody(index, mesh, 0, mesh.order),
  ]);
  replies.set(key, made);
  return made;
}

const calls: FrontCalls = {
  open,
  close: async (world) => {
    await worldOf(world).close();
    worlds.delete(world);
  },
  tick: (world) => measured(() => worldOf(world).inventory.tick()),
  keepTicking: ({ world, everyMs }) => {
    const stop = new AbortController();
    ticking = { stop, ended: tickOn(worldOf(world).inventory, everyMs, stop.signal) };
  },
  stopTicking: async () => {
    ticking?.stop.abort();
    await ticking?.ended;
  },
  idle: (ms) => measured(() => sleep(ms)),
  parse: (mesh) => {
    const bodies = bodiesOf(mesh);
    const began = cpuClock();
    let members = 0;
    for (const body of bodies) {
      members += Object.keys(JSON.parse(body.toString("utf8")) as object).length;
    }
    const spent = cpuClock() - began;
    if (members === 0) {
      throw new Error("nothing was parsed");
    }
    return spent;
  },
  cpu: () => cpuClock(),
  heap: () => {
    collectGarbage();
    return process.memoryUsage().heapUsed;
  },
};

answerCalls(calls);
