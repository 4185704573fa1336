/** What a case is aimed at: one call of a surface that takes a body, and a second one that must never be carried out. */
export interface Ground {
  readonly host: string;
  readonly target: string;
  /** Header lines that let a request in, each with its line end. */
  readonly auth: string;
  readonly body: string;
  /** Status of the call when nothing is wrong. */
  readonly ok: number;
  /** A whole request. */
  readonly smuggled: string;
}

/** A request that two readers could understand in two ways, or nobody at all. */
export interface RequestCase {
  readonly name: string;
  /** Bytes as latin1. */
  readonly bytes: (ground: Ground) => string;
  /** Statuses of the first answer; `ok` is that of the call, 0 stands for none. */
  readonly statuses: readonly ("ok" | number)[];
  /**
   * What the application may see of it: nothing at all, a request that never ends, or one whole request with the body of
   * the call, with another one, or without.
   */
  readonly sees: "nothing" | "a part" | "the body" | "no body" | "anything whole";
  /** Statuses of the one answer behind it. @default there is none */
  readonly behind?: readonly number[];
}

const post = (ground: Ground, headers: string, rest = "", line = `POST ${ground.target} HTTP/1.1`): string =>
  `${line}\r\nHost: ${ground.host}\r\n${ground.auth}${headers}\r\n${rest}`;
const chunk = (text: string, size = text.length.toString(16)): string => `${size}\r\n${text}\r\n`;
const END = "0\r\n\r\n";

/** A request with these framing headers, a chunked body, and another request behind it. */
const framed =
  (headers: (length: number) => string) =>
  (ground: Ground): string =>
    post(ground, headers(ground.body.length), `${chunk(ground.body)}${END}${ground.smuggled}`);

/** A request with this length, and another request behind its body. */
const sized =
  (length: (length: number) => string) =>
  (ground: Ground): string =>
    post(ground, length(ground.body.length), `${ground.body}${ground.smuggled}`);

/** A chunked body that is written like this, and another request behind it. */
const body =
  (write: (body: string) => string) =>
  (ground: Ground): string =>
    post(ground, "Transfer-Encoding: chunked\r\n", `${write(ground.body)}${ground.smuggled}`);

const hex = (text: string): string => text.length.toString(16);

/** Framing that is ambiguous. Nothing of these may reach the application. */
const FRAMINGS: readonly (readonly [
  name: string,
  headers: (length: number) => string,
  statuses?: readonly number[],
])[] = [
  ["a length and chunked", (n) => `Content-Length: ${n}\r\nTransfer-Encoding: chunked\r\n`],
  ["chunked and a length", (n) => `Transfer-Encoding: chunked\r\nContent-Length: ${n}\r\n`],
  ["chunked and a length of 0", () => "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n"],
  ["chunked twice", () => "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", [400, 501]],
  ["chunked in a list twice", () => "Transfer-Encoding: chunked, chunked\r\n", [400, 501]],
  ["chunked behind gzip", () => "Transfer-Encoding: gzip, chunked\r\n", [400, 501]],
  ["gzip behind chunked", () => "Transfer-Encoding: chunked, gzip\r\n", [400, 501]],
  ["chunked and identity", () => "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", [400, 501]],
  ["identity and chunked", () => "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", [400, 501]],
  ["an unknown coding", () => "Transfer-Encoding: xchunked\r\n", [400, 501]],
  ["a coding with a parameter", () => "Transfer-Encoding: chunked;q=1\r\n", [400, 501]],
  ["an empty coding", () => "Transfer-Encoding:\r\n", [400, 501]],
  ["a quoted coding", () => 'Transfer-Encoding: "chunked"\r\n', [400, 501]],
  ["a coding with a vertical tab", () => "Transfer-Encoding: \x0bchunked\r\n", [400, 501]],
  ["a coding with a NUL", () => "Transfer-Encoding: chunked\0\r\n"],
  ["a coding in a second list", () => "Transfer-Encoding: ,chunked\r\n", [400, 501]],
  ["a blank before the colon", () => "Transfer-Encoding : chunked\r\n"],
  ["a tab before the colon", () => "Transfer-Encoding\t: chunked\r\n"],
  ["a NUL in the name", () => "Transfer-Encoding\0: chunked\r\n"],
  ["a blank in front of the name", () => " Transfer-Encoding: chunked\r\n"],
  ["a folded coding", () => "Transfer-Encoding:\r\n chunked\r\n"],
  ["a coding hidden in a fold", () => "X: y\r\n Transfer-Encoding: chunked\r\n"],
  ["a coding behind a bare CR", () => "X: y\rTransfer-Encoding: chunked\r\n"],
  ["a coding behind a bare LF", () => "X: y\nTransfer-Encoding: chunked\r\n"],
  ["a coding in front of a bare LF", () => "Transfer-Encoding: chunked\nX: y\r\n"],
  ["a line without a colon", () => "Transfer-Encoding chunked\r\n"],
];

/** Lengths of all kinds. */
const LENGTHS: readonly (readonly [name: string, headers: (length: number) => string, good?: boolean])[] = [
  ["two lengths that differ", (n) => `Content-Length: ${n}\r\nContent-Length: ${n + 9}\r\n`],
  ["two lengths that agree", (n) => `Content-Length: ${n}\r\nContent-Length: ${n}\r\n`],
  ["a list of lengths", (n) => `Content-Length: ${n}, ${n}\r\n`],
  ["a positive sign", (n) => `Content-Length: +${n}\r\n`],
  ["a negative length", () => "Content-Length: -1\r\n"],
  ["a hexadecimal length", (n) => `Content-Length: 0x${n.toString(16)}\r\n`],
  ["a length with a fraction", (n) => `Content-Length: ${n}.0\r\n`],
  ["a length with an exponent", () => "Content-Length: 1e1\r\n"],
  ["a length with a blank inside", (n) => `Content-Length: ${n} ${n}\r\n`],
  ["a length with a letter", (n) => `Content-Length: ${n}a\r\n`],
  ["a length with an underscore", (n) => `Content-Length: 0_${n}\r\n`],
  ["a length with a NUL", (n) => `Content-Length: ${n}\0\r\n`],
  ["a quoted length", (n) => `Content-Length: "${n}"\r\n`],
  ["an empty length", () => "Content-Length:\r\n"],
  ["a length beyond 64 bits", (n) => `Content-Length: ${2n ** 64n + BigInt(n)}\r\n`],
  ["a length of forty digits", () => `Content-Length: ${"9".repeat(40)}\r\n`],
  ["a blank before the length's colon", (n) => `Content-Length : ${n}\r\n`],
  ["a folded length", (n) => `Content-Length:\r\n ${n}\r\n`],
  ["a length behind a bare CR", (n) => `X: y\rContent-Length: ${n}\r\n`],
  ["a length behind a bare LF", (n) => `X: y\nContent-Length: ${n}\r\n`],
  ["a length with blanks around it", (n) => `Content-Length:  \t ${n} \t \r\n`, true],
];

/** Chunked bodies of all kinds. */
const BODIES: readonly (readonly [name: string, write: (text: string) => string, sees?: RequestCase["sees"]])[] = [
  ["a chunk with a positive sign", (text) => chunk(text, `+${hex(text)}`) + END],
  ["a chunk with a negative size", (text) => chunk(text, `-${hex(text)}`) + END],
  ["a chunk with 0x", (text) => chunk(text, `0x${hex(text)}`) + END],
  ["a blank in front of a size", (text) => chunk(text, ` ${hex(text)}`) + END],
  ["a size with an underscore", (text) => chunk(text, `0_${hex(text)}`) + END],
  ["a size that is no number", (text) => chunk(text, "z") + END],
  ["an empty size", (text) => chunk(text, "") + END],
  ["a size beyond 64 bits", (text) => chunk(text, `1000000000000000${hex(text)}`) + END],
  ["a size line that ends in a bare LF", (text) => `${hex(text)}\n${text}\r\n${END}`],
  ["a size line that ends in a bare CR", (text) => `${hex(text)}\r${text}\r\n${END}`],
  ["a chunk that ends in a bare LF", (text) => `${hex(text)}\r\n${text}\n${END}`],
  ["a chunk without an end", (text) => `${hex(text)}\r\n${text}${END}`],
  ["a chunk that is longer than it says", (text) => `${hex(text)}\r\n${text}XY\r\n${END}`],
  ["an extension with a bare LF", (text) => `${hex(text)};a\nb\r\n${text}\r\n${END}`],
  ["an extension with a bare CR", (text) => `${hex(text)};a\rb\r\n${text}\r\n${END}`],
  ["an extension with a NUL", (text) => `${hex(text)};a\0\r\n${text}\r\n${END}`],
  ["extensions without end", (text) => `${hex(text)};a=${"b".repeat(60_000)}\r\n${text}\r\n${END}`],
  ["a last chunk with an extension with a bare LF", (text) => `${chunk(text)}0;\n\r\n\r\n`],
  ["a trailer with a blank before the colon", (text) => `${chunk(text)}0\r\nX : y\r\n\r\n`],
  ["a trailer with a bare LF", (text) => `${chunk(text)}0\r\nX: y\nZ: a\r\n\r\n`],
  ["an end with a bare LF", (text) => `${chunk(text)}0\n\n`],
  ["an end with a bare CR", (text) => `${chunk(text)}0\r\r\n`],
];

/** Requests whose first line or host is odd. */
const HEADS: readonly RequestCase[] = [
  {
    name: "two hosts",
    bytes: (g) => post(g, `Host: ${g.host}\r\nContent-Length: 0\r\n`),
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "two hosts that differ",
    bytes: (g) => post(g, "host: elsewhere.example.test\r\nContent-Length: 0\r\n"),
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "a list of hosts",
    bytes: (g) => post({ ...g, host: `${g.host}, ${g.host}` }, "Content-Length: 0\r\n"),
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "a host with a path",
    bytes: (g) => post({ ...g, host: `${g.host}/x` }, "Content-Length: 0\r\n"),
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "a folded host",
    bytes: (g) => post({ ...g, host: `\r\n ${g.host}` }, "Content-Length: 0\r\n"),
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "a target with a blank",
    bytes: (g) => post(g, "Content-Length: 0\r\n", "", `POST ${g.target} x HTTP/1.1`),
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "a target with a tab",
    bytes: (g) => post(g, "Content-Length: 0\r\n", "", `POST ${g.target}\tx HTTP/1.1`),
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "a target with a NUL",
    bytes: (g) => post(g, "Content-Length: 0\r\n", "", `POST ${g.target}\0 HTTP/1.1`),
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "a target with a bare CR",
    bytes: (g) => post(g, "Content-Length: 0\r\n", "", `POST ${g.target}\rx HTTP/1.1`),
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "no target",
    bytes: (g) => post(g, "Content-Length: 0\r\n", "", "POST HTTP/1.1"),
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "a target that is a word",
    bytes: (g) => post(g, "Content-Length: 0\r\n", "", `POST ${g.target.slice(1)} HTTP/1.1`),
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "an absolute target of another scheme",
    bytes: (g) => post(g, "Content-Length: 0\r\n", "", `POST ftp://${g.host}${g.target} HTTP/1.1`),
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "an asterisk with POST",
    bytes: (g) => post(g, "Content-Length: 0\r\n", "", "POST * HTTP/1.1"),
    statuses: [400, 404],
    sees: "nothing",
  },
  {
    name: "CONNECT",
    bytes: (g) => post(g, "", g.smuggled, `CONNECT ${g.host}:443 HTTP/1.1`),
    statuses: [400, 405],
    sees: "nothing",
  },
  {
    name: "an unknown method",
    bytes: (g) => post(g, "Content-Length: 0\r\n", "", `SMUGGLE ${g.target} HTTP/1.1`),
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "a method in lower case",
    bytes: (g) => post(g, "Content-Length: 0\r\n", "", `post ${g.target} HTTP/1.1`),
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "HTTP/0.9",
    bytes: (g) => `GET ${g.target}\r\n\r\n`,
    statuses: [0, 400],
    sees: "nothing",
  },
  {
    name: "HTTP/1.2",
    bytes: (g) => post(g, "Content-Length: 0\r\n", "", `POST ${g.target} HTTP/1.2`),
    statuses: [400, 505],
    sees: "nothing",
  },
  {
    name: "HTTP/2.0 on a plain line",
    bytes: (g) => post(g, "Content-Length: 0\r\n", "", `POST ${g.target} HTTP/2.0`),
    statuses: [400, 505],
    sees: "nothing",
  },
  {
    name: "HTTP/1.1 with another name",
    bytes: (g) => post(g, "Content-Length: 0\r\n", "", `POST ${g.target} HTTQ/1.1`),
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "the start of HTTP/2 that goes on otherwise",
    bytes: () => "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
    statuses: [0, 400],
    sees: "nothing",
  },
  {
    name: "a TLS handshake",
    bytes: () => "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    statuses: [0, 400],
    sees: "nothing",
  },
  {
    name: "nothing but zeros",
    bytes: () => "\0".repeat(4_096),
    statuses: [0, 400],
    sees: "nothing",
  },
  {
    name: "a head of two megabytes",
    bytes: (g) => post(g, `X: ${"y".repeat(2 << 20)}\r\n`),
    statuses: [431],
    sees: "nothing",
  },
  {
    name: "a name of two megabytes",
    bytes: (g) => post(g, `${"y".repeat(2 << 20)}: x\r\n`),
    statuses: [431],
    sees: "nothing",
  },
  {
    name: "a target of two megabytes",
    bytes: (g) => post(g, "", "", `POST ${g.target}?${"y".repeat(2 << 20)} HTTP/1.1`),
    statuses: [431],
    sees: "nothing",
  },
  {
    name: "an unknown expectation",
    bytes: (g) => post(g, "Expect: miracles\r\nContent-Length: 0\r\n"),
    statuses: [417],
    sees: "nothing",
  },
  {
    name: "a head with a bare LF at its end",
    bytes: (g) => `POST ${g.target} HTTP/1.1\r\nHost: ${g.host}\r\n${g.auth}Content-Length: 0\r\n\n`,
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "a head with bare LFs only",
    bytes: (g) => post(g, "Content-Length: 0\r\n").replaceAll("\r\n", "\n"),
    statuses: [400],
    sees: "nothing",
  },
  {
    name: "chunked in HTTP/1.0",
    bytes: (g) =>
      post(
        g,
        "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n",
        `${chunk(g.body)}${END}${g.smuggled}`,
        `POST ${g.target} HTTP/1.0`,
      ),
    statuses: ["ok", 400, 501],
    sees: "anything whole",
  },
];

/** What is odd and good: it must come through as what it is. */
const GOOD: readonly RequestCase[] = [
  {
    name: "an ordinary request",
    bytes: (g) => post(g, `Connection: close\r\nContent-Length: ${g.body.length}\r\n`, g.body),
    statuses: ["ok"],
    sees: "the body",
  },
  {
    name: "an ordinary chunked request",
    bytes: (g) => post(g, "Connection: close\r\nTransfer-Encoding: chunked\r\n", chunk(g.body) + END),
    statuses: ["ok"],
    sees: "the body",
  },
  {
    name: "a coding in capitals, with blanks around it",
    bytes: (g) => post(g, "Connection: close\r\nTransfer-Encoding: \t CHUNKED \t\r\n", chunk(g.body) + END),
    statuses: ["ok", 400],
    sees: "the body",
  },
  {
    name: "a size with zeros in front, in capitals",
    bytes: (g) =>
      post(
        g,
        "Connection: close\r\nTransfer-Encoding: chunked\r\n",
        chunk(g.body, `000${hex(g.body).toUpperCase()}`) + END,
      ),
    statuses: ["ok"],
    sees: "the body",
  },
  {
    name: "chunk extensions",
    bytes: (g) =>
      post(
        g,
        "Connection: close\r\nTransfer-Encoding: chunked\r\n",
        `${chunk(g.body, `${hex(g.body)};a=b;c="d e";f`)}0;last\r\n\r\n`,
      ),
    statuses: ["ok"],
    sees: "the body",
  },
  {
    name: "one byte in each chunk",
    bytes: (g) =>
      post(
        g,
        "Connection: close\r\nTransfer-Encoding: chunked\r\n",
        g.body
          .split("")
          .map((byte) => chunk(byte))
          .join("") + END,
      ),
    statuses: ["ok"],
    sees: "the body",
  },
  {
    name: "trailers",
    bytes: (g) =>
      post(
        g,
        "Connection: close\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n",
        `${chunk(g.body)}0\r\nX-Sum: 1\r\n\r\n`,
      ),
    statuses: ["ok"],
    sees: "the body",
  },
  {
    name: "trailers that would frame or route the request",
    bytes: (g) =>
      post(
        g,
        "Connection: close\r\nTransfer-Encoding: chunked\r\n",
        `${chunk(g.body)}0\r\nHost: x\r\nTransfer-Encoding: gzip\r\nE2b-Sandbox-Id: x\r\n\r\n`,
      ),
    statuses: [400],
    sees: "a part",
  },
  {
    name: "names with an underscore, which are other names",
    bytes: (g) =>
      post(
        g,
        `Connection: close\r\nTransfer_Encoding: chunked\r\nContent_Length: 1\r\nContent-Length: ${g.body.length}\r\n`,
        g.body,
      ),
    statuses: ["ok"],
    sees: "the body",
  },
  {
    name: "empty lines in front",
    bytes: (g) => `\r\n\r\n${post(g, `Connection: close\r\nContent-Length: ${g.body.length}\r\n`, g.body)}`,
    statuses: ["ok"],
    sees: "the body",
  },
  {
    name: "an absolute target",
    bytes: (g) =>
      post(
        { ...g, host: g.host },
        `Connection: close\r\nContent-Length: ${g.body.length}\r\n`,
        g.body,
        `POST http://${g.host}${g.target} HTTP/1.1`,
      ),
    statuses: ["ok"],
    sees: "the body",
  },
  {
    name: "a length named by Connection",
    bytes: (g) => post(g, `Connection: close, content-length\r\nContent-Length: ${g.body.length}\r\n`, g.body),
    statuses: ["ok", 400],
    sees: "the body",
  },
  {
    name: "a coding named by Connection",
    bytes: (g) =>
      post(g, "Connection: close, transfer-encoding\r\nTransfer-Encoding: chunked\r\n", chunk(g.body) + END),
    statuses: ["ok", 400],
    sees: "the body",
  },
  {
    name: "a host named by Connection",
    bytes: (g) => post(g, `Connection: close, host\r\nContent-Length: ${g.body.length}\r\n`, g.body),
    statuses: ["ok", 400],
    sees: "the body",
  },
  {
    name: "an upgrade to h2c with a body, and nothing behind it",
    bytes: (g) =>
      post(
        g,
        `Connection: close, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nContent-Length: ${g.body.length}\r\n`,
        g.body,
      ),
    statuses: ["ok"],
    sees: "the body",
  },
  {
    name: "an upgrade to WebSocket with a body",
    bytes: (g) =>
      post(g, `Connection: close, Upgrade\r\nUpgrade: websocket\r\nContent-Length: ${g.body.length}\r\n`, g.body),
    statuses: ["ok", 400],
    sees: "the body",
  },
];

/**
 * Requests that are well, with something behind them that is none of theirs. They are carried out, so each has its own
 * answer; what stands behind has one only where the connection was to go on.
 */
const BEHIND: readonly (readonly [name: string, behind: (ground: Ground) => string, statuses: readonly number[]])[] = [
  ["another request", (g) => g.smuggled, []],
  ["no HTTP", () => "\0\x01\x02\r\n\r\n", [400]],
  ["a version that there is not", (g) => g.smuggled.replace("HTTP/1.1", "HTTQ/1.1"), [400]],
  [
    "a body that breaks",
    (g) => post({ ...g, target: "/broken" }, "Transfer-Encoding: chunked\r\n", "zz\r\n"),
    [400, 404],
  ],
  ["a head of two megabytes", (g) => `GET /${"x".repeat(2 << 20)} HTTP/1.1\r\nHost: ${g.host}\r\n\r\n`, [431]],
];

const LAST: readonly RequestCase[] = BEHIND.flatMap(([name, behind, statuses]) => [
  ...["HTTP/1.1", "HTTP/1.0"].map((version): RequestCase => ({
    name: `${name} behind a closing request of ${version}`,
    bytes: (g) =>
      post(
        g,
        `Connection: close\r\nContent-Length: ${g.body.length}\r\n`,
        `${g.body}${behind(g)}`,
        `POST ${g.target} ${version}`,
      ),
    statuses: ["ok"],
    sees: "the body",
  })),
  ...(statuses.length === 0
    ? []
    : [
        {
          name: `${name} behind a request`,
          bytes: (g) => post(g, `Content-Length: ${g.body.length}\r\n`, `${g.body}${behind(g)}`),
          statuses: ["ok"],
          behind: statuses,
          sees: "the body",
        } satisfies RequestCase,
      ]),
]);

/** Every case of one request over HTTP/1. */
export const REQUEST_CASES: readonly RequestCase[] = [
  ...FRAMINGS.map(([name, headers, statuses = [400]]): RequestCase => ({
    name,
    bytes: framed(headers),
    statuses,
    sees: "nothing",
  })),
  ...LENGTHS.map(([name, headers, good = false]): RequestCase => ({
    name,
    bytes: good ? sized((n) => `Connection: close\r\n${headers(n)}`) : sized(headers),
    statuses: good ? ["ok"] : [400],
    sees: good ? "the body" : "nothing",
  })),
  ...BODIES.map(([name, write, sees = "a part"]): RequestCase => ({
    name,
    bytes: body(write),
    statuses: [0, 400, 413],
    sees,
  })),
  ...HEADS,
  ...GOOD,
  ...LAST,
];
