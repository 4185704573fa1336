import type { DropReason } from "./counters.ts";
import type { GuestRelay, RelayReader } from "./guest-relay.ts";
import type { Owner } from "./owner-resolver.ts";

/** Options of {@link RelayPool}. */
export interface RelayPoolOptions {
  /** How long a relay is kept idle at most, in milliseconds; 0 keeps none. */
  readonly idleMs: number;
  /** Idle relays of one sandbox, its ports together. */
  readonly maxPerOwner: number;
  readonly maxIdle: number;
  /** A clock that never goes back, in milliseconds. */
  readonly now: () => number;
  /** Told of each idle relay that was closed. */
  readonly onDropped: (why: DropReason) => void;
}

/** A relay without a request on it. Anything that happens to it makes it unfit. */
export class IdleRelay implements RelayReader {
  readonly owner: Owner;
  readonly port: number;
  readonly relay: GuestRelay;
  /** When it is not to be kept any longer. */
  readonly until: number;
  readonly #onDrop: (idle: IdleRelay, why: DropReason) => void;
  #fit = true;

  constructor(
    where: { readonly owner: Owner; readonly port: number },
    relay: GuestRelay,
    until: number,
    onDrop: (idle: IdleRelay, why: DropReason) => void,
  ) {
    this.owner = where.owner;
    this.port = where.port;
    this.relay = relay;
    this.until = until;
    this.#onDrop = onDrop;
    relay.listen(this);
  }

  /** Whether nothing happened to it. */
  get fit(): boolean {
    return this.#fit;
  }

  /** Hands the relay over to whoever listens to it next; `undefined` when something happened to it. */
  begin(): GuestRelay | undefined {
    const was = this.#fit;
    this.#fit = false;
    return was ? this.relay : undefined;
  }

  drop(why: DropReason): void {
    if (this.#fit) {
      this.#fit = false;
      this.relay.destroy();
      this.#onDrop(this, why);
    }
  }

  onData(): void {
    this.drop("spoke");
  }

  onEnd(): void {
    this.drop("closed");
  }

  onClosed(): void {
    this.drop("closed");
  }
}

/**
 * Relays that answered a request in full and wait for the next one to the same port. They belong to an {@link Owner},
 * which stands for a sandbox, its node, its token and one reading of them: whatever changes makes another owner, and no
 * relay is ever handed to one that it was not opened for.
 */
export class RelayPool {
  readonly #options: RelayPoolOptions;
  /** Youngest last. */
  readonly #byOwner = new Map<Owner, IdleRelay[]>();
  /** Oldest first. */
  readonly #all = new Set<IdleRelay>();
  /** Owners that turned out to be stale: what is still busy of theirs is not kept. */
  readonly #stale = new WeakSet<Owner>();
  /** Ports whose guests sent more than they were asked for. */
  readonly #untidy = new WeakMap<Owner, Set<number>>();
  /** Runs for the first of them to expire; one timer for all, since each waits for a moment only. */
  #timer: NodeJS.Timeout | undefined;
  #firstUntil = Number.POSITIVE_INFINITY;
  #closed = false;

  constructor(options: RelayPoolOptions) {
    this.#options = options;
  }

  readonly #onDrop = (idle: IdleRelay, why: DropReason): void => {
    this.#forget(idle);
    this.#options.onDropped(why);
    if (why === "spoke") {
      this.distrust(idle.owner, idle.port);
    }
  };

  get size(): number {
    return this.#all.size;
  }

  /** The relay that waited the shortest. It stays watched until {@link IdleRelay.begin}. */
  take(owner: Owner, port: number): IdleRelay | undefined {
    const idle = this.#byOwner.get(owner)?.findLast((one) => one.port === port);
    if (idle !== undefined) {
      this.#forget(idle);
    }
    return idle;
  }

  /** Keeps a relay for at most `ms`, or closes it. It must be quiet: nothing sent that is not answered. */
  keep(owner: Owner, port: number, relay: GuestRelay, ms: number): void {
    const keepMs = Math.min(ms, this.#options.idleMs);
    const barred = this.#closed || this.#stale.has(owner) || this.#untidy.get(owner)?.has(port) === true;
    if (!(keepMs > 0) || barred || relay.ended) {
      relay.destroy();
      return;
    }
    const idle = new IdleRelay({ owner, port }, relay, this.#options.now() + keepMs, this.#onDrop);
    const own = this.#byOwner.get(owner);
    if (own === undefined) {
      this.#byOwner.set(owner, [idle]);
    } else {
      own.push(idle);
    }
    this.#all.add(idle);
    if (idle.until < this.#firstUntil) {
      this.#expireAt(idle.until, keepMs);
    }
    if (own !== undefined && own.length > this.#options.maxPerOwner) {
      own[0]?.drop("crowded");
    }
    if (this.#all.size > this.#options.maxIdle) {
      this.makeRoom();
    }
  }

  /** Closes the oldest idle relay, of one owner or of all. False when there is none. */
  makeRoom(owner?: Owner): boolean {
    const oldest = owner === undefined ? this.#all.values().next().value : this.#byOwner.get(owner)?.[0];
    oldest?.drop("crowded");
    return oldest !== undefined;
  }

  /** Closes the idle relays of an owner. */
  drop(owner: Owner): void {
    for (const idle of this.#byOwner.get(owner)?.slice() ?? []) {
      idle.drop("stale");
    }
  }

  /**
   * Keeps none of an owner's relays to a port any more. Bytes that nobody asked for would, had they come a moment later,
   * have been taken for the answer to the next request, and every answer after it for that of the one before.
   */
  distrust(owner: Owner, port: number): void {
    const ports = this.#untidy.get(owner);
    if (ports === undefined) {
      this.#untidy.set(owner, new Set([port]));
    } else {
      ports.add(port);
    }
    for (const idle of this.#byOwner.get(owner)?.slice() ?? []) {
      if (idle.port === port) {
        idle.drop("stale");
      }
    }
  }

  /** Closes the idle relays of an owner, and keeps none of its relays any more. */
  retire(owner: Owner): void {
    this.#stale.add(owner);
    this.drop(owner);
  }

  /** Closes every idle relay, and each that becomes idle. */
  close(): void {
    this.#closed = true;
    for (const idle of this.#all) {
      idle.drop("stale");
    }
    clearTimeout(this.#timer);
  }

  #expireAt(until: number, ms: number): void {
    clearTimeout(this.#timer);
    this.#firstUntil = until;
    this.#timer = setTimeout(this.#onTimer, ms);
    // Whoever keeps the program running, it is not an idle connection.
    this.#timer.unref();
  }

  /** Closes what has expired. What was taken and kept again meanwhile expires later, with the next timer. */
  readonly #onTimer = (): void => {
    // Timers run by whole milliseconds, and up to one of them early.
    const now = this.#options.now() + 1;
    this.#firstUntil = Number.POSITIVE_INFINITY;
    let first = Number.POSITIVE_INFINITY;
    for (const idle of this.#all) {
      if (idle.until <= now) {
        idle.drop("expired");
      } else {
        first = Math.min(first, idle.until);
      }
    }
    if (first !== Number.POSITIVE_INFINITY) {
      this.#expireAt(first, first - now + 1);
    }
  };

  #forget(idle: IdleRelay): void {
    this.#all.delete(idle);
    const own = this.#byOwner.get(idle.owner);
    if (own === undefined) {
      return;
    }
    if (own.at(-1) === idle) {
      own.pop();
    } else {
      const at = own.indexOf(idle);
      own.splice(at, at < 0 ? 0 : 1);
    }
    if (own.length === 0) {
      this.#byOwner.delete(idle.owner);
    }
  }
}
