import { connect } from "node:http2";
import type { ClientHttp2Stream, IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http2";
import type { GuestEvents, GuestLeg, GuestRequest } from "./guest-leg.ts";
import type { GuestRelay } from "./guest-relay.ts";
import { flatFields } from "./inbound-http2.ts";
import { HTTP2_STREAM_WINDOW, MAX_HEADER_BYTES } from "./limits.ts";
import { http2Fields } from "./raw-headers.ts";
import type { RawHeaders } from "./raw-headers.ts";

const CONNECTION_FIELDS = ["host", "connection", "transfer-encoding", "upgrade", "keep-alive", "proxy-connection"];

/** Sends one request over a relay as HTTP/2 with prior knowledge. The relay is closed with the exchange. */
export function requestHttp2({ stream: relay }: GuestRelay, head: GuestRequest, events: GuestEvents): GuestLeg {
  let settled = false;
  let over = false;
  let ended = false;
  let trailers: RawHeaders = [];
  let outTrailers: RawHeaders = [];

  const session = connect(`http://${head.authority}`, {
    createConnection: () => relay,
    maxSendHeaderBlockLength: MAX_HEADER_BYTES,
    settings: { enablePush: false, initialWindowSize: HTTP2_STREAM_WINDOW, maxHeaderListSize: MAX_HEADER_BYTES },
  });
  const fields = http2Fields(head.headers);
  for (const name of CONNECTION_FIELDS) {
    delete fields[name];
  }
  const request: OutgoingHttpHeaders = {
    ...fields,
    ":method": head.method,
    ":path": head.path,
    ":scheme": "http",
    ":authority": head.authority,
  };

  function fail(error: Error): void {
    if (!settled) {
      settled = true;
      over = true;
      events.onFailure(error, false);
      session.destroy();
    }
  }
  function broken(): void {
    if (!over) {
      over = true;
      events.onBroken();
    }
  }

  session.on("error", fail);
  session.on("close", () => {
    fail(new Error("the guest closed without an answer"));
    relay.destroy();
  });

  const stream: ClientHttp2Stream = session.request(request, { endStream: head.empty, waitForTrailers: !head.empty });
  stream.on("wantTrailers", () => stream.sendTrailers(http2Fields(outTrailers)));
  stream.on("headers", (info: IncomingHttpHeaders & { ":status"?: number }) => {
    const status = info[":status"] ?? 0;
    if (status !== 100) {
      events.onInform(status, flatFields(info));
    }
  });
  stream.on("trailers", (info: IncomingHttpHeaders) => {
    trailers = flatFields(info);
  });
  stream.on("response", (info: IncomingHttpHeaders & { ":status"?: number }, flags: number) => {
    settled = true;
    const status = info[":status"] ?? 0;
    const endOfStream = (flags & 1) !== 0;
    events.onResponse({
      status,
      statusText: "",
      headers: flatFields(info),
      body: stream,
      empty: endOfStream || head.method === "HEAD" || status === 204 || status === 304,
      trailers: () => trailers,
    });
  });
  stream.on("error", (error: Error) => {
    fail(error);
    broken();
  });
  stream.on("end", () => {
    ended = true;
  });
  stream.on("close", () => {
    fail(new Error("the guest closed without an answer"));
    // A connection that ends under a stream closes it without an error, and without an end.
    if (!ended || stream.rstCode !== 0) {
      broken();
    }
    session.destroy();
  });

  // Relays are half open for raw bytes; an HTTP/2 guest that stops sending has left. Without an error its unfinished
  // answer would end like a complete one. A complete answer may still be on its way to the client.
  const onEnd = (): void => {
    if (!stream.closed) {
      session.destroy(new Error("the guest closed its connection"));
    }
  };
  relay.once("end", onEnd);
  if (relay.readableEnded || relay.destroyed) {
    process.nextTick(onEnd);
  }

  if (head.whole !== undefined) {
    stream.end(head.whole);
  }
  return {
    body: stream,
    endBody(last) {
      outTrailers = last;
      stream.end();
    },
    // A session of its own for each request.
    release: () => 0,
    spoke: false,
    destroy() {
      settled = true;
      over = true;
      session.destroy();
      relay.destroy();
    },
  };
}
