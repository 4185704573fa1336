import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { connect as connectTls, type TLSSocket } from "node:tls";

/** An answer as it came over the wire. */
export interface RawAnswer {
  readonly status: number;
  /** Names in lower case; of several, the last. */
  readonly headers: ReadonlyMap<string, string>;
  readonly head: string;
  readonly body: Buffer;
  /** Whether its own framing says that all of it is there. */
  readonly complete: boolean;
}

/** What became of a connection. */
export interface Talk {
  readonly bytes: Buffer;
  /** How the other side ended it; `open` when it did not. */
  readonly end: "fin" | "reset" | "open";
  readonly ms: number;
}

/** Choices of {@link talk}. */
export interface TalkChoices {
  readonly host?: string;
  /** Opens the connection. @default {@link open} */
  readonly via?: (port: number, host?: string) => Promise<Socket>;
  /** After the last piece. @default "wait" */
  readonly ending?: "wait" | "fin" | "reset";
  /** Pause between pieces in milliseconds. 0 still sends each in a packet of its own. @default 0 */
  readonly pauseMs?: number;
  /** When to stop although the connection is open. */
  readonly enough?: (bytes: Buffer) => boolean;
  /** How long to go on listening once there is enough. @default 0 */
  readonly lingerMs?: number;
  /** @default 8000 */
  readonly limitMs?: number;
}

/** Opens a connection on which each write is a packet. */
export async function open(port: number, host = "127.0.0.1"): Promise<Socket> {
  const socket = connect({ port, host, noDelay: true, allowHalfOpen: true });
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  socket.on("error", () => undefined);
  return socket;
}

/** Opens a connection over TLS for HTTP/1.1. Whose certificate it is does not matter here. */
export async function openTls(port: number, host = "127.0.0.1"): Promise<TLSSocket> {
  const socket = connectTls({ socket: await open(port, host), ALPNProtocols: ["http/1.1"], rejectUnauthorized: false });
  await new Promise<void>((resolve, reject) => {
    socket.once("secureConnect", resolve);
    socket.once("error", reject);
  });
  socket.on("error", () => undefined);
  return socket;
}

/** Sends pieces over a connection of its own and reads until it ends, or there is enough, or time is up. */
export async function talk(port: number, pieces: readonly Buffer[], choices: TalkChoices = {}): Promise<Talk> {
  const { ending = "wait", pauseMs = 0, enough, lingerMs = 0, limitMs = 8_000, via = open } = choices;
  const begun = performance.now();
  const socket = await via(port, choices.host);
  const chunks: Buffer[] = [];
  const { promise: over, resolve } = Promise.withResolvers<Talk["end"]>();
  let linger: NodeJS.Timeout | undefined;
  socket.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    if (linger === undefined && enough?.(Buffer.concat(chunks)) === true) {
      linger = setTimeout(() => resolve("open"), lingerMs);
    }
  });
  socket.once("end", () => resolve("fin"));
  socket.once("error", () => resolve("reset"));
  socket.once("close", () => resolve("reset"));
  const timer = setTimeout(() => resolve("open"), limitMs);
  let ended: Talk["end"] | undefined;
  void over.then((end) => (ended = end));
  for (const [index, piece] of pieces.entries()) {
    if (index > 0) {
      await (pauseMs > 0 ? delay(pauseMs) : new Promise<void>((next) => setImmediate(next)));
    }
    if (ended !== undefined || socket.destroyed) {
      break;
    }
    socket.write(piece);
  }
  if (ending === "fin") {
    socket.end();
  } else if (ending === "reset") {
    // What was written must leave first.
    await delay(2);
    socket.resetAndDestroy();
  }
  const end = await over;
  clearTimeout(timer);
  clearTimeout(linger);
  socket.destroy();
  return { bytes: Buffer.concat(chunks), end, ms: performance.now() - begun };
}

/** Takes a stream of answers apart. The last one is incomplete when the bytes end before it does. */
export function answersIn(bytes: Buffer, ended = true, method = "GET"): RawAnswer[] {
  const answers: RawAnswer[] = [];
  let at = 0;
  while (at < bytes.length) {
    const blank = bytes.indexOf("\r\n\r\n", at);
    if (blank < 0) {
      answers.push({
        status: 0,
        headers: new Map(),
        head: bytes.toString("latin1", at),
        body: Buffer.alloc(0),
        complete: false,
      });
      break;
    }
    const head = bytes.toString("latin1", at, blank);
    const status = Number(/^HTTP\/1\.1 ([1-9]\d{2}) /.exec(head)?.[1] ?? 0);
    const headers = new Map<string, string>();
    for (const line of head.split("\r\n").slice(1)) {
      const colon = line.indexOf(":");
      headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
    }
    at = blank + 4;
    const bodiless = status < 200 || status === 204 || status === 304 || method === "HEAD";
    if (status === 101) {
      answers.push({ status, headers, head, body: bytes.subarray(at), complete: true });
      break;
    }
    const length = headers.get("content-length");
    let body: Buffer = Buffer.alloc(0);
    let complete = true;
    if (bodiless) {
      // The head is all there is.
    } else if (headers.get("transfer-encoding") === "chunked") {
      ({ body, complete, at } = chunked(bytes, at));
    } else if (length === undefined) {
      body = bytes.subarray(at);
      complete = ended;
      at = bytes.length;
    } else {
      body = bytes.subarray(at, at + Number(length));
      complete = body.length === Number(length);
      at += body.length;
    }
    if (status >= 200) {
      answers.push({ status, headers, head, body, complete });
    }
  }
  return answers;
}

function chunked(bytes: Buffer, from: number): { body: Buffer; complete: boolean; at: number } {
  const parts: Buffer[] = [];
  let at = from;
  for (;;) {
    const line = bytes.indexOf("\r\n", at);
    const size = line < 0 ? -1 : Number.parseInt(bytes.toString("latin1", at, line), 16);
    if (size === 0) {
      // Trailers end with a blank line.
      const end = bytes.indexOf("\r\n\r\n", line);
      return { body: Buffer.concat(parts), complete: end >= 0, at: end < 0 ? bytes.length : end + 4 };
    }
    if (size < 0 || bytes.length < line + 2 + size + 2) {
      if (line >= 0) {
        parts.push(bytes.subarray(line + 2, line + 2 + Math.max(0, size)));
      }
      return { body: Buffer.concat(parts), complete: false, at: bytes.length };
    }
    parts.push(bytes.subarray(line + 2, line + 2 + size));
    at = line + 2 + size + 2;
  }
}

/** Stops a {@link talk} once so many answers are complete. */
export function answered(count = 1): (bytes: Buffer) => boolean {
  return (bytes) => answersIn(bytes, false).filter((answer) => answer.complete).length >= count;
}

/** Every byte in a piece of its own. */
export function bytewise(bytes: Buffer): Buffer[] {
  return Array.from(bytes, (_byte, index) => bytes.subarray(index, index + 1));
}

/** Runs work for each item, so many at a time. Ends at the first failure. */
export async function each<T>(items: Iterable<T>, atOnce: number, work: (item: T) => Promise<void>): Promise<void> {
  const iterator = items[Symbol.iterator]();
  let failed = false;
  const worker = async (): Promise<void> => {
    for (let next = iterator.next(); next.done !== true && !failed; next = iterator.next()) {
      try {
        await work(next.value);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

/** The numbers from 0. */
export function* upTo(count: number): Generator<number> {
  for (let index = 0; index < count; index += 1) {
    yield index;
  }
}
