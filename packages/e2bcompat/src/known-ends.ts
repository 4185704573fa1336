import { claimIdFromPublic } from "@org/sandbox-address";
import type { InventorySource, Sandbox } from "@org/scale";
import { rfc3339 } from "./present.ts";

/** How long an end is told after it. */
const TELL_MS = 3_600_000;
/** About 10 MB. The sandbox that was met first is forgotten first. */
const MAX_KNOWN = 65_536;
/** Nodes tell their clock in whole seconds. */
const SLACK_MS = 1500;

/** What {@link KnownEnds} work with. */
export interface KnownEndsParts {
  readonly inventory: Pick<InventorySource, "nodeInventory">;
  /** The wall clock, in milliseconds. */
  readonly now: () => number;
  readonly maxKnown?: number | undefined;
}

interface Known {
  readonly namespace: string;
  readonly node: string;
  seenMs: number;
  /** When the lease ends by our own clock. */
  endsMs: number | undefined;
  killedMs: number | undefined;
  /** When somebody was first told that it is gone. */
  goneMs: number | undefined;
}

/**
 * Remembers of the sandboxes that went through this process what explains later why they are gone. Asks nobody and
 * scans nothing: an end is worked out when somebody asks for a sandbox that is not there.
 */
export class KnownEnds {
  readonly #parts: KnownEndsParts;
  readonly #max: number;
  readonly #known = new Map<string, Known>();

  constructor(parts: KnownEndsParts) {
    this.#parts = parts;
    this.#max = parts.maxKnown ?? MAX_KNOWN;
  }

  /** How many sandboxes are remembered. */
  get size(): number {
    return this.#known.size;
  }

  /** A sandbox that was found. Its deadline is its node's time, which counts only while nothing better is known. */
  seen({ namespace, node, id, deadline }: Pick<Sandbox, "namespace" | "node" | "id" | "deadline">): void {
    const known = this.#note(namespace, node, id);
    known.endsMs ??= deadline === undefined || Number.isNaN(deadline.getTime()) ? undefined : deadline.getTime();
  }

  /** A sandbox whose lease ends so many seconds from now. */
  leased({ namespace, node, id }: Pick<Sandbox, "namespace" | "node" | "id">, seconds: number): void {
    this.#note(namespace, node, id).endsMs = this.#parts.now() + seconds * 1000;
  }

  /** A sandbox that was ended on request. */
  killed({ namespace, node, id }: Pick<Sandbox, "namespace" | "node" | "id">): void {
    const now = this.#parts.now();
    const known = this.#note(namespace, node, id);
    // Ending what has ended by itself succeeds, too.
    if (known.endsMs === undefined || known.endsMs > now) {
      known.killedMs ??= now;
    }
  }

  /** Why a sandbox of this namespace is gone; `undefined` when that is not known, or was too long ago. */
  explain(namespace: string, asked: string): string | undefined {
    const id = claimIdFromPublic(asked);
    const known = this.#known.get(id);
    if (known?.namespace !== namespace) {
      return undefined;
    }
    const now = this.#parts.now();
    known.goneMs ??= now;
    const { endMs, reason } = this.#endOf(known, now);
    if (now - endMs > TELL_MS) {
      this.#known.delete(id);
      return undefined;
    }
    return reason;
  }

  #endOf(known: Known, now: number): { readonly endMs: number; readonly reason: string } {
    const { killedMs, endsMs, seenMs, node, goneMs = now } = known;
    if (killedMs !== undefined) {
      return { endMs: killedMs, reason: `it was killed at ${rfc3339(killedMs)} with an API key` };
    }
    if (endsMs !== undefined && endsMs <= goneMs + SLACK_MS) {
      return { endMs: endsMs, reason: `its lease ended at ${rfc3339(endsMs)}` };
    }
    const last = `it was last seen at ${rfc3339(seenMs)}`;
    return this.#parts.inventory.nodeInventory(node) === undefined
      ? { endMs: goneMs, reason: `its node ${node} is lost; ${last}` }
      : { endMs: goneMs, reason: `it ended before its lease did, its node does not have it any more; ${last}` };
  }

  #note(namespace: string, node: string, id: string): Known {
    const seenMs = this.#parts.now();
    let known = this.#known.get(id);
    if (known === undefined || known.namespace !== namespace || known.node !== node) {
      known = { namespace, node, seenMs, endsMs: undefined, killedMs: undefined, goneMs: undefined };
      this.#known.delete(id);
      this.#known.set(id, known);
      this.#forgetFirst();
    }
    known.seenMs = seenMs;
    return known;
  }

  #forgetFirst(): void {
    if (this.#known.size <= this.#max) {
      return;
    }
    for (const id of this.#known.keys()) {
      this.#known.delete(id);
      return;
    }
  }
}
