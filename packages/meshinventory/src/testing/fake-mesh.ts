import type { ReplyBuffer } from "@org/sandboxd-client";
import type { NodeReader } from "../options.ts";

/** How a fake node answers: well, with a status, or never. */
export type Mode = "up" | "hangs" | { readonly status: number };

const never = new AbortController().signal;

/** One scripted node. Change its members between ticks. */
export class FakeNode {
  mode: Mode = "up";
  advertise: string | undefined;
  peers: readonly string[] | null | undefined;
  rows: readonly object[] = [];
  pools: readonly object[] = [];
  templates: readonly object[] | undefined;
  /** Extra members of the info reply. */
  extra: object = {};
  /** Requests so far, by route. */
  info = 0;
  sandboxes = 0;
  /** Status of the index alone. */
  indexStatus: number | undefined;

  constructor(advertise: string | undefined, peers?: readonly string[]) {
    this.advertise = advertise;
    this.peers = peers;
  }
}

/** Stands in for the network: which addresses lead to which nodes. */
export class FakeMesh {
  /** Where each address leads. Several addresses may lead to one node. */
  readonly routes: Map<string, FakeNode> = new Map();

  /** Adds a node that is reached at its own key. */
  add(address: string, peers?: readonly string[]): FakeNode {
    const node = new FakeNode(address, peers);
    this.routes.set(address, node);
    return node;
  }

  readonly dial: (address: string) => NodeReader = (address) => {
    if (!/^[a-z0-9.]+:[0-9]+$/.test(address)) {
      throw new Error("not an address");
    }
    return {
      info: async ({ into, signal = never }) => {
        const node = await this.#reach(address, signal);
        node.info += 1;
        await answerAs(node.mode, signal);
        return json(
          {
            advertise_addr: node.advertise,
            peers: node.peers,
            pools: node.pools,
            templates: node.templates,
            ...node.extra,
          },
          into,
        );
      },
      sandboxes: async ({ into, signal = never }) => {
        const node = await this.#reach(address, signal);
        node.sandboxes += 1;
        await answerAs(node.indexStatus === undefined ? node.mode : { status: node.indexStatus }, signal);
        return json({ sandboxes: node.rows }, into);
      },
    };
  };

  async #reach(address: string, signal: AbortSignal): Promise<FakeNode> {
    signal.throwIfAborted();
    await Promise.resolve();
    const node = this.routes.get(address);
    if (node === undefined) {
      throw new Error("connection refused");
    }
    return node;
  }
}

async function answerAs(mode: Mode, signal: AbortSignal): Promise<void> {
  if (mode === "hangs") {
    await new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    });
  } else if (mode !== "up") {
    throw Object.assign(new Error(`status ${mode.status}`), { status: mode.status });
  }
}

/** Uses the memory it is given, as real readers do. */
function json(value: unknown, into: ReplyBuffer): Buffer {
  const text = Buffer.from(JSON.stringify(value));
  into.clear();
  into.append(text, 0, text.length);
  return into.view();
}

/** An index row as nodes write it. */
export function row(id: string, claimRef: string, more: object = {}): object {
  return {
    id,
    key: { template: "base", net: "none", size: "small" },
    deadline: "2030-01-01T00:00:00Z",
    hibernated: false,
    claim_ref: claimRef,
    ...more,
  };
}

/** A pool of an info reply. */
export function pool(template: string, warm: number, target: number): object {
  return { key: { template, net: "none", size: "small" }, warm, refilling: 0, target, golden: true };
}
