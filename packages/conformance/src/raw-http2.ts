import { connect } from "node:net";

/** What a raw HTTP/2 connection was answered with. */
export interface Http2Reply {
  /** Status of stream 1, 0 when there was none. */
  readonly status: number;
  /** Whether stream 1 was reset, and whether the whole connection was given up. */
  readonly reset: boolean;
  readonly goneAway: boolean;
  readonly closed: boolean;
}

const FRAME = { data: 0, headers: 1, reset: 3, settings: 4, goAway: 7, continuation: 9 } as const;
/** HPACK's codes of the digits, which is all that a status is written with. */
const DIGITS = ["00000", "00001", "00010", "011001", "011010", "011011", "011100", "011101", "011110", "011111"];
const STATIC_STATUS: Readonly<Record<number, number>> = { 8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500 };

/** What every client sends first. */
export const PREFACE: Buffer = Buffer.concat([
  Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  frame(FRAME.settings, 0, 0, Buffer.alloc(0)),
]);

/** One frame. */
export function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** A block of fields, written so that nothing is checked or corrected. Bytes as latin1. */
export function block(fields: readonly (readonly [name: string, value: string])[]): Buffer {
  const text = (value: string): Buffer => {
    const bytes = Buffer.from(value, "latin1");
    return Buffer.concat([number(bytes.length, 7), bytes]);
  };
  return Buffer.concat(fields.flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]));
}

function number(value: number, bits: number): Buffer {
  const most = (1 << bits) - 1;
  if (value < most) {
    return Buffer.from([value]);
  }
  const bytes = [most];
  let rest = value - most;
  while (rest >= 128) {
    bytes.push((rest % 128) | 128);
    rest = Math.floor(rest / 128);
  }
  return Buffer.from([...bytes, rest]);
}

/** HEADERS of stream 1, and DATA when there is a body. */
export function requestFrames(fields: readonly (readonly [string, string])[], body?: string): Buffer {
  const headers = frame(FRAME.headers, body === undefined ? 5 : 4, 1, block(fields));
  return body === undefined ? headers : Buffer.concat([headers, frame(FRAME.data, 1, 1, Buffer.from(body))]);
}

/** Sends bytes on a connection of its own and reads until stream 1 or the connection has ended, or time is up. */
export function talkHttp2(port: number, pieces: readonly Buffer[], limitMs = 6_000): Promise<Http2Reply> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    let seen: Buffer = Buffer.alloc(0);
    let reply: Http2Reply = { status: 0, reset: false, goneAway: false, closed: false };
    const finish = (): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(reply);
    };
    const timer = setTimeout(finish, limitMs);
    socket.on("error", () => undefined);
    socket.once("close", () => {
      reply = { ...reply, closed: true };
      finish();
    });
    socket.on("data", (bytes: Buffer) => {
      seen = Buffer.concat([seen, bytes]);
      while (seen.length >= 9 && seen.length >= 9 + seen.readUIntBE(0, 3)) {
        const length = seen.readUIntBE(0, 3);
        const [type = 0, flags = 0] = seen.subarray(3, 5);
        const payload = seen.subarray(9, 9 + length);
        const stream = seen.readUInt32BE(5);
        seen = seen.subarray(9 + length);
        if (type === FRAME.headers && stream === 1) {
          const status = statusIn(payload);
          reply = { ...reply, status: reply.status >= 200 ? reply.status : status };
        } else if (type === FRAME.reset && stream === 1) {
          reply = { ...reply, reset: true };
        } else if (type === FRAME.goAway) {
          reply = { ...reply, goneAway: true };
        }
        if ((type <= FRAME.headers && stream === 1 && (flags & 1) === 1) || (type === FRAME.reset && stream === 1)) {
          finish();
          return;
        }
      }
    });
    void (async () => {
      for (const piece of pieces) {
        socket.write(piece);
        await new Promise((next) => setImmediate(next));
      }
    })();
  });
}

/** The status stands first in every block. */
function statusIn(bytes: Buffer): number {
  const [first = 0, second = 0] = bytes;
  if (first >= 0x80) {
    return STATIC_STATUS[first & 0x7f] ?? 0;
  }
  const value = bytes.subarray(2, 2 + (second & 0x7f));
  if (second < 0x80) {
    return Number(value.toString("latin1"));
  }
  let bits = Array.from(value, (byte) => byte.toString(2).padStart(8, "0")).join("");
  let digits = "";
  for (;;) {
    const digit = DIGITS.findIndex((code) => bits.startsWith(code));
    if (digit < 0 || digits.length === 3) {
      return Number(digits);
    }
    digits += String(digit);
    bits = bits.slice(DIGITS[digit]?.length);
  }
}
