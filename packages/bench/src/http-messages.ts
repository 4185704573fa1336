/** One message of HTTP/1.1 with a body of known length, or none. */
export interface Message {
  /** First line and header lines. */
  readonly head: string;
  readonly body: string;
}

const HEAD_END = "\r\n\r\n";

/**
 * Cuts a connection's bytes into messages. It knows what the benchmark's own peers send and nothing more: a light peer
 * leaves the processors to what is measured.
 */
export class MessageReader {
  #rest = "";

  /**
   * The messages that are complete with this chunk.
   * @throws Error for a body without a length
   */
  read(chunk: Buffer): Message[] {
    // One character per byte, so that lengths in bytes are lengths of text.
    this.#rest += chunk.toString("latin1");
    const messages: Message[] = [];
    for (;;) {
      const end = this.#rest.indexOf(HEAD_END);
      if (end < 0) {
        return messages;
      }
      const head = this.#rest.slice(0, end);
      const from = end + HEAD_END.length;
      const until = from + bodyLength(head);
      if (this.#rest.length < until) {
        return messages;
      }
      messages.push({ head, body: this.#rest.slice(from, until) });
      this.#rest = this.#rest.slice(until);
    }
  }
}

function bodyLength(head: string): number {
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length === undefined && /\r\ntransfer-encoding:/i.test(head)) {
    throw new Error("the peer sends a body without a length");
  }
  return length === undefined ? 0 : Number(length);
}

/** A request as text. */
export function requestText(
  method: string,
  path: string,
  options: { readonly headers?: Readonly<Record<string, string>>; readonly body?: object | undefined } = {},
): string {
  const body = options.body === undefined ? "" : JSON.stringify(options.body);
  const headers = {
    host: "localhost",
    ...options.headers,
    ...(options.body === undefined
      ? {}
      : { "content-type": "application/json", "content-length": String(Buffer.byteLength(body)) }),
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n${body}`;
}
