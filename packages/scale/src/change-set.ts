import type { Sandbox } from "./domain.ts";
import type { SandboxEvent } from "./ports.ts";
import { hasSameContent, resourceVersionOf } from "./resource-version.ts";
import { isSameClaim, pickShown } from "./sandbox-view.ts";
import type { Selection } from "./selection.ts";

/** The claims of one name before and after. */
export interface NameChange {
  readonly namespace: string;
  readonly before: readonly Sandbox[];
  readonly after: readonly Sandbox[];
}

const NONE: readonly never[] = [];

/** What happened between two states of the fleet. Watches with the same selection share the events made of it. */
export class ChangeSet {
  readonly #changes: readonly NameChange[];
  readonly #versions = new Map<Sandbox, string>();
  readonly #events = new Map<string, readonly SandboxEvent[]>();
  #byNamespace: ReadonlyMap<string, readonly NameChange[]> | undefined;

  constructor(changes: readonly NameChange[]) {
    this.#changes = changes.filter((change) => !isNothing(change));
  }

  /** The events that a watch with this selection sends. */
  eventsOf(selection: Selection): readonly SandboxEvent[] {
    const known = this.#events.get(selection.key);
    if (known !== undefined) {
      return known;
    }
    const events: SandboxEvent[] = [];
    for (const change of this.#in(selection.namespace)) {
      this.#add(events, pickShown(change.before, selection), pickShown(change.after, selection));
    }
    this.#events.set(selection.key, events);
    return events;
  }

  #in(namespace: string): readonly NameChange[] {
    if (namespace === "" || this.#changes.length === 0) {
      return this.#changes;
    }
    this.#byNamespace ??= Map.groupBy(this.#changes, (change) => change.namespace);
    return this.#byNamespace.get(namespace) ?? NONE;
  }

  #add(events: SandboxEvent[], was: Sandbox | undefined, now: Sandbox | undefined): void {
    const event = (type: "ADDED" | "MODIFIED" | "DELETED", sandbox: Sandbox): void => {
      events.push({ type, sandbox, version: this.#versionOf(sandbox) });
    };
    if (was === undefined || now === undefined || !isSameClaim(was, now)) {
      if (was !== undefined) {
        event("DELETED", was);
      }
      if (now !== undefined) {
        event("ADDED", now);
      }
    } else if (!hasSameContent(was, now)) {
      event("MODIFIED", now);
    }
  }

  /** Selections overlap. */
  #versionOf(sandbox: Sandbox): string {
    let version = this.#versions.get(sandbox);
    if (version === undefined) {
      version = resourceVersionOf(sandbox);
      this.#versions.set(sandbox, version);
    }
    return version;
  }
}

/** Whether no selection can see a change: sources may publish equal entries as new objects. */
function isNothing({ before, after }: NameChange): boolean {
  const [was, now] = [before[0], after[0]];
  return (
    was !== undefined &&
    now !== undefined &&
    before.length === 1 &&
    after.length === 1 &&
    was.node === now.node &&
    hasSameContent(was, now)
  );
}
