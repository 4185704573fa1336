import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ReplyBuffer } from "./reply-buffer.ts";
import { ReplyError, ReplyParser } from "./reply-parser.ts";

interface Read {
  readonly status: number;
  readonly body: string;
  readonly done: boolean;
  readonly reusable: boolean;
}

/** Feeds a reply in the given pieces through one piece of memory, as a connection does. */
function read(pieces: readonly Buffer[], end = false): Read {
  const into = new ReplyBuffer();
  const parser = new ReplyParser(into);
  const memory = Buffer.alloc(1 << 16, "\n");
  for (const piece of pieces) {
    piece.copy(memory);
    parser.push(memory, piece.length);
  }
  if (end) {
    parser.end();
  }
  return { status: parser.status, body: into.view().toString(), done: parser.done, reusable: parser.reusable };
}

function cut(whole: Buffer, at: readonly number[]): Buffer[] {
  const marks = [0, ...at.map((mark) => mark % (whole.length + 1)), whole.length].sort((a, b) => a - b);
  return marks.slice(1).map((mark, index) => whole.subarray(marks[index], mark));
}

function chunked(body: string, size: number): string {
  const bytes = Buffer.from(body);
  let text = "";
  for (let at = 0; at < bytes.length; at += size) {
    const part = bytes.subarray(at, at + size);
    text += `${part.length.toString(16)};x="y"\r\n${part.toString("latin1")}\r\n`;
  }
  return `${text}0\r\nTrailer: t\r\n\r\n`;
}

describe("the reply parser", () => {
  it("reads a reply in every framing, however it is cut", () => {
    const framing = fc.constantFrom("length", "chunked", "end");
    fc.assert(
      fc.property(
        fc.string({ unit: "binary", maxLength: 300 }),
        framing,
        fc.integer({ min: 1, max: 50 }),
        fc.array(fc.nat(), { maxLength: 12 }),
        fc.constantFrom("", "HTTP/1.1 103 Early\r\nA: b\r\n\r\n", "HTTP/1.1 102 Processing\r\n\r\n"),
        (text, kind, size, marks, interim) => {
          const body = Buffer.from(text).toString();
          const head = `${interim}HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n`;
          const length = Buffer.byteLength(body);
          const bytes = Buffer.concat(
            kind === "length"
              ? [Buffer.from(`${head}Content-Length: ${length}\r\n\r\n`), Buffer.from(body)]
              : kind === "chunked"
                ? [Buffer.from(`${head}Transfer-Encoding: chunked\r\n\r\n`), Buffer.from(chunked(body, size), "latin1")]
                : [Buffer.from(`${head}\r\n`), Buffer.from(body)],
          );
          const reply = read(cut(bytes, marks), kind === "end");
          expect(reply).toEqual({ status: 200, body, done: true, reusable: kind !== "end" });
        },
      ),
    );
  });

  it.each([
    ["HTTP/1.1 204 No Content\r\n\r\n", 204, "", true],
    ["HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", true],
    ["HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 200, "{}", true],
    ["HTTP/1.1 200 OK\nContent-Length: 2\n\n{}", 200, "{}", true],
    ["HTTP/1.1 404 Not Found\r\ncontent-length:2\r\n\r\n{}", 404, "{}", true],
    ["HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\n{}", 200, "{}", false],
    ["HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, "{}", false],
    ["HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, "", false],
    ["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}surplus", 200, "{}", false],
  ])("reads %j", (text, status, body, reusable) => {
    expect(read([Buffer.from(text)])).toEqual({ status, body, done: true, reusable });
  });

  it.each([
    ["SSH-2.0-OpenSSH_9\r\n\r\n"],
    ["HTTP/2 200\r\n\r\n"],
    ["HTTP/1.1 099 Odd\r\n\r\n"],
    ["\r\n\r\n"],
    ["HTTP/1.1 101 Switching Protocols\r\n\r\n"],
    ["HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}"],
    ["HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}"],
    ["HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"],
    ["HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"],
    ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
    ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n"],
    ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n"],
    [`HTTP/1.1 200 OK\r\n${"A: b\r\n".repeat(4000)}`],
    [`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${"0".repeat(2000)}`],
    ["HTTP/1.1 200 OK\r\nContent-Length: 16777217\r\n\r\n"],
  ])("refuses %j", (text) => {
    expect(() => read([Buffer.from(text)])).toThrow(ReplyError);
  });

  it("refuses a body that grows over the cap, and cuts an error's body", () => {
    const piece = Buffer.alloc(1 << 16, "x");
    const flood = Array.from({ length: 260 }, () => piece);
    expect(() => read([Buffer.from("HTTP/1.1 200 OK\r\n\r\n"), ...flood])).toThrow("cap of 16777216 bytes");
    const error = read([Buffer.from("HTTP/1.1 500 No\r\n\r\n"), ...flood]);
    expect(error).toMatchObject({ status: 500, done: true, reusable: false });
    expect(error.body).toHaveLength(1 << 16);
  });

  it("refuses a reply that ends early", () => {
    const whole = Buffer.from("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n");
    for (let at = 0; at < whole.length; at += 1) {
      expect(() => read([whole.subarray(0, at)], true)).toThrow(ReplyError);
    }
  });
});

describe("a reply buffer", () => {
  it("uses its memory again, and gives up what is far too much", () => {
    const buffer = new ReplyBuffer();
    const big = Buffer.alloc(1 << 20, "b");
    buffer.append(big, 0, big.length);
    const first = buffer.view();
    buffer.clear();
    buffer.append(big, 0, 600_000);
    expect(buffer.view().buffer).toBe(first.buffer);
    buffer.clear();
    buffer.append(big, 0, 10);
    buffer.clear();
    buffer.append(big, 5, 10);
    expect(buffer.view().toString()).toBe("bbbbb");
    expect(buffer.view().buffer).not.toBe(first.buffer);
  });
});
