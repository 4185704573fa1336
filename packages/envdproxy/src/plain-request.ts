import { pushField } from "./field-line.ts";
import type { Framing } from "./forward-headers.ts";

/** A request that is all there, with nothing behind it, and leaves nothing to be interpreted. */
export interface PlainRequest {
  readonly method: string;
  readonly target: string;
  readonly authority: string;
  readonly headers: readonly string[];
  readonly framing: Framing;
  readonly body: Buffer;
}

const HEAD_END: Buffer = Buffer.from("\r\n\r\n");
const REQUEST_LINE = /^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) (\/[\x21-\x7e]*) HTTP\/1\.1$/;
/** As whoever counts bytes writes it. */
const LENGTH = /^(?:0|[1-9][0-9]{0,8})$/;
const NO_BODY: Framing = { kind: "none" };

/**
 * Reads the request that `bytes` are, if it is of the form that clients use for nearly all of theirs: HTTP/1.1, complete
 * with its body, lines that end in CRLF, one host, at most one length, no transfer encoding, no expectation, no
 * other protocol, a connection that stays. `undefined` for everything else, valid or not: that takes a parser which
 * knows all of HTTP/1.
 */
export function readPlainRequest(bytes: Buffer): PlainRequest | undefined {
  const headEnd = bytes.indexOf(HEAD_END);
  if (headEnd < 0) {
    return undefined;
  }
  const text = bytes.toString("latin1", 0, headEnd);
  let lineEnd = text.indexOf("\r\n");
  const line = REQUEST_LINE.exec(lineEnd < 0 ? text : text.slice(0, lineEnd));
  if (line === null) {
    return undefined;
  }
  const headers: string[] = [];
  while (lineEnd >= 0) {
    const from = lineEnd + 2;
    lineEnd = text.indexOf("\r\n", from);
    if (!pushField(headers, text.slice(from, lineEnd < 0 ? text.length : lineEnd))) {
      return undefined;
    }
  }
  const told = readTold(headers);
  const body = bytes.subarray(headEnd + HEAD_END.length);
  if (told === undefined || body.length !== Number(told.length ?? 0)) {
    return undefined;
  }
  const framing: Framing = told.length === undefined ? NO_BODY : { kind: "length", length: told.length };
  return { method: line[1] ?? "", target: line[2] ?? "", authority: told.host, headers, framing, body };
}

/** Host and length, if no field asks for more than that. */
function readTold(
  headers: readonly string[],
): { readonly host: string; readonly length: string | undefined } | undefined {
  let host: string | undefined;
  let length: string | undefined;
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] ?? "";
    const value = headers[i + 1] ?? "";
    // Few fields have these lengths: the others are not looked at any closer.
    switch (name.length) {
      case 4:
        if (name.toLowerCase() === "host") {
          if (host !== undefined) {
            return undefined;
          }
          host = value;
        }
        break;
      case 6:
        if (name.toLowerCase() === "expect") {
          return undefined;
        }
        break;
      case 7:
        if (name.toLowerCase() === "upgrade") {
          return undefined;
        }
        break;
      case 10:
        if (name.toLowerCase() === "connection" && value.toLowerCase() !== "keep-alive") {
          return undefined;
        }
        break;
      case 14:
        if (name.toLowerCase() === "content-length") {
          if (length !== undefined || !LENGTH.test(value)) {
            return undefined;
          }
          length = value;
        }
        break;
      case 16:
        // Old clients say it to proxies, and Node's parser minds it.
        if (name.toLowerCase() === "proxy-connection" && value.toLowerCase() !== "keep-alive") {
          return undefined;
        }
        break;
      case 17:
        if (name.toLowerCase() === "transfer-encoding") {
          return undefined;
        }
        break;
      default:
    }
  }
  return host === undefined ? undefined : { host, length };
}
