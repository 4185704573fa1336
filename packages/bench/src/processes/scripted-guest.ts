import type { Socket } from "node:net";

const HEAD_END = "\r\n\r\n";
/** What a download is made of. */
const PIECE: Buffer = Buffer.alloc(256 * 1024, "0123456789abcdef");

/** The first line and what follows of a request that a guest serves. */
interface Head {
  readonly method: string;
  readonly path: string;
  readonly length: number;
  readonly close: boolean;
}

function parse(text: string): Head {
  const [method = "", path = ""] = text.slice(0, text.indexOf("\r\n")).split(" ");
  return {
    method,
    path,
    length: Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? 0),
    close: /\r\nconnection: *close/i.test(text),
  };
}

function answer(body: string, close: boolean): string {
  const connection = close ? "connection: close\r\n" : "";
  return `HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n${connection}content-length: ${body.length}\r\n\r\n${body}`;
}

/**
 * A server inside a sandbox that takes no time, on one connection: `/hello`, `/bytes/N` to read N bytes, any body to
 * write, and `/silent`, an answer that begins and then says nothing.
 */
export class ScriptedGuest {
  readonly #socket: Socket;
  #text = "";
  #left = 0;
  #close = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("error", () => socket.destroy());
    socket.on("end", () => socket.end());
    socket.on("data", (chunk: Buffer) => this.read(chunk));
  }

  read(chunk: Buffer): void {
    let at = 0;
    if (this.#left > 0) {
      at = Math.min(this.#left, chunk.length);
      this.#left -= at;
      if (this.#left > 0) {
        return;
      }
      this.#end(answer("stored", this.#close));
    }
    if (at === chunk.length) {
      return;
    }
    this.#text += chunk.toString("latin1", at);
    for (let end = this.#text.indexOf(HEAD_END); end >= 0; end = this.#text.indexOf(HEAD_END)) {
      const head = parse(this.#text.slice(0, end));
      const rest = this.#text.slice(end + HEAD_END.length);
      this.#text = rest.slice(head.length);
      this.#close = head.close;
      this.#left = Math.max(0, head.length - rest.length);
      if (this.#left > 0) {
        return;
      }
      this.#serve(head);
    }
  }

  #serve({ path, length, close }: Head): void {
    const bytes = /^\/bytes\/(\d+)$/.exec(path)?.[1];
    if (bytes !== undefined) {
      this.#send(Number(bytes), close);
    } else if (path === "/silent") {
      this.#socket.write(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
      );
    } else {
      this.#end(answer(length > 0 ? "stored" : "hello", close));
    }
  }

  #end(text: string): void {
    if (this.#close) {
      this.#socket.end(text, "latin1");
    } else {
      this.#socket.write(text, "latin1");
    }
  }

  #send(bytes: number, close: boolean): void {
    const socket = this.#socket;
    const connection = close ? "connection: close\r\n" : "";
    socket.write(`HTTP/1.1 200 OK\r\n${connection}content-length: ${bytes}\r\n\r\n`, "latin1");
    let left = bytes;
    const more = (): void => {
      while (left > 0 && !socket.destroyed) {
        const piece = left >= PIECE.length ? PIECE : PIECE.subarray(0, left);
        left -= piece.length;
        if (!socket.write(piece) && left > 0) {
          socket.once("drain", more);
          return;
        }
      }
      if (close) {
        socket.end();
      }
    };
    more();
  }
}
