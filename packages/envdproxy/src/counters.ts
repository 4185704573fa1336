import type { RequestErrorCode } from "./errors.ts";

/**
 * Why an idle relay was closed: its time was up, its guest or node closed it, its guest spoke unasked, others needed
 * the room, what is known of its sandbox changed, or the client that it was picked for left.
 */
export type DropReason = "expired" | "closed" | "spoke" | "crowded" | "stale" | "left";

/** What clients speak to the proxy. */
export type ClientProtocol = "http1" | "http2" | "upgrade";

/** How the owner of a sandbox was found, or was not. */
export type LookupResult = "cached" | "found" | "gone" | "failed" | "over_budget";

/** How the first request to a paused sandbox fared. */
export type WakeResult = "woken" | "failed" | "left";

/** Counts per key, zero until counted. */
export class Tally<Key extends string> {
  readonly counts: Map<Key, number> = new Map();

  add(key: Key, amount = 1): void {
    this.counts.set(key, (this.counts.get(key) ?? 0) + amount);
  }
}

/**
 * What a proxy counts. Plain numbers, since every request passes here; `registerMetrics` shows them to Prometheus when
 * somebody looks.
 */
export class Counters {
  /** By protocol and class of the status, as in `http2 5xx`. */
  readonly requests: Tally<`${ClientProtocol} ${string}`> = new Tally();
  readonly refusals: Tally<RequestErrorCode> = new Tally();
  readonly lookups: Tally<LookupResult> = new Tally();
  readonly wakes: Tally<WakeResult> = new Tally();
  readonly dialFailures: Tally<RequestErrorCode> = new Tally();
  readonly dropped: Tally<DropReason> = new Tally();
  readonly reloads: Tally<"ok" | "failed"> = new Tally();
  running = 0;
  broken = 0;
  bytesToGuests = 0;
  bytesToClients = 0;
  relaysOpened = 0;
  relaysReused = 0;
  relayRetries = 0;
  /** Relays that are open now, idle ones included. */
  relaysOpen = 0;
  /** Told how many milliseconds it took to open a relay. */
  onDial: (ms: number) => void = () => undefined;
  /** Told how many milliseconds passed from a request's head to the guest's. */
  onHead: (ms: number) => void = () => undefined;
  /** Asked when somebody looks. */
  relaysIdle: () => number = () => 0;
  /** Connections of clients, by what they speak; asked when somebody looks. */
  connections: () => Readonly<Record<"http1" | "http2" | "switched" | "unknown", number>> = () => ({
    http1: 0,
    http2: 0,
    switched: 0,
    unknown: 0,
  });
}
