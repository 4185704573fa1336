import type { Socket } from "node:net";
import { errorCapBytes, headCapBytes } from "./caps.ts";

/** How long the body of a refusal is waited for, in milliseconds, before what came of it is used. */
const refusalBodyMs = 1000;

/** What a node said to a relay request. */
export type RelayReply =
  | { readonly kind: "open" }
  | { readonly kind: "refused"; readonly status: number; readonly body: Buffer }
  | { readonly kind: "broken"; readonly why: string; readonly closed: boolean };

/**
 * Reads the reply of a relay request and calls back once. After `open` the socket is as if nothing had been read behind
 * the head: not flowing, early bytes still in it.
 */
export function readRelayReply(socket: Socket, done: (reply: RelayReply) => void): void {
  let held: Buffer = Buffer.alloc(0);
  let refusal: { status: number; framing: BodyFraming } | undefined;
  let timer: NodeJS.Timeout | undefined;

  const finish = (reply: RelayReply): void => {
    clearTimeout(timer);
    socket.off("readable", onReadable);
    socket.off("end", onEnd);
    done(reply);
  };

  const finishRefusal = (status: number, body: Buffer): void => {
    finish({ kind: "refused", status, body });
  };

  const onReadable = (): void => {
    // At the end of the stream there is nothing to read, and reading it makes the socket report the end.
    const chunk: Buffer | null = socket.read();
    if (chunk === null) {
      return;
    }
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    if (refusal === undefined) {
      onHead();
    } else {
      onRefusalBody(refusal.status, refusal.framing);
    }
  };

  const onHead = (): void => {
    for (;;) {
      const end = held.subarray(0, headCapBytes).indexOf("\r\n\r\n");
      if (end === -1) {
        if (held.length >= headCapBytes) {
          finish({ kind: "broken", why: `the reply head is over ${headCapBytes} bytes`, closed: false });
        }
        return;
      }
      const head = held.toString("latin1", 0, end);
      const rest = held.subarray(end + 4);
      const status = Number(/^HTTP\/1\.[01] ([1-9][0-9]{2})(?: |\r|$)/.exec(head)?.[1]);
      if (Number.isNaN(status)) {
        finish({ kind: "broken", why: "the reply is not HTTP/1", closed: false });
        return;
      }
      if (status === 101) {
        if (rest.length > 0) {
          socket.unshift(rest);
        }
        finish({ kind: "open" });
        return;
      }
      held = rest;
      if (status >= 200) {
        const framing = bodyFraming(head);
        refusal = { status, framing };
        timer = setTimeout(() => finishRefusal(status, decodeBody(held, framing)), refusalBodyMs);
        onRefusalBody(status, framing);
        return;
      }
    }
  };

  const onRefusalBody = (status: number, framing: BodyFraming): void => {
    const complete =
      framing === "chunked" ? held.includes("0\r\n\r\n") : framing !== "until_end" && held.length >= framing;
    if (complete || held.length >= errorCapBytes) {
      finishRefusal(status, decodeBody(held, framing));
    }
  };

  const onEnd = (): void => {
    if (refusal === undefined) {
      finish({ kind: "broken", why: "the connection was closed before the reply", closed: true });
    } else {
      finishRefusal(refusal.status, decodeBody(held, refusal.framing));
    }
  };

  socket.on("readable", onReadable);
  socket.once("end", onEnd);
}

type BodyFraming = number | "chunked" | "until_end";

function bodyFraming(head: string): BodyFraming {
  if (/\r\ntransfer-encoding:[^\r]*chunked/i.test(head)) {
    return "chunked";
  }
  const length = /\r\ncontent-length:[ \t]*([0-9]{1,15})[ \t]*(?:\r|$)/i.exec(head)?.[1];
  return length === undefined ? "until_end" : Number(length);
}

/** The body of a refusal, as far as it came. */
function decodeBody(raw: Buffer, framing: BodyFraming): Buffer {
  if (framing === "until_end") {
    return raw.subarray(0, errorCapBytes);
  }
  if (framing !== "chunked") {
    return raw.subarray(0, Math.min(framing, errorCapBytes));
  }
  const parts: Buffer[] = [];
  let rest = raw;
  for (;;) {
    const lineEnd = rest.indexOf("\r\n");
    const size = lineEnd === -1 ? 0 : Number.parseInt(rest.toString("latin1", 0, lineEnd), 16);
    if (!(size > 0)) {
      return Buffer.concat(parts).subarray(0, errorCapBytes);
    }
    parts.push(rest.subarray(lineEnd + 2, lineEnd + 2 + size));
    rest = rest.subarray(lineEnd + 2 + size + 2);
  }
}
