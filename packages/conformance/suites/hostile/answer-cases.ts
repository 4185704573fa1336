/** An answer that a guest may send, as bytes, and what it does then. */
export interface AnswerCase {
  readonly name: string;
  /** Bytes as latin1. */
  readonly bytes: string;
  readonly ending: "keep" | "end" | "reset";
  /** Statuses that the client may see. */
  readonly statuses: readonly number[];
  /** Whether the client may take the answer for a complete one. */
  readonly complete: boolean;
  /** The body of a complete answer. */
  readonly body?: string;
}

const OK = "HTTP/1.1 200 OK\r\n";

/** Status lines that are none, or of no status that clients know. */
const LINES = [
  "HTTP/1.1 99 Low\r\n",
  "HTTP/1.1 000 Zero\r\n",
  "HTTP/1.1 999 High\r\n",
  "HTTP/1.1 600 High\r\n",
  "HTTP/1.1 2000 Long\r\n",
  "HTTP/1.1 20 Short\r\n",
  "HTTP/1.1 +200 OK\r\n",
  "HTTP/1.1 -200 OK\r\n",
  "HTTP/1.1 2xx OK\r\n",
  "HTTP/1.1\r\n",
  "HTTP/2 200 OK\r\n",
  "HTTP/0.9 200 OK\r\n",
  "HTTP/1.1  200 OK\r\n",
  "http/1.1 200 OK\r\n",
  "ICY 200 OK\r\n",
  "SSH-2.0-OpenSSH_9.9\r\n",
  "\0\0\0\0\r\n",
  "220 mail ESMTP\r\n",
];

const HEADERS = [
  "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok",
  "Content-Length: 2, 2\r\n\r\nok",
  "Content-Length: -2\r\n\r\nok",
  "Content-Length: +2\r\n\r\nok",
  "Content-Length: 2x\r\n\r\nok",
  "Content-Length: 99999999999999999999999\r\n\r\nok",
  "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
  "Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
  "Transfer-Encoding: chunked, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
  "Transfer-Encoding: xchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
  "Content-Length : 2\r\n\r\nok",
  " Content-Length: 2\r\n\r\nok",
  "X: y\r\n Content-Length: 2\r\n\r\nok",
  "X: \0\r\nContent-Length: 2\r\n\r\nok",
  "X: y\rZ: a\r\nContent-Length: 2\r\n\r\nok",
  "no colon\r\nContent-Length: 2\r\n\r\nok",
  ": no name\r\nContent-Length: 2\r\n\r\nok",
  "a name: x\r\nContent-Length: 2\r\n\r\nok",
  "X: \x1b[31m\r\nContent-Length: 2\r\n\r\nok",
];

const CHUNKS = [
  "z\r\nok\r\n0\r\n\r\n",
  "-2\r\nok\r\n0\r\n\r\n",
  "+2\r\nok\r\n0\r\n\r\n",
  "0x2\r\nok\r\n0\r\n\r\n",
  " 2\r\nok\r\n0\r\n\r\n",
  "2\r\nokXX\r\n0\r\n\r\n",
  "ffffffffffffffff\r\nok\r\n0\r\n\r\n",
  "\r\nok\r\n0\r\n\r\n",
  "2\r\nok\r\n0\r\nno colon\r\n\r\n",
  `2;${"x".repeat(20_000)}\r\nok\r\n0\r\n\r\n`,
];

const complete = (name: string, bytes: string, body: string, ending: AnswerCase["ending"] = "keep"): AnswerCase => ({
  name,
  bytes,
  ending,
  statuses: [200],
  complete: true,
  body,
});
const broken = (
  name: string,
  bytes: string,
  ending: AnswerCase["ending"],
  statuses: readonly number[] = [200],
): AnswerCase => ({
  name,
  bytes,
  ending,
  statuses,
  complete: false,
});

/** Answers of guests, from good ones over broken ones to none. A 502 stands for what is no answer. */
export const ANSWER_CASES: readonly AnswerCase[] = [
  ...LINES.flatMap((line): AnswerCase[] => [
    {
      name: JSON.stringify(line),
      bytes: `${line}Content-Length: 2\r\n\r\nok`,
      ending: "end",
      statuses: [502],
      complete: true,
    },
  ]),
  ...HEADERS.map((text): AnswerCase => ({
    name: JSON.stringify(text),
    bytes: OK + text,
    ending: "end",
    statuses: [502],
    complete: true,
  })),
  ...CHUNKS.map((text) =>
    broken(
      `chunks ${JSON.stringify(text.slice(0, 40))}`,
      `${OK}Transfer-Encoding: chunked\r\n\r\n${text}`,
      "keep",
      [0, 200, 502],
    ),
  ),
  ...(["end", "reset"] as const).flatMap((ending): AnswerCase[] => [
    { name: `nothing, then ${ending}`, bytes: "", ending, statuses: [502], complete: true },
    { name: `half a status line, then ${ending}`, bytes: "HTTP/1.1 20", ending, statuses: [502], complete: true },
    { name: `half a head, then ${ending}`, bytes: `${OK}Content-Le`, ending, statuses: [502], complete: true },
    {
      name: `a head without its end, then ${ending}`,
      bytes: `${OK}Content-Length: 2\r\n`,
      ending,
      statuses: [502],
      complete: true,
    },
    broken(`half a body, then ${ending}`, `${OK}Content-Length: 4\r\n\r\nok`, ending, [200, 502]),
    broken(`half a chunk, then ${ending}`, `${OK}Transfer-Encoding: chunked\r\n\r\n4\r\nok`, ending, [200, 502]),
    broken(`no last chunk, then ${ending}`, `${OK}Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n`, ending, [200, 502]),
    broken(
      `half a last chunk, then ${ending}`,
      `${OK}Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n`,
      ending,
      [200, 502],
    ),
  ]),
  broken("a body without a length that is reset", `${OK}X: y\r\n\r\nok`, "reset", [200, 502]),
  {
    name: "a switch nobody asked for",
    bytes: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nx",
    ending: "end",
    statuses: [502],
    complete: true,
  },
  {
    name: "a head of two megabytes",
    bytes: `${OK}X: ${"y".repeat(2 << 20)}\r\n\r\n`,
    ending: "end",
    statuses: [502],
    complete: true,
  },
  {
    name: "interim answers without end",
    bytes: "HTTP/1.1 102 Processing\r\n\r\n".repeat(100_000),
    ending: "end",
    statuses: [502],
    complete: true,
  },
  { name: "the start of HTTP/2", bytes: "\0\0\0\x04\0\0\0\0\0", ending: "end", statuses: [502], complete: true },
  complete("a length", `${OK}Content-Length: 2\r\n\r\nok`, "ok"),
  complete("chunks with extensions", `${OK}Transfer-Encoding: chunked\r\n\r\n2;a="b"\r\nok\r\n0;c\r\n\r\n`, "ok"),
  complete("no length", `${OK}X: y\r\n\r\nok`, "ok", "end"),
  complete("HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nok", "ok", "end"),
  complete("no reason", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", "ok"),
  complete(
    "interim answers in front",
    `HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n${OK}Content-Length: 2\r\n\r\nok`,
    "ok",
  ),
  complete(
    "bytes behind the end",
    `${OK}Content-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison`,
    "ok",
  ),
  complete("bytes behind the last chunk", `${OK}Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\npoison`, "ok"),
];
