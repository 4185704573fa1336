import type { Duplex } from "node:stream";
import type { DropReason } from "./counters.ts";
import type { Owner } from "./owner-resolver.ts";

/** Options of {@link RelayPool}. */
export interface RelayPoolOptions {
  /** How long a relay is kept idle at most, in milliseconds; 0 keeps none. */
  readonly idleMs: number;
  /** Idle relays of one sandbox, its ports together. */
  readonly maxPerOwner: number;
  readonly maxIdle: number;
  /** Told of each idle relay that was closed. */
  readonly onDropped: (why: DropReason) => void;
}

/** A relay without a request on it. Anything that happens to it makes it unfit. */
export class IdleRelay {
  readonly relay: Duplex;
  readonly owner: Owner;
  readonly port: number;
  readonly #onDrop: (idle: IdleRelay, why: DropReason) => void;
  readonly #timer: NodeJS.Timeout;
  #fit = true;

  constructor(
    where: { readonly owner: Owner; readonly port: number },
    relay: Duplex,
    ms: number,
    onDrop: (idle: IdleRelay, why: DropReason) => void,
  ) {
    this.owner = where.owner;
    this.port = where.port;
    this.relay = relay;
    this.#onDrop = onDrop;
    relay.on("data", this.#onData);
    relay.on("end", this.#onClosed);
    relay.on("error", this.#onClosed);
    relay.on("close", this.#onClosed);
    relay.resume();
    this.#timer = setTimeout(this.#onExpired, ms);
    // Whoever keeps the program running, it is not an idle connection.
    this.#timer.unref();
  }

  /** Whether nothing happened to it. */
  get fit(): boolean {
    return this.#fit;
  }

  /** Hands the relay over with nobody listening to it; `undefined` when something happened to it. */
  begin(): Duplex | undefined {
    return this.#leave() ? this.relay : undefined;
  }

  drop(why: DropReason): void {
    if (this.#leave()) {
      this.relay.destroy();
      this.#onDrop(this, why);
    }
  }

  #leave(): boolean {
    const { relay } = this;
    const was = this.#fit;
    this.#fit = false;
    clearTimeout(this.#timer);
    relay.off("data", this.#onData);
    relay.off("end", this.#onClosed);
    relay.off("error", this.#onClosed);
    relay.off("close", this.#onClosed);
    return was;
  }

  readonly #onData = (): void => this.drop("spoke");
  readonly #onClosed = (): void => this.drop("closed");
  readonly #onExpired = (): void => this.drop("expired");
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
  #closed = false;

  constructor(options: RelayPoolOptions) {
    this.#options = options;
  }

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
  keep(owner: Owner, port: number, relay: Duplex, ms: number): void {
    const keepMs = Math.min(ms, this.#options.idleMs);
    const barred = this.#closed || this.#stale.has(owner) || this.#untidy.get(owner)?.has(port) === true;
    if (!(keepMs > 0) || barred || relay.destroyed || relay.readableEnded) {
      relay.destroy();
      return;
    }
    const idle = new IdleRelay({ owner, port }, relay, keepMs, (dropped, why) => {
      this.#forget(dropped);
      this.#options.onDropped(why);
      if (why === "spoke") {
        this.distrust(owner, port);
      }
    });
    const own = this.#byOwner.get(owner);
    if (own === undefined) {
      this.#byOwner.set(owner, [idle]);
    } else {
      own.push(idle);
    }
    this.#all.add(idle);
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
  }

  #forget(idle: IdleRelay): void {
    this.#all.delete(idle);
    const own = this.#byOwner.get(idle.owner);
    const at = own?.lastIndexOf(idle) ?? -1;
    if (own !== undefined && at >= 0) {
      own.splice(at, 1);
      if (own.length === 0) {
        this.#byOwner.delete(idle.owner);
      }
    }
  }
}
