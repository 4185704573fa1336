import type { Sandbox } from "./domain.ts";
import type { FleetState } from "./fleet-changes.ts";
import type { Watch, WatchFailure, WatchParts } from "./fleet-watch.ts";
import { hasSameContent, resourceVersionOf } from "./resource-version.ts";
import type { SandboxFinder } from "./sandbox-finder.ts";
import { isSameClaim, pickShown } from "./sandbox-view.ts";

/** What a {@link PinnedWatch} works with. */
export interface PinnedParts extends WatchParts {
  readonly finder: SandboxFinder;
  /** Fires when the watch ends. */
  readonly signal: AbortSignal;
}

/**
 * A watch of one name. While it shows a sandbox it looks at that one's node only, and asks the node before it lets go
 * of it: a claim that inventory does not list yet must not look deleted. While it shows none it asks nobody.
 */
export class PinnedWatch implements Watch {
  readonly #parts: PinnedParts;
  readonly #passes: (sandbox: Sandbox) => boolean;
  #held: Sandbox | undefined;
  /** The state in which the name was not found last. */
  #missedIn: FleetState | undefined;
  #busy = false;

  constructor(parts: PinnedParts) {
    this.#parts = parts;
    this.#passes = (sandbox) => parts.selection.matches(sandbox);
  }

  begin(): void {
    const { select, stream, selection, bookmark, signal } = this.#parts;
    void this.#alone("initial watch list failed", async () => {
      const [found] = await select.select(selection, signal);
      if (found !== undefined) {
        this.#show(found);
      }
    }).finally(() => {
      if (bookmark) {
        stream.push([undefined], () => ({ type: "BOOKMARK" }));
      }
    });
  }

  look(current: () => FleetState): void {
    const { stream, finder } = this.#parts;
    if (this.#busy || !stream.hasRoom) {
      return;
    }
    const held = this.#held;
    if (held === undefined) {
      const found = this.#find(current());
      if (found !== undefined) {
        this.#show(found);
      }
      return;
    }
    const listed = finder.listed(held, this.#passes);
    if (listed === undefined) {
      void this.#alone("watch poll list failed", () => this.#ask(held));
    } else {
      this.#update(held, listed);
    }
  }

  /** Decides on a sandbox that its node's inventory does not show. */
  async #ask(held: Sandbox): Promise<void> {
    const { finder, feed, signal, stream } = this.#parts;
    const live = await finder.live(held, this.#passes, signal);
    if (live !== undefined || stream.ended) {
      return;
    }
    const other = this.#find(feed.current());
    if (other !== undefined && isSameClaim(other, held)) {
      this.#update(held, other);
      return;
    }
    this.#send("DELETED", held);
    this.#held = undefined;
    if (other !== undefined) {
      this.#show(other);
    }
  }

  /** A sandbox of the name in any inventory. Looks once at each state of the fleet. */
  #find(state: FleetState): Sandbox | undefined {
    if (state === this.#missedIn) {
      return undefined;
    }
    const { feed, selection } = this.#parts;
    const found = pickShown(feed.named(`${selection.namespace}/${selection.pinned}`), selection);
    this.#missedIn = found === undefined ? state : undefined;
    return found;
  }

  #show(sandbox: Sandbox): void {
    this.#held = sandbox;
    this.#send("ADDED", sandbox);
  }

  #update(held: Sandbox, now: Sandbox): void {
    this.#held = now;
    if (!hasSameContent(held, now)) {
      this.#send("MODIFIED", now);
    }
  }

  #send(type: "ADDED" | "MODIFIED" | "DELETED", sandbox: Sandbox): void {
    this.#parts.stream.push([sandbox], () => ({ type, sandbox, version: resourceVersionOf(sandbox) }));
  }

  /** Keeps ticks away while something waits for a node. */
  async #alone(failure: WatchFailure, work: () => Promise<void>): Promise<void> {
    const { stream, failed } = this.#parts;
    this.#busy = true;
    try {
      await work();
    } catch (error) {
      if (!stream.ended) {
        failed(failure, error);
      }
    } finally {
      this.#busy = false;
    }
  }
}
