import { ChangeSet } from "./change-set.ts";
import type { NameChange } from "./change-set.ts";
import type { InventoryEntry, Sandbox } from "./domain.ts";
import { EMPTY_FLEET, eachChange } from "./fleet-changes.ts";
import type { FleetState, NodeState } from "./fleet-changes.ts";
import { NameHolders } from "./name-holders.ts";
import { ourWrites } from "./our-writes.ts";
import type { Overlay } from "./overlay.ts";
import type { InventorySource, Logger } from "./ports.ts";
import { readableViews } from "./readable-views.ts";
import { compareSandboxes, namespaceOf, qualifiedName, sandboxOf } from "./sandbox-view.ts";
import type { ViewIndexes } from "./view-index.ts";

/** What a {@link FleetFeed} works with. */
export interface FeedParts {
  readonly source: InventorySource;
  readonly logger: Logger;
  readonly overlay: Overlay;
  readonly views: ViewIndexes;
}

interface Claim {
  readonly node: string;
  readonly entry: InventoryEntry;
}

interface Difference {
  readonly from: FleetState;
  readonly gone: readonly Claim[];
  readonly come: readonly Claim[];
}

/**
 * The fleet as a series of states, and what changed between two of them. A state costs a look at each node and the
 * comparison of those that changed. Watches hold the state that they told last, nothing else: the change from there to
 * now is worked out once for all that hold the same one.
 */
export class FleetFeed {
  readonly #parts: FeedParts;
  #state: FleetState = EMPTY_FLEET;
  #holders = new NameHolders();
  #generation: number | undefined;
  #overlayVersion: number | undefined;
  /** The last step, which nearly every watch takes. */
  #last: Difference | undefined;
  #changes = new WeakMap<FleetState, ChangeSet>();

  constructor(parts: FeedParts) {
    this.#parts = parts;
  }

  /** The fleet now: the state of the last call unless a sandbox changed. */
  current(): FleetState {
    const { source, overlay } = this.#parts;
    overlay.prune();
    const { generation } = source;
    if (generation === this.#generation && overlay.version === this.#overlayVersion) {
      return this.#state;
    }
    const next = this.#next();
    this.#generation = generation;
    this.#overlayVersion = overlay.version;
    if (next !== this.#state) {
      this.#advance(next);
    }
    return this.#state;
  }

  /** What happened from a state until the one that {@link current} gave last. */
  changesSince(from: FleetState): ChangeSet {
    const known = this.#changes.get(from);
    if (known !== undefined) {
      return known;
    }
    const difference = this.#last?.from === from ? this.#last : differenceOf(from, this.#state);
    const changes = new ChangeSet(this.#byName(difference));
    this.#changes.set(from, changes);
    return changes;
  }

  /** Every claim of a name in the state that {@link current} gave last, in order. */
  named(qualified: string): readonly Sandbox[] {
    return this.#claimsOf(qualified).map(sandboxOfClaim).sort(compareSandboxes);
  }

  /** Lets go of everything: nobody watches any more. */
  reset(): void {
    this.#state = EMPTY_FLEET;
    this.#holders = new NameHolders();
    this.#generation = undefined;
    this.#last = undefined;
    this.#changes = new WeakMap();
  }

  #advance(next: FleetState): void {
    const holders = this.#holders;
    const add = (node: string, entry: InventoryEntry): void => holders.add(qualifiedName(entry.name), node);
    if (this.#state === EMPTY_FLEET) {
      eachChange(EMPTY_FLEET, next, add, add);
    } else {
      this.#last = differenceOf(this.#state, next);
      for (const { node, entry } of this.#last.gone) {
        holders.remove(qualifiedName(entry.name), node);
      }
      for (const { node, entry } of this.#last.come) {
        add(node, entry);
      }
    }
    this.#state = next;
    this.#changes = new WeakMap();
  }

  #next(): FleetState {
    const { source, overlay, views, logger } = this.#parts;
    const nodes = new Map<string, NodeState>();
    let changed = false;
    for (const view of readableViews(source, logger)) {
      const { node, entries } = view;
      const before = this.#state.nodes.get(node);
      const writesVersion = overlay.versionOn(node);
      if (before?.entries === entries && before.writesVersion === writesVersion) {
        nodes.set(node, before);
        continue;
      }
      nodes.set(node, { entries, writes: ourWrites(overlay, views, view), writesVersion });
      changed = true;
    }
    return changed || nodes.size !== this.#state.nodes.size ? { nodes } : this.#state;
  }

  #byName({ gone, come }: Difference): readonly NameChange[] {
    const byName = new Map<string, { readonly gone: Claim[]; readonly come: Claim[] }>();
    const changeOf = ({ entry }: Claim): { readonly gone: Claim[]; readonly come: Claim[] } => {
      const name = qualifiedName(entry.name);
      let change = byName.get(name);
      if (change === undefined) {
        change = { gone: [], come: [] };
        byName.set(name, change);
      }
      return change;
    };
    for (const claim of gone) {
      changeOf(claim).gone.push(claim);
    }
    for (const claim of come) {
      changeOf(claim).come.push(claim);
    }
    const changes: NameChange[] = [];
    for (const [name, change] of byName) {
      const others = this.#holders.count(name) === change.come.length ? [] : this.#othersOf(name, change.come);
      changes.push({
        namespace: namespaceOf(name),
        before: others.concat(change.gone.map(sandboxOfClaim)),
        after: others.concat(change.come.map(sandboxOfClaim)),
      });
    }
    return changes;
  }

  /** The claims of a name that did not change. */
  #othersOf(qualified: string, changed: readonly Claim[]): readonly Sandbox[] {
    const entries = new Set(changed.map((claim) => claim.entry));
    return this.#claimsOf(qualified)
      .filter((claim) => !entries.has(claim.entry))
      .map(sandboxOfClaim);
  }

  #claimsOf(qualified: string): readonly Claim[] {
    const claims: Claim[] = [];
    for (const node of this.#holders.nodes(qualified)) {
      const state = this.#state.nodes.get(node);
      if (state === undefined) {
        continue;
      }
      const { writes } = state;
      for (const entry of this.#parts.views.of(state).byName(qualified)) {
        if (!writes.some((write) => write.listed === entry)) {
          claims.push({ node, entry });
        }
      }
      for (const { now } of writes) {
        if (now !== undefined && qualifiedName(now.name) === qualified) {
          claims.push({ node, entry: now });
        }
      }
    }
    return claims;
  }
}

function differenceOf(from: FleetState, to: FleetState): Difference {
  const gone: Claim[] = [];
  const come: Claim[] = [];
  eachChange(
    from,
    to,
    (node, entry) => void gone.push({ node, entry }),
    (node, entry) => void come.push({ node, entry }),
  );
  return { from, gone, come };
}

function sandboxOfClaim({ node, entry }: Claim): Sandbox {
  return sandboxOf(node, entry);
}
