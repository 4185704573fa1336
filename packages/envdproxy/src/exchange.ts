import type { Writable } from "node:stream";
import { answerError } from "./answers.ts";
import { refusal, requestErrorCode } from "./errors.ts";
import { clientResponseHeaders, passableTrailers } from "./forward-headers.ts";
import type { GuestEvents, GuestHead, GuestLeg, GuestResponse, GuestSwitch } from "./guest-leg.ts";
import type { GuestRelay } from "./guest-relay.ts";
import type { Inbound } from "./inbound.ts";
import type { Lease } from "./relay-dialer.ts";

/** How an exchange went, for the access log. */
export interface Outcome {
  /** Status that the client saw; 499 when it left before any. */
  status: number;
  /** The answer broke off. */
  broken: boolean;
}

/** Options of {@link forward}. */
export interface ForwardOptions {
  readonly inbound: Inbound;
  readonly outcome: Outcome;
  /** A relay that is there at once, since it carried a request before. */
  readonly reuse: () => Lease | undefined;
  /** Opens a relay, a fresh one where it is wanted; aborted when the client leaves. */
  readonly open: (fresh: boolean, signal: AbortSignal) => Promise<Lease>;
  /** Speaks to the guest over a relay, which it keeps open for the next request where it may. */
  readonly send: (relay: GuestRelay, keep: boolean, events: GuestEvents) => GuestLeg;
  /** Whether the relay may carry another request afterwards. */
  readonly keep: boolean;
  /** Whether the request may be sent once more when a relay that was kept turns out to be dead. */
  readonly repeatable: boolean;
  /** Takes both connections over once the guest switched protocols. Without it a switch is a failure. */
  readonly onSwitch?: ((change: GuestSwitch) => void) | undefined;
  /** Told of the guest's head. */
  readonly onHead: () => void;
  /** Told of every second try. */
  readonly onRetry: () => void;
  /** Told of each piece of a body that passes. */
  readonly onBytes: (direction: "guest" | "client", bytes: number) => void;
  /** Told of every failure that was answered. */
  readonly onRefused: (error: unknown) => void;
  /** Told of a fault of the proxy itself. */
  readonly onFault: (error: unknown) => void;
}

/**
 * Carries one exchange: opens the relay, streams the request in and the answer out, with backpressure. A client that
 * goes away destroys the relay in whatever phase; a guest that breaks off breaks the client's answer off.
 */
export function forward(options: ForwardOptions): void {
  new Exchange(options).start();
}

class Exchange {
  readonly #options: ForwardOptions;
  readonly #inbound: Inbound;
  readonly #outcome: Outcome;
  #leaving: AbortController | undefined;
  #relay: GuestRelay | undefined;
  #leg: GuestLeg | undefined;

  constructor(options: ForwardOptions) {
    this.#options = options;
    this.#inbound = options.inbound;
    this.#outcome = options.outcome;
    options.inbound.onGone(() => {
      this.#leaving?.abort();
      this.#leg?.destroy();
      this.#relay?.destroy();
    });
  }

  start(): void {
    const lease = this.#options.reuse();
    if (lease === undefined) {
      this.#dial(false);
    } else {
      this.#take(lease);
    }
  }

  #dial(fresh: boolean): void {
    this.#open(fresh).catch(this.#options.onFault);
  }

  async #open(fresh: boolean): Promise<void> {
    this.#leaving ??= new AbortController();
    let lease: Lease;
    try {
      lease = await this.#options.open(fresh, this.#leaving.signal);
    } catch (error) {
      this.#refuse(error);
      return;
    }
    this.#take(lease);
  }

  /**
   * What must not be sent twice goes over a relay that was idle only after a turn: whatever its guest or node did to it
   * until now is seen within one.
   */
  #take(lease: Lease): void {
    if (lease.reused && !this.#options.repeatable) {
      setImmediate(this.#begin, lease);
    } else {
      this.#begin(lease);
    }
  }

  readonly #begin = (lease: Lease): void => {
    if (this.#inbound.gone) {
      lease.discard();
      return;
    }
    try {
      const relay = lease.begin();
      if (relay === undefined) {
        this.start();
      } else {
        this.#send(lease, relay);
      }
    } catch (error) {
      this.#options.onFault(error);
    }
  };

  #refuse(error: unknown): void {
    if (!this.#inbound.gone) {
      this.#outcome.status = answerError(this.#inbound, requestErrorCode(error));
      this.#options.onRefused(error);
    }
  }

  #send(lease: Lease, relay: GuestRelay): void {
    const inbound = this.#inbound;
    const { onSwitch, repeatable } = this.#options;
    this.#relay = relay;
    const leg = this.#options.send(relay, lease.keepable && this.#options.keep, {
      onInform: (status, headers) => inbound.inform(status, clientResponseHeaders(headers, status)),
      onWhole: (response, body) => this.#answerWhole(lease, relay, response, body),
      onResponse: (response) => this.#answer(lease, relay, response),
      onSwitch: (change) => {
        if (onSwitch === undefined || inbound.gone) {
          relay.destroy();
          this.#refuse(refusal("guest_failed"));
          return;
        }
        this.#outcome.status = 101;
        onSwitch(change);
      },
      onFailure: (error, unheard) => {
        relay.destroy();
        if (lease.reused && unheard && repeatable && !inbound.gone) {
          // The relay was closed while the request was on its way: the guest has not seen it, or it does no harm twice.
          this.#options.onRetry();
          this.#dial(true);
          return;
        }
        this.#refuse(refusal("guest_failed", error));
      },
      onBroken: () => {
        relay.destroy();
        this.#outcome.broken = true;
        inbound.cut();
      },
    });
    this.#leg = leg;
    const { body } = inbound;
    if (Buffer.isBuffer(body)) {
      this.#options.onBytes("guest", body.length);
    } else if (inbound.framing.kind !== "none") {
      inbound.invite();
      const endBody = (): void => leg.endBody(passableTrailers(inbound.trailers()));
      // An empty body of HTTP/2 ends by itself, which may be before the relay is there to hear of it.
      if (body.readableEnded) {
        endBody();
      } else {
        body.once("end", endBody);
        body.on("data", (piece: Buffer) => this.#options.onBytes("guest", piece.length));
        body.pipe(leg.body, { end: false });
      }
    }
  }

  #answerWhole(lease: Lease, relay: GuestRelay, response: GuestHead, body: Buffer): void {
    const inbound = this.#inbound;
    if (inbound.gone) {
      this.#leg?.destroy();
      return;
    }
    const { status, statusText, empty } = response;
    try {
      const headers = clientResponseHeaders(response.headers, status);
      inbound.respondWhole({ status, statusText, headers, empty }, body);
    } catch (error) {
      this.#leg?.destroy();
      this.#refuse(refusal("guest_failed", error));
      return;
    }
    this.#outcome.status = status;
    this.#options.onHead();
    this.#options.onBytes("client", body.length);
    this.#settle(lease, relay);
  }

  #answer(lease: Lease, relay: GuestRelay, response: GuestResponse): void {
    const inbound = this.#inbound;
    if (inbound.gone) {
      this.#leg?.destroy();
      return;
    }
    let out: Writable;
    try {
      out = inbound.respond({
        status: response.status,
        statusText: response.statusText,
        headers: clientResponseHeaders(response.headers, response.status),
        empty: response.empty,
      });
    } catch (error) {
      // A head that the client's protocol can not carry is the guest's fault, and still unsaid.
      this.#leg?.destroy();
      this.#refuse(refusal("guest_failed", error));
      return;
    }
    this.#outcome.status = response.status;
    this.#options.onHead();
    // Listening first: the body may break off before all of it was read.
    response.body.once("end", () => {
      if (!this.#outcome.broken) {
        inbound.finish(passableTrailers(response.trailers()));
        this.#settle(lease, relay);
      }
    });
    if (response.empty) {
      response.body.resume();
    } else {
      response.body.on("data", (piece: Buffer) => this.#options.onBytes("client", piece.length));
      response.body.pipe(out, { end: false });
    }
  }

  /** The answer is complete: the relay waits for the next request, or closes. */
  #settle(lease: Lease, relay: GuestRelay): void {
    const leg = this.#leg;
    if (leg?.spoke === true) {
      lease.distrust();
    }
    const keepMs = lease.keepable && this.#options.keep ? (leg?.release() ?? 0) : 0;
    if (keepMs > 0) {
      // A client that goes away from now on is no reason to close it.
      this.#relay = undefined;
      this.#leg = undefined;
      lease.keep(relay, keepMs);
    } else {
      leg?.destroy();
    }
  }
}
