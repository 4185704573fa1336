import type { Sandbox } from "./domain.ts";
import type { EventStream } from "./event-stream.ts";
import { EMPTY_FLEET } from "./fleet-changes.ts";
import type { FleetState } from "./fleet-changes.ts";
import type { FleetFeed } from "./fleet-feed.ts";
import type { SandboxEvent } from "./ports.ts";
import { resourceVersionOf } from "./resource-version.ts";
import { pickShown } from "./sandbox-view.ts";
import type { SandboxSelect } from "./select.ts";
import type { Selection } from "./selection.ts";

/** One watch as the ticks drive it. */
export interface Watch {
  /** Sends what is there already. Called once. */
  begin(): void;
  /** Sends what changed since the last look, unless the reader lags. `current` is the state of the whole fleet. */
  look(current: () => FleetState): void;
}

/** Where a watch failed to see anything. */
export type WatchFailure = "initial watch list failed" | "watch poll list failed";

/** What a watch works with. */
export interface WatchParts {
  readonly feed: FleetFeed;
  readonly select: SandboxSelect;
  readonly stream: EventStream<SandboxEvent>;
  readonly selection: Selection;
  readonly bookmark: boolean;
  /** What to do with an error: a watch goes on. */
  readonly failed: (failure: WatchFailure, error: unknown) => void;
}

/** A watch of everything that a selection lists. It holds no more than the state of the fleet that it told last. */
export class FleetWatch implements Watch {
  readonly #parts: WatchParts;
  #told: FleetState = EMPTY_FLEET;

  constructor(parts: WatchParts) {
    this.#parts = parts;
  }

  begin(): void {
    const { feed, select, stream, selection, failed } = this.#parts;
    try {
      const now = feed.current();
      const listed = onePerName(select.listed(selection), selection);
      this.#told = now;
      stream.push(listed, (sandbox) => ({ type: "ADDED", sandbox, version: resourceVersionOf(sandbox) }));
    } catch (error) {
      failed("initial watch list failed", error);
    }
    if (this.#parts.bookmark) {
      stream.push([undefined], () => ({ type: "BOOKMARK" }));
    }
  }

  look(current: () => FleetState): void {
    const { feed, stream, selection } = this.#parts;
    if (!stream.hasRoom) {
      return;
    }
    const now = current();
    if (now === this.#told) {
      return;
    }
    const events = feed.changesSince(this.#told).eventsOf(selection);
    this.#told = now;
    stream.push(events, (event) => event);
  }
}

/** Leaves of each name what a watch shows of it. `sandboxes` are in order. */
function onePerName(sandboxes: readonly Sandbox[], selection: Selection): readonly Sandbox[] {
  const sameAsNext = (at: number): boolean => {
    const [one, next] = [sandboxes[at], sandboxes[at + 1]];
    return one !== undefined && one.name === next?.name && one.namespace === next.namespace;
  };
  if (!sandboxes.some((_sandbox, at) => sameAsNext(at))) {
    return sandboxes;
  }
  const shown: Sandbox[] = [];
  for (let at = 0; at < sandboxes.length; at += 1) {
    const from = at;
    while (sameAsNext(at)) {
      at += 1;
    }
    const picked = pickShown(sandboxes.slice(from, at + 1), selection);
    if (picked !== undefined) {
      shown.push(picked);
    }
  }
  return shown;
}
