import type { Snapshot, SandboxStore } from "@org/scale";
import { askNodes } from "./ask-nodes.ts";
import { E2bError } from "./errors.ts";
import type { Settings } from "./options.ts";
import { reachableNodes } from "./reachable-nodes.ts";

/** Snapshots whose node is remembered. */
const MAX_REMEMBERED = 10_000;

/** What a search on the nodes found. */
export interface SnapshotHolders {
  /** One row of each node that lists it. */
  readonly rows: readonly Snapshot[];
  /** Whether some node did not say. */
  readonly unsure: boolean;
}

/** The snapshots of the fleet, always within one namespace. */
export interface Snapshots {
  /** Newest first, each once, of the nodes that answer. */
  list(namespace: string, signal: AbortSignal): Promise<readonly Snapshot[]>;
  /** Asks every node. */
  holders(namespace: string, id: string, signal: AbortSignal): Promise<SnapshotHolders>;
  /**
   * A holder besides these nodes: the one that is remembered, else the first that says so.
   * @throws E2bError `unavailable` when there is none and a node did not say
   */
  find(namespace: string, id: string, besides: ReadonlySet<string>, signal: AbortSignal): Promise<Snapshot | undefined>;
  remember(namespace: string, snapshot: Snapshot): void;
  forget(namespace: string, id: string): void;
}

/** Newest first; the same order on every page. */
function newestFirst(a: Snapshot, b: Snapshot): number {
  return madeAt(b) - madeAt(a) || (a.id < b.id ? 1 : -1);
}

/** When it was made, in milliseconds; 0 when its node does not tell. */
export function madeAt({ createdAt }: Snapshot): number {
  const ms = createdAt?.getTime() ?? 0;
  return Number.isNaN(ms) ? 0 : ms;
}

export function createSnapshots({ inventory, logger }: Settings, store: SandboxStore): Snapshots {
  // A namespace holds no space, so that keys of two namespaces never meet.
  const keyOf = (namespace: string, id: string): string => `${namespace} ${id}`;
  const known = new Map<string, Snapshot>();

  const ask = (namespace: string, nodes: readonly string[], signal: AbortSignal, wanted?: string) =>
    askNodes(nodes, (node, own) => store.snapshots(namespace, node, { signal: own }), {
      signal,
      enough: (rows) => wanted !== undefined && rows.some(({ id }) => id === wanted),
    });

  return {
    async list(namespace, signal) {
      const { answers, failures } = await ask(namespace, reachableNodes(inventory), signal);
      for (const { node, error } of failures) {
        logger.warn({ node, err: error }, "a node did not list its snapshots");
      }
      const byId = new Map<string, Snapshot>();
      for (const { value } of answers) {
        for (const snapshot of value) {
          byId.set(snapshot.id, snapshot);
        }
      }
      return [...byId.values()].sort(newestFirst);
    },

    async holders(namespace, id, signal) {
      const { answers, failures } = await ask(namespace, reachableNodes(inventory), signal);
      const rows = answers.flatMap(({ value }) => value.filter((snapshot) => snapshot.id === id));
      return { rows, unsure: failures.length > 0 };
    },

    async find(namespace, id, besides, signal) {
      const remembered = known.get(keyOf(namespace, id));
      if (remembered !== undefined && !besides.has(remembered.node)) {
        return remembered;
      }
      const nodes = reachableNodes(inventory).filter((node) => !besides.has(node));
      const { answers, failures } = await ask(namespace, nodes, signal, id);
      const found = answers.flatMap(({ value }) => value).find((snapshot) => snapshot.id === id);
      if (found === undefined && failures.length > 0) {
        throw new E2bError("unavailable", "the snapshot was not found, but not every node answered: retry later", {
          cause: failures[0]?.error,
        });
      }
      if (found !== undefined) {
        this.remember(namespace, found);
      }
      return found;
    },

    remember(namespace, snapshot) {
      const key = keyOf(namespace, snapshot.id);
      known.delete(key);
      const [oldest] = known.keys();
      if (oldest !== undefined && known.size >= MAX_REMEMBERED) {
        known.delete(oldest);
      }
      known.set(key, snapshot);
    },

    forget(namespace, id) {
      known.delete(keyOf(namespace, id));
    },
  };
}
