import type { InventoryEntry, NodeInventory, Sandbox } from "./domain.ts";
import { claimKey, nameKey } from "./node-index.ts";
import type { Overlay } from "./overlay.ts";
import type { NodeClient, NodeSandbox } from "./ports.ts";
import { isSameClaim, namespaceOf, qualifiedName, sandboxOf } from "./sandbox-view.ts";
import type { ViewIndex } from "./view-index.ts";

/** What one look-up wants, in an inventory and from a node. */
export interface FinderQuery {
  readonly op: "get" | "claim-id get" | "watch";
  /** In the node index. */
  readonly key: string;
  /** How many nodes did not answer. */
  unanswered: number;
  /** Whether this view's maps exist already. */
  ready(index: ViewIndex): boolean;
  inView(view: NodeInventory, index: ViewIndex): InventoryEntry | undefined;
  /** Whether we released what is asked for, and data of this age cannot know. */
  goneFrom(node: string, asOfMs: number): boolean;
  ask(client: NodeClient, signal: AbortSignal): Promise<readonly NodeSandbox[]>;
  /** The test for rows that a node sent: a node cannot hand back another sandbox. */
  accepts(entry: InventoryEntry, node: string): boolean;
}

/** A look-up by claim id. The empty namespace stands for all. */
export class IdQuery implements FinderQuery {
  readonly op = "claim-id get";
  readonly key: string;
  unanswered = 0;
  readonly #overlay: Overlay;
  readonly #namespace: string;
  readonly id: string;
  readonly #match: (claimId: string) => boolean;

  constructor(overlay: Overlay, namespace: string, id: string, match: (claimId: string) => boolean) {
    this.key = claimKey(namespace, id);
    this.#overlay = overlay;
    this.#namespace = namespace;
    this.id = id;
    this.#match = match;
  }

  ready(index: ViewIndex): boolean {
    return index.idsReady;
  }

  inView(view: NodeInventory, index: ViewIndex): InventoryEntry | undefined {
    return (
      this.resolve(view, this.id, index.byId(this.id)) ??
      firstOf(index.unusual(), (entry) => this.resolve(view, entry.id, entry)) ??
      firstOf(this.#overlay.unusualOn(view.node), (claimId) => this.resolve(view, claimId, index.byId(claimId)))
    );
  }

  goneFrom(node: string, asOfMs: number): boolean {
    return this.#overlay.isGone(node, this.id, asOfMs);
  }

  ask(client: NodeClient, signal: AbortSignal): Promise<readonly NodeSandbox[]> {
    return askForId(client, this.id, signal);
  }

  accepts(entry: InventoryEntry): boolean {
    return (
      entry.id !== "" &&
      (this.#namespace === "" || namespaceOf(entry.name) === this.#namespace) &&
      this.#match(entry.id)
    );
  }

  /** What a view and our own writes say of one id, when that is accepted. */
  resolve(view: NodeInventory, id: string, listed: InventoryEntry | undefined): InventoryEntry | undefined {
    const now = this.#overlay.resolve(view.node, id, listed, view.asOfMs);
    return now !== undefined && this.accepts(now) ? now : undefined;
  }
}

/** A look-up by name, of any claim of that name or of those that pass. */
export class NameQuery implements FinderQuery {
  readonly op: FinderQuery["op"];
  readonly key: string;
  unanswered = 0;
  protected readonly overlay: Overlay;
  readonly #qualified: string;
  readonly #passes: ((sandbox: Sandbox) => boolean) | undefined;

  constructor(
    overlay: Overlay,
    namespace: string,
    name: string,
    passes?: (sandbox: Sandbox) => boolean,
    op: FinderQuery["op"] = "get",
  ) {
    this.op = op;
    this.key = nameKey(namespace, name);
    this.overlay = overlay;
    this.#qualified = this.key;
    this.#passes = passes;
  }

  ready(index: ViewIndex): boolean {
    return index.namesReady;
  }

  inView(view: NodeInventory, index: ViewIndex): InventoryEntry | undefined {
    const listed = index.byName(this.#qualified);
    for (const entry of listed) {
      const now = this.#resolve(view, entry.id, entry);
      if (now !== undefined) {
        return now;
      }
    }
    return firstOf(this.overlay.claimedAs(view.node, this.#qualified), (id) =>
      listed.some((entry) => entry.id === id) ? undefined : this.#resolve(view, id, undefined),
    );
  }

  /** Names are claimed again: only an id is gone for good. */
  goneFrom(_node: string, _asOfMs: number): boolean {
    return false;
  }

  ask(client: NodeClient, signal: AbortSignal): Promise<readonly NodeSandbox[]> {
    return client.sandboxesByRef(this.#qualified, { signal });
  }

  accepts(entry: InventoryEntry, node: string): boolean {
    return (
      (entry.name === this.#qualified || qualifiedName(entry.name) === this.#qualified) &&
      (this.#passes === undefined || this.#passes(sandboxOf(node, entry)))
    );
  }

  #resolve(
    { node, asOfMs }: NodeInventory,
    id: string,
    listed: InventoryEntry | undefined,
  ): InventoryEntry | undefined {
    const now = this.overlay.resolve(node, id, listed, asOfMs);
    return now !== undefined && this.accepts(now, node) ? now : undefined;
  }
}

/** Looks for one claim again, by its id when it has one. */
export class HeldQuery extends NameQuery {
  readonly #id: string;

  constructor(overlay: Overlay, held: Sandbox, passes: (sandbox: Sandbox) => boolean) {
    super(overlay, held.namespace, held.name, (sandbox) => isSameClaim(sandbox, held) && passes(sandbox), "watch");
    this.#id = held.id;
  }

  override goneFrom(node: string, asOfMs: number): boolean {
    return this.#id !== "" && this.overlay.isGone(node, this.#id, asOfMs);
  }

  override ask(client: NodeClient, signal: AbortSignal): Promise<readonly NodeSandbox[]> {
    return this.#id === "" ? super.ask(client, signal) : askForId(client, this.#id, signal);
  }
}

async function askForId(client: NodeClient, id: string, signal: AbortSignal): Promise<readonly NodeSandbox[]> {
  const row = await client.sandbox(id, { signal });
  return row === undefined ? [] : [row];
}

/** What `pick` makes of the first item that it makes anything of. */
export function firstOf<I, T>(items: Iterable<I>, pick: (item: I) => T | undefined): T | undefined {
  for (const item of items) {
    const picked = pick(item);
    if (picked !== undefined) {
      return picked;
    }
  }
  return undefined;
}
