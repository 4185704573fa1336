import { request as httpRequest } from "node:http";
import type { Duplex } from "node:stream";
import type { GuestEvents, GuestLeg, GuestRequest } from "./guest-leg.ts";
import { MAX_HEADER_BYTES } from "./limits.ts";
import type { RawHeaders } from "./raw-headers.ts";

function mapped(trailers: RawHeaders): [string, string][] {
  const pairs: [string, string][] = [];
  for (let i = 0; i + 1 < trailers.length; i += 2) {
    pairs.push([trailers[i] ?? "", trailers[i + 1] ?? ""]);
  }
  return pairs;
}

/** Statuses that end an answer; anything else is no answer that could be passed on. */
function isFinalStatus(status: number): boolean {
  return status >= 200 && status <= 599;
}

/** Sends one request over a relay as HTTP/1.1. The relay is closed with the exchange. */
export function requestHttp1(relay: Duplex, head: GuestRequest, events: GuestEvents): GuestLeg {
  let settled = false;
  let over = false;

  // Without an agent: `agent: false` would ignore `createConnection` and dial by itself.
  const request = httpRequest({
    method: head.method,
    path: head.path,
    headers: [...head.headers],
    maxHeaderSize: MAX_HEADER_BYTES,
    createConnection: () => relay,
  });
  request.maxHeadersCount = 0;

  function fail(error: Error): void {
    if (!settled) {
      settled = true;
      relay.destroy();
      events.onFailure(error);
    }
  }

  // Before Node listens for itself: a guest that has ended already would otherwise never be noticed.
  const onEnd = (): void => fail(new Error("the guest closed without an answer"));
  relay.once("end", onEnd);
  if (relay.readableEnded || relay.destroyed) {
    process.nextTick(onEnd);
  }
  request.on("error", fail);
  request.on("close", () => fail(new Error("the guest closed without an answer")));
  request.on("information", (info) => {
    // 100 answers an expectation that was met on this side.
    if (info.statusCode !== 100) {
      events.onInform(info.statusCode, info.rawHeaders);
    }
  });
  request.on("upgrade", (response, socket, early) => {
    if (settled || response.statusCode !== 101) {
      socket.destroy();
      return;
    }
    settled = true;
    events.onSwitch({
      statusText: response.statusMessage ?? "",
      headers: response.rawHeaders,
      relay: socket,
      early,
    });
  });
  request.on("response", (response) => {
    const status = response.statusCode ?? 0;
    if (settled || !isFinalStatus(status)) {
      fail(new Error(`the guest answered with status ${status}`));
      return;
    }
    settled = true;
    const broken = (): void => {
      if (!over) {
        over = true;
        events.onBroken();
      }
    };
    response.on("error", broken);
    response.on("close", () => {
      if (!response.complete) {
        broken();
      }
    });
    events.onResponse({
      status,
      statusText: response.statusMessage ?? "",
      headers: response.rawHeaders,
      body: response,
      empty: head.method === "HEAD" || status === 204 || status === 304,
      trailers: () => response.rawTrailers,
    });
  });

  if (head.empty) {
    request.end();
  } else {
    request.flushHeaders();
  }

  return {
    body: request,
    endBody(trailers) {
      if (trailers.length > 0 && request.chunkedEncoding) {
        request.addTrailers(mapped(trailers));
      }
      request.end();
    },
    destroy() {
      settled = true;
      over = true;
      request.destroy();
      relay.destroy();
    },
  };
}
