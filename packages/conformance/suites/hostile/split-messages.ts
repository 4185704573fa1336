import type { HostileRig } from "../../src/hostile-rig.ts";

/** A message of a client that is sent in pieces. */
export interface SplitMessage {
  readonly name: string;
  readonly bytes: Buffer;
  /** What of its body must arrive. */
  readonly body: string;
}

/** An envelope of the Connect protocol. */
export function envelope(message: object, flags = 0): Buffer {
  const data = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt8(flags);
  head.writeUInt32BE(data.length, 1);
  return Buffer.concat([head, data]);
}

/** One frame of a client's WebSocket, masked as clients must. */
export function clientFrame(data: Buffer, opcode = 2): Buffer {
  const mask = Buffer.from([0x12, 0x34, 0x56, 0x78]);
  const masked = Buffer.from(data.map((byte, index) => byte ^ (mask[index % 4] ?? 0)));
  return Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | data.length]), mask, masked]);
}

/** Requests of every framing, to the guest of a rig. `tag` goes into their targets. */
export function splitMessages(rig: HostileRig, tag: string): readonly SplitMessage[] {
  const head = (line: string, headers: readonly string[]): string =>
    `${line} HTTP/1.1\r\nHost: ${rig.host()}\r\n${headers.map((header) => `${header}\r\n`).join("")}\r\n`;
  const message = (name: string, text: string, body = ""): SplitMessage => ({
    name,
    bytes: Buffer.from(text, "latin1"),
    body,
  });
  const frames = Buffer.concat([envelope({ a: 1 }), envelope({ b: "é" }), envelope({}, 2)]).toString("latin1");
  const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
  return [
    message("a head", head(`GET /${tag}?x=%2B`, ["Connection: close", "X-Some:  a value "])),
    message("a length", head(`PUT /${tag}`, ["Connection: close", "Content-Length: 10"]) + "0123456789", "0123456789"),
    message(
      "chunks and trailers",
      `${head(`POST /${tag}`, ["Connection: close", "Transfer-Encoding: chunked"])}4;x=y\r\n0123\r\n00a\r\n456789abcd\r\n0\r\nX-Sum: 1\r\n\r\n`,
      "0123456789abcd",
    ),
    message(
      "Connect envelopes",
      `${head(`POST /${tag}`, ["Connection: close", "Content-Type: application/connect+json", "Transfer-Encoding: chunked"])}${chunk(frames.slice(0, 7))}${chunk(frames.slice(7))}0\r\n\r\n`,
      frames,
    ),
  ];
}

/** What guests answer in pieces, and the body that clients must read. */
export const SPLIT_ANSWERS: readonly { readonly name: string; readonly bytes: Buffer; readonly body: string }[] = [
  ["a length", "HTTP/1.1 200 OK\r\nX-Some:  a \r\nContent-Length: 10\r\n\r\n0123456789", "0123456789"] as const,
  [
    "chunks, extensions and trailers behind an interim answer",
    "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n4;x\r\n0123\r\n00a\r\n456789abcd\r\n0\r\nX-Sum: 1\r\n\r\n",
    "0123456789abcd",
  ] as const,
].map(([name, text, body]) => ({ name, bytes: Buffer.from(text, "latin1"), body }));
