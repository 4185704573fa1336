import { createServer as createHttpServer } from "node:http";
import { connect, createServer } from "node:net";
import { bindListener, createProxy, serve } from "@org/envdproxy";
import { MeshInventory } from "@org/meshinventory";
import { createNodePool } from "@org/sandboxd-client";
import { createStore } from "@org/scale";
import { createNodeClients } from "@org/scale/sandboxd";
import { cpuClock } from "../compare.ts";
import { collectGarbage } from "../heap.ts";
import { listen } from "../listen.ts";
import { answerCalls } from "../remote.ts";

/** A data plane to start. */
export interface ProxyToOpen {
  readonly node: string;
  readonly token: string;
  /** How long an idle relay is kept for the next request, in milliseconds; 0 opens one for each. */
  readonly relayIdleMs: number;
}

/** What this process does: the data plane as `envd-proxy` puts it together, and the least that could stand there. */
export interface ProxyCalls {
  readonly [name: string]: (argument: never) => unknown;
  /** Serves the data plane over a mesh and tells where. */
  readonly open: (proxy: ProxyToOpen) => Promise<string>;
  /** Serves a pipe of two sockets to an address and tells where. */
  readonly pipe: (to: string) => Promise<string>;
  /** Serves an HTTP server of Node that answers everything itself and tells where. */
  readonly answer: (argument: undefined) => Promise<string>;
  readonly cpu: (argument: undefined) => number;
  /** Bytes that the process holds, after a collection. */
  readonly memory: (argument: undefined) => number;
  /** The most that it has held since the last `memory`, looked at every few milliseconds. */
  readonly peak: (argument: undefined) => number;
}

const NEVER_MS = 3_600_000;
const LOOK_MS = 20;

let peak = 0;
setInterval(() => {
  peak = Math.max(peak, process.memoryUsage.rss());
}, LOOK_MS);

async function open({ node, token, relayIdleMs }: ProxyToOpen): Promise<string> {
  const seeds = [node];
  const { signal } = new AbortController();
  const pool = createNodePool();
  const inventory = await MeshInventory.start({ seeds, pool, token, pollIntervalMs: NEVER_MS, signal });
  const store = createStore(inventory, { clients: createNodeClients({ token, pool: createNodePool() }) });
  const proxy = createProxy({ store, domain: "sandbox.example.com", relayIdleMs, publicPorts: "all" });
  const listener = await bindListener("127.0.0.1:0");
  void serve(listener, proxy);
  return listener.address;
}

function pipe(to: string): Promise<string> {
  const cut = to.lastIndexOf(":");
  const target = { host: to.slice(0, cut), port: Number(to.slice(cut + 1)), noDelay: true, allowHalfOpen: true };
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    const guest = connect(target);
    for (const [from, into] of [
      [client, guest],
      [guest, client],
    ] as const) {
      from.on("error", () => into.destroy());
      from.pipe(into);
    }
  });
  return listen(server);
}

function answer(): Promise<string> {
  const server = createHttpServer((request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": "text/plain", "content-length": 5 });
    response.end("hello");
  });
  return listen(server);
}

const calls: ProxyCalls = {
  open,
  pipe,
  answer,
  cpu: () => cpuClock(),
  memory: () => {
    collectGarbage();
    const held = process.memoryUsage.rss();
    peak = held;
    return held;
  },
  peak: () => Math.max(peak, process.memoryUsage.rss()),
};

answerCalls(calls);
