import { setImmediate as immediate } from "node:timers/promises";
import type { InventorySource, Logger, NodeInventory, NodePools } from "@org/scale";
import { errorText, KubeError } from "./errors.ts";
import type { KubeClient } from "./kube-client.ts";
import { NODE_INVENTORIES } from "./node-inventory.ts";
import { ObjectInventory } from "./object-inventory.ts";
import { Reflector, type KubeChanges, type ReflectorStatus } from "./reflector.ts";
import { pause, realTiming, type Timing } from "./timing.ts";

/** Options of {@link KubeInventory.start}. */
export interface KubeInventoryOptions {
  /** The cluster's API server. Stays open. */
  readonly client: Pick<KubeClient, "request" | "stream">;
  /** Life of the watch. An abort ends it; the last snapshot stays readable. */
  readonly signal: AbortSignal;
  /** How far a node may be behind the fleet before it is left out, in milliseconds; 0 is the default. @default 90000 */
  readonly staleAfterMs?: number | undefined;
  /** How long the first list may take, in milliseconds. @default 120000 */
  readonly syncTimeoutMs?: number | undefined;
  /** Told of failures and recoveries of the watch. @default silent */
  readonly logger?: Logger | undefined;
  /** The wall clock in milliseconds. @default Date.now */
  readonly clock?: (() => number) | undefined;
  /** For tests. @default real time */
  readonly timing?: Timing | undefined;
}

const SYNC_TIMEOUT_MS = 120_000;

/** Changes that arrive within this time are published together, in milliseconds. */
const GATHER_MS = 20;

/** How long the event loop may be held by reading objects, in milliseconds. */
const STRETCH_MS = 4;

/**
 * Inventory of the `NodeInventory` objects of a cluster, which it watches. Every read answers from one immutable
 * snapshot and never waits; while the API server cannot be reached the last one stays.
 */
export class KubeInventory implements InventorySource {
  readonly #objects: ObjectInventory;
  readonly #reflector: Reflector;
  readonly #timing: Timing;
  readonly #signal: AbortSignal;
  /** Objects by node that nobody read yet; `undefined` for one that is gone. */
  readonly #waiting = new Map<string, unknown>();
  #taking = false;
  #taken: Promise<void> = Promise.resolve();
  /** Resolves when the watch has ended, after the signal. */
  readonly stopped: Promise<void>;

  private constructor(options: KubeInventoryOptions, signal: AbortSignal) {
    const { client, staleAfterMs, clock, logger, timing = realTiming } = options;
    this.#objects = new ObjectInventory({ staleAfterMs, clock });
    this.#timing = timing;
    this.#signal = signal;
    this.#reflector = new Reflector({
      client,
      resource: NODE_INVENTORIES,
      onChanges: (changes) => this.#queue(changes),
      logger,
      timing,
    });
    this.stopped = this.#reflector.run(signal);
  }

  /**
   * Lists the objects, then follows them until the signal fires. Resolves with the first snapshot.
   * @throws KubeError `not_synced` when the first list did not arrive in time, with the reason; the signal's reason
   * when it fires before; TypeError for options out of range.
   */
  static async start(options: KubeInventoryOptions): Promise<KubeInventory> {
    const { signal, syncTimeoutMs = SYNC_TIMEOUT_MS, timing = realTiming } = options;
    if (!(syncTimeoutMs > 0 && syncTimeoutMs < 2 ** 31)) {
      throw new TypeError("syncTimeoutMs must be a positive number of milliseconds");
    }
    signal.throwIfAborted();
    const life = new AbortController();
    const end = (): void => life.abort(signal.reason);
    signal.addEventListener("abort", end, { once: true });
    const inventory = new KubeInventory(options, life.signal);
    void inventory.stopped.then(() => signal.removeEventListener("abort", end));
    const patience = new AbortController();
    const synced = await Promise.race([
      inventory.#reflector.synced.then(() => true),
      inventory.stopped.then(() => false),
      pause(timing, syncTimeoutMs, patience.signal).then(() => false),
    ]);
    patience.abort();
    if (!synced) {
      const cause = inventory.status.lastError;
      life.abort();
      await inventory.stopped;
      signal.throwIfAborted();
      const name = `${NODE_INVENTORIES.plural}.${NODE_INVENTORIES.group}`;
      throw new KubeError(
        "not_synced",
        `no list of ${name} within ${syncTimeoutMs / 1000} s: ${cause === undefined ? "no answer" : errorText(cause)}; ` +
          "is its CustomResourceDefinition installed?",
        { cause },
      );
    }
    await inventory.#taken;
    return inventory;
  }

  /** How the watch stands: for readiness, and for people who ask why nothing moves. */
  get status(): ReflectorStatus {
    return this.#reflector.status;
  }

  get generation(): number {
    return this.#objects.generation;
  }

  listNodes(): readonly string[] {
    return this.#objects.listNodes();
  }

  nodeInventory(node: string): NodeInventory | undefined {
    return this.#objects.nodeInventory(node);
  }

  nodeCapacity(node: string): NodePools | undefined {
    return this.#objects.nodeCapacity(node);
  }

  nodeCapacities(): readonly NodePools[] {
    return this.#objects.nodeCapacities();
  }

  onChange(listener: () => void): () => void {
    return this.#objects.onChange(listener);
  }

  #queue({ changed, removed }: KubeChanges): void {
    for (const object of changed) {
      this.#waiting.set(object.metadata.name, object);
    }
    for (const name of removed) {
      this.#waiting.set(name, undefined);
    }
    if (!this.#taking) {
      this.#taking = true;
      this.#taken = this.#take();
    }
  }

  /** Reads what waits, a stretch at a time, and publishes it once for all that came together. */
  async #take(): Promise<void> {
    if (this.#reflector.status.hasSynced) {
      await pause(this.#timing, GATHER_MS, this.#signal);
    }
    let began = performance.now();
    for (const [node, object] of this.#waiting) {
      this.#waiting.delete(node);
      if (object === undefined) {
        this.#objects.remove(node);
      } else {
        this.#objects.put(object);
      }
      if (performance.now() - began >= STRETCH_MS) {
        await immediate();
        began = performance.now();
      }
    }
    this.#objects.publish();
    this.#taking = false;
  }
}
