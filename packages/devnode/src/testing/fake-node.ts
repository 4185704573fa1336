import { mkdir, readFile, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { DevNodeError } from "../errors.ts";
import { openCaptureStore, type Capture } from "../host/capture-store.ts";
import type { Guest } from "../host/guest.ts";
import { digestTree } from "../host/tree-digest.ts";
import { listen } from "../http/server.ts";
import { SILENT } from "../logger.ts";
import { createAccess, type Tenant } from "../node/access.ts";
import { createNode, type Node } from "../node/node.ts";
import { createPeers } from "../node/peers.ts";
import { createPools } from "../node/pools.ts";
import type { DevNodePool } from "../options.ts";
import { nodeApi, type Api } from "./api.ts";
import { temporaryFolder } from "./temporary-folder.ts";

/** What a fake guest was told. */
export interface FakeGuest extends Guest {
  /** Guest port to a port on this machine. */
  readonly ports: Map<number, number>;
  frozen: boolean;
  destroyed: boolean;
  egress: boolean | undefined;
  /** What its files say; a copy starts with it. */
  content: string;
  document: string | undefined;
  /** Holds up the next copy of its files. */
  copying: Promise<void> | undefined;
  /** Fails every freeze, after it has begun. */
  stubborn: boolean;
  /** Holds up the next freeze until it is called. */
  release: (() => void) | undefined;
  end(reason: string): void;
}

export interface FakeNodeOptions {
  readonly token?: string | undefined;
  readonly tenants?: readonly Tenant[];
  readonly pools?: readonly DevNodePool[];
  readonly peers?: readonly string[];
  readonly maxClaims?: number;
  readonly egressLane?: boolean;
  readonly refuseUnpooled?: boolean;
  readonly now?: () => number;
  readonly start?: () => Promise<void>;
  readonly random?: () => number;
  readonly slowFreeze?: boolean;
  readonly faults?: boolean;
  /** Kept by whoever gives it. */
  readonly stateDir?: string;
}

/** A node over guests that are no processes, for everything but the guests themselves. */
export interface FakeNode extends AsyncDisposable {
  readonly address: string;
  readonly node: Node;
  readonly api: Api;
  readonly guests: FakeGuest[];
  guest(id: string): FakeGuest;
  setPeers(addresses: readonly string[]): void;
  /** Resolves when the pools are full. */
  warmed(): Promise<void>;
}

let count = 0;

async function fakeGuest(slowFreeze: boolean, capture: Capture | undefined): Promise<FakeGuest> {
  count += 1;
  const { promise: ended, resolve: end } = Promise.withResolvers<string>();
  const ports = new Map<number, number>();
  const guest: FakeGuest = {
    id: `sb_${count.toString(16).padStart(16, "0")}`,
    pid: 0,
    ended,
    ports,
    owners: undefined,
    content: capture === undefined ? "" : await readFile(join(capture.tree, "content"), "utf8"),
    document: undefined,
    copying: undefined,
    copyFiles: async (to, { signal }) => {
      await guest.copying;
      signal.throwIfAborted();
      await mkdir(to);
      await writeFile(join(to, "content"), `${guest.content}${guest.frozen ? "" : " while running"}`);
    },
    putDocument: async (content) => {
      guest.document = Buffer.from(content).toString("utf8");
      return true;
    },
    frozen: false,
    stubborn: false,
    destroyed: false,
    egress: undefined,
    release: undefined,
    end,
    connect: (port) =>
      new Promise((resolve, reject) => {
        const target = ports.get(port);
        if (target === undefined) {
          reject(new DevNodeError("guest_unreachable", "guest port unreachable"));
          return;
        }
        const socket = connect({ host: "127.0.0.1", port: target, allowHalfOpen: true }, () => resolve(socket));
        socket.on("error", reject);
      }),
    freeze: async () => {
      if (slowFreeze) {
        await new Promise<void>((resolve) => {
          guest.release = resolve;
        });
      }
      guest.frozen = true;
      if (guest.stubborn) {
        throw new Error("did not freeze in time");
      }
    },
    thaw: async () => {
      // Takes as long as it takes for other requests to arrive meanwhile, as a real thaw does.
      await delay(20);
      guest.frozen = false;
    },
    memory: () => 4096,
    setEgress: (open) => {
      guest.egress = open;
    },
    destroy: async () => {
      guest.destroyed = true;
      end("destroyed");
    },
    removed: async () => undefined,
  };
  return guest;
}

export async function startFakeNode(options: FakeNodeOptions = {}): Promise<FakeNode> {
  const now = options.now ?? Date.now;
  const folder = options.stateDir === undefined ? temporaryFolder() : undefined;
  const stateDir = options.stateDir ?? folder?.path ?? "";
  const captures = openCaptureStore({ stateDir, drafts: join(stateDir, "drafts"), logger: SILENT });
  const guests: FakeGuest[] = [];
  const bound: { address?: string } = {};
  const pools = createPools({
    start: async (key, how) => {
      await options.start?.();
      const capture = how.capture ?? node.poolTemplate(key)?.capture;
      const guest = await fakeGuest(options.slowFreeze ?? false, capture);
      guests.push(guest);
      return guest;
    },
    refillDelayMs: 0,
    startConcurrency: 4,
    logger: SILENT,
    now,
  });
  const peers = createPeers({
    addresses: [],
    token: options.token,
    pollMs: 20,
    self: () => bound.address,
    random: options.random ?? Math.random,
    logger: SILENT,
  });
  const node = createNode({
    pools,
    peers,
    captures,
    trees: { digest: ({ tree, owners }) => digestTree(tree, { owners }) },
    address: () => bound.address,
    egressLane: options.egressLane ?? false,
    egressRoute: "relay",
    maxClaims: options.maxClaims ?? 0,
    tenants: options.tenants ?? [],
    refuseUnpooled: options.refuseUnpooled ?? false,
    reapIntervalMs: 5000,
    now,
    logger: SILENT,
  });
  const server = await listen(
    { host: "127.0.0.1", port: 0 },
    {
      node,
      access: createAccess(options.token, options.tenants ?? []),
      address: () => bound.address,
      faults: options.faults ?? false,
      logger: SILENT,
    },
  );
  const address = `127.0.0.1:${server.port}`;
  bound.address = address;
  peers.set(options.peers ?? []);
  await node.configurePools({
    pools: (options.pools ?? []).map(({ template, net, size, warm, warmMax }) => ({
      template,
      net,
      size,
      warm,
      warm_max: warmMax,
    })),
  });
  return {
    address,
    node,
    api: nodeApi(address, options.token),
    guests,
    guest: (id) => {
      const guest = guests.find((one) => one.id === id);
      if (guest === undefined) {
        throw new Error(`no guest ${id}`);
      }
      return guest;
    },
    setPeers: (addresses) => peers.set(addresses),
    warmed: async () => {
      while (node.info().pools.some((pool) => pool.warm < pool.target)) {
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
    },
    [Symbol.asyncDispose]: async () => {
      await server.close(0);
      await node.close();
      await peers.close();
      captures.close();
      await folder?.[Symbol.asyncDispose]();
    },
  };
}
