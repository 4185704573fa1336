import type { Duplex, Writable } from "node:stream";
import { answerError } from "./answers.ts";
import { refusal, requestErrorCode } from "./errors.ts";
import { clientResponseHeaders, passableTrailers } from "./forward-headers.ts";
import type { GuestEvents, GuestLeg, GuestResponse, GuestSwitch } from "./guest-leg.ts";
import type { Inbound } from "./inbound.ts";

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
  /** Opens the relay; aborted when the client leaves. */
  readonly open: (signal: AbortSignal) => Promise<Duplex>;
  /** Speaks to the guest over the relay. */
  readonly send: (relay: Duplex, events: GuestEvents) => GuestLeg;
  /** Takes both connections over once the guest switched protocols. Without it a switch is a failure. */
  readonly onSwitch?: ((change: GuestSwitch) => void) | undefined;
  /** Told of every failure that was answered. */
  readonly onRefused: (error: unknown) => void;
}

/**
 * Carries one exchange: opens the relay, streams the request in and the answer out, with backpressure. A client that
 * goes away destroys the relay in whatever phase; a guest that breaks off breaks the client's answer off.
 */
export async function forward(options: ForwardOptions): Promise<void> {
  const { inbound, outcome } = options;
  const leaving = new AbortController();
  const held: { relay?: Duplex; leg?: GuestLeg } = {};

  inbound.onGone(() => {
    leaving.abort();
    held.leg?.destroy();
    held.relay?.destroy();
  });

  function refuse(error: unknown): void {
    if (!inbound.gone) {
      outcome.status = answerError(inbound, requestErrorCode(error));
      options.onRefused(error);
    }
  }

  let opened: Duplex;
  try {
    opened = await options.open(leaving.signal);
  } catch (error) {
    refuse(error);
    return;
  }
  if (inbound.gone) {
    opened.destroy();
    return;
  }
  held.relay = opened;
  const request = options.send(opened, {
    onInform: (status, headers) => inbound.inform(status, clientResponseHeaders(headers, status)),
    onResponse: (response) => answer(response),
    onSwitch: (change) => {
      if (options.onSwitch === undefined || inbound.gone) {
        opened.destroy();
        refuse(refusal("guest_failed"));
        return;
      }
      outcome.status = 101;
      options.onSwitch(change);
    },
    onFailure: (error) => {
      opened.destroy();
      refuse(refusal("guest_failed", error));
    },
    onBroken: () => {
      opened.destroy();
      outcome.broken = true;
      inbound.cut();
    },
  });
  held.leg = request;

  function answer(response: GuestResponse): void {
    if (inbound.gone) {
      request.destroy();
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
      request.destroy();
      refuse(refusal("guest_failed", error));
      return;
    }
    outcome.status = response.status;
    // Listening first: the body may break off before all of it was read.
    response.body.once("end", () => {
      if (!outcome.broken) {
        inbound.finish(passableTrailers(response.trailers()));
        request.destroy();
      }
    });
    if (response.empty) {
      response.body.resume();
    } else {
      response.body.pipe(out, { end: false });
    }
  }

  if (inbound.framing.kind !== "none") {
    inbound.invite();
    inbound.body.once("end", () => request.endBody(passableTrailers(inbound.trailers())));
    inbound.body.pipe(request.body, { end: false });
  }
}
