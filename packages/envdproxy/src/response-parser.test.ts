import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BrokenAnswer, ResponseParser } from "./response-parser.ts";

interface Read {
  readonly seen: string[];
  body: string;
  broken?: string;
}

/** Feeds pieces and writes down what was found; body pieces are joined. */
function read(pieces: readonly string[], options: { method?: string; upgrade?: boolean; end?: boolean } = {}): Read {
  const result: Read = { seen: [], body: "" };
  const parser = new ResponseParser({
    method: options.method ?? "GET",
    upgrade: options.upgrade ?? false,
    events: {
      onInform: (head) => result.seen.push(`inform ${head.status} ${head.headers.join("|")}`),
      onSwitch: (head, early) => result.seen.push(`switch ${head.headers.join("|")} early=${early.toString("latin1")}`),
      onHead: (head) =>
        result.seen.push(`head ${head.status} ${head.statusText} ${head.headers.join("|")} ${head.empty}`),
      onBody: (piece) => {
        result.body += piece.toString("latin1");
      },
      onFinish: (trailers) => result.seen.push(`end ${trailers.join("|")}`),
    },
  });
  try {
    for (const piece of pieces) {
      parser.feed(Buffer.from(piece, "latin1"));
    }
    if (options.end === true) {
      result.seen.push(`complete ${parser.end()}`);
    }
  } catch (error) {
    if (!(error instanceof BrokenAnswer)) {
      throw error;
    }
    result.broken = error.message;
  }
  return result;
}

const ANSWERS = [
  "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-A: 1\r\nx-a:\t 2 \t\r\n\r\nbody",
  "HTTP/1.1 200 OK\nContent-Length: 4\n\nbody",
  "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
  'HTTP/1.1 200 \r\nTransfer-Encoding: Chunked\r\n\r\n4;ext="a"\r\nbody\r\n00A\r\n0123456789\r\n0\r\nX-Sum: 1\r\nX-T:\r\n\r\n',
  "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
  "HTTP/1.1 204 No Content\r\nX: 1\r\n\r\n",
  'HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\nETag: "\xe9"\r\n\r\n',
];

describe("ResponseParser", () => {
  it("reads lengths, chunks, interim answers and trailers", () => {
    expect(ANSWERS.map((answer) => read([answer]))).toStrictEqual([
      { seen: ["head 200 OK Content-Length|4|X-A|1|x-a|2 false", "end "], body: "body" },
      { seen: ["head 200 OK Content-Length|4 false", "end "], body: "body" },
      { seen: ["head 200  Content-Length|0 false", "end "], body: "" },
      { seen: ["head 200  Transfer-Encoding|Chunked false", "end X-Sum|1|X-T|"], body: "body0123456789" },
      { seen: ["inform 100 ", "inform 103 Link|a", "head 404 Not Found Content-Length|2 false", "end "], body: "no" },
      { seen: ["head 204 No Content X|1 true", "end "], body: "" },
      { seen: ['head 304 Not Modified Content-Length|99|ETag|"\xe9" true', "end "], body: "" },
    ]);
  });

  it("reads the same however the bytes are cut", () => {
    const cuts = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(fc.constantFrom(...ANSWERS), cuts, (answer, sizes) => {
        const pieces: string[] = [];
        for (let at = 0, i = 0; at < answer.length; i += 1) {
          const size = sizes[i % sizes.length] ?? 1;
          pieces.push(answer.slice(at, at + size));
          at += size;
        }
        expect(read(pieces)).toStrictEqual(read([answer]));
      }),
    );
    for (const answer of ANSWERS) {
      expect(read(answer.split(""))).toStrictEqual(read([answer]));
    }
  });

  it("reads bodies of any bytes in any chunks", () => {
    const body = fc.array(fc.string({ unit: "binary-ascii", minLength: 1, maxLength: 300 }), { maxLength: 8 });
    fc.assert(
      fc.property(body, fc.integer({ min: 1, max: 50 }), (chunks, size) => {
        const text = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunks
          .map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`)
          .join("")}0\r\n\r\nrest`;
        const pieces = text.match(new RegExp(`[^]{1,${size}}`, "g")) ?? [];
        expect(read(pieces)).toMatchObject({ body: chunks.join(""), seen: [expect.stringMatching(/^head/), "end "] });
      }),
    );
  });

  it("ends a body without length with the connection, and only that", () => {
    expect(read(["HTTP/1.0 200 OK\r\n\r\nsome", "thing"], { end: true })).toStrictEqual({
      seen: ["head 200 OK  false", "end ", "complete true"],
      body: "something",
    });
    for (const cut of ["", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome"]) {
      expect(read([cut], { end: true }).seen.at(-1)).toBe("complete false");
    }
    expect(read([(ANSWERS[3] ?? "").slice(0, -2)], { end: true }).seen.at(-1)).toBe("complete false");
  });

  it("knows no body in the answer to HEAD", () => {
    const seen = ["head 200 OK Content-Length|4|X-A|1|x-a|2 true", "end "];
    expect(read([ANSWERS[0] ?? ""], { method: "HEAD" })).toStrictEqual({ seen, body: "" });
  });

  it("hands over what follows a switch of protocols, if it was asked for", () => {
    const bytes = "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n\x00early";
    expect(read([bytes], { upgrade: true }).seen).toStrictEqual(["switch Upgrade|x early=\x00early"]);
    expect(read([bytes]).broken).toContain("unasked");
  });

  it.each([
    "SSH-2.0-x\r\n\r\n",
    "HTTP/1.1 99 x\r\n\r\n",
    "HTTP/1.1 000 x\r\n\r\n",
    "HTTP/1.1 600 x\r\n\r\n",
    "HTTP/1.1 2000 x\r\n\r\n",
    "HTTP/2 200 OK\r\n\r\n",
    "\r\nHTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA b: c\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA : c\r\n\r\n",
    "HTTP/1.1 200 OK\r\n: c\r\n\r\n",
    "HTTP/1.1 200 OK\r\nnothing\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA: b\rX: c\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nbroken\r\n\r\n",
  ])("refuses %j", (bytes) => {
    expect(read([bytes]).broken).toBeDefined();
    expect(read(bytes.split("")).broken).toBeDefined();
    expect(read([bytes]).seen.some((line) => line.startsWith("end"))).toBe(false);
  });

  it("bounds heads, lines, trailers and interim answers, in time as well", () => {
    const endless: [string, string][] = [
      ["HTTP/1.1 200 OK\r\n", "A: b\r\n"],
      ["HTTP/1.1 200 OK\r\nA:", " "],
      ["", "HTTP/1.1 103 x\r\n\r\n"],
      ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1"],
      ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "x"],
      ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "A: b\r\n"],
      ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA:", "x"],
    ];
    for (const [start, more] of endless) {
      const pieces = [start, ...Array.from({ length: 40 }, () => more.repeat(Math.ceil(100_000 / more.length)))];
      expect(read(pieces).broken).toBeDefined();
    }
    expect(read([`HTTP/1.1 200 OK\r\nA: ${" ".repeat(500_000)}x\r\n\r\n`]).broken).toBeUndefined();
    expect(read(`HTTP/1.1 200 OK\r\nA: ${"\t".repeat(200_000)}x\r\n\r\n`.split("")).broken).toBeUndefined();
  });

  it("never throws anything else, whatever it is fed", () => {
    const token = fc.constantFrom(
      "HTTP/1.1 200 OK",
      "\r\n",
      "\n",
      "\r",
      ":",
      "Content-Length: 3",
      "0",
      "a",
      " ",
      "\x00",
      "Transfer-Encoding: chunked",
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(token, fc.string({ maxLength: 5 })), { maxLength: 40 }), (pieces) => {
        expect(read(pieces, { end: true }).seen.length).toBeGreaterThanOrEqual(0);
      }),
      { numRuns: 500 },
    );
  });
});
