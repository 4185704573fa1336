import type { Socket } from "node:net";
import type { NodeAddress } from "./address.ts";
import { errorText, SandboxdError, statusError, type SandboxdErrorCode } from "./errors.ts";
import { connectedEvent, openSocket } from "./open-socket.ts";
import type { ReplyBuffer } from "./reply-buffer.ts";
import { ReplyError, ReplyParser } from "./reply-parser.ts";

/** One GET of a poll. */
export interface PollRequest {
  readonly path: string;
  readonly authorization: string | undefined;
  readonly label: string;
  readonly timeoutMs: number;
  readonly into: ReplyBuffer;
  readonly signal?: AbortSignal | undefined;
}

/** What all poll connections of a pool share. */
export interface PollSettings {
  readonly connectTimeoutMs: number;
  readonly keepAliveMs: number;
  readonly ca: string | undefined;
  /** Memory that incoming bytes pass through: they are copied to their reply at once, so one is enough for all. */
  readonly scratch: Buffer;
}

/** Poll connections that nobody uses now, by origin. */
export class PollConnections {
  readonly #settings: PollSettings;
  readonly #idle = new Map<string, PollConnection[]>();
  readonly #all = new Set<PollConnection>();
  #closed = false;

  constructor(settings: Omit<PollSettings, "scratch">) {
    this.#settings = { ...settings, scratch: Buffer.allocUnsafeSlow(64 * 1024) };
  }

  /**
   * Sends a GET on an idle connection or a new one. Nodes close idle connections when they like: a GET that meets such
   * a close is sent once more.
   * @throws SandboxdError
   */
  async get(address: NodeAddress, request: PollRequest): Promise<Buffer> {
    if (this.#closed) {
      throw new SandboxdError("unreachable", `${request.label}: the pool is closed`, { delivery: "no" });
    }
    const kept = this.#takeIdle(address.origin);
    if (kept === undefined) {
      return this.#use(address, this.#open(address), request);
    }
    const began = performance.now();
    try {
      return await this.#use(address, kept, request);
    } catch (error) {
      if (kept.heard || !(error instanceof SandboxdError) || error.code !== "connection_lost" || this.#closed) {
        throw error;
      }
    }
    const timeoutMs = Math.max(1, request.timeoutMs - (performance.now() - began));
    return this.#use(address, this.#open(address), { ...request, timeoutMs });
  }

  /** One that was closed just now is still in the list: it leaves it when its socket reports the close. */
  #takeIdle(origin: string): PollConnection | undefined {
    const list = this.#idle.get(origin);
    let taken = list?.pop();
    while (taken !== undefined && !taken.usable) {
      taken = list?.pop();
    }
    return taken;
  }

  async #use(address: NodeAddress, connection: PollConnection, request: PollRequest): Promise<Buffer> {
    try {
      return await connection.get(request);
    } finally {
      if (connection.usable && !this.#closed) {
        const list = this.#idle.get(address.origin) ?? [];
        list.push(connection);
        this.#idle.set(address.origin, list);
      } else {
        connection.destroy();
      }
    }
  }

  /** Ends running requests and closes every connection; nothing is opened after it. */
  destroy(): void {
    this.#closed = true;
    for (const connection of this.#all) {
      connection.destroy();
    }
  }

  #open(address: NodeAddress): PollConnection {
    const connection = new PollConnection(address, this.#settings, () => this.#forget(address.origin, connection));
    this.#all.add(connection);
    return connection;
  }

  #forget(origin: string, connection: PollConnection): void {
    this.#all.delete(connection);
    const left = this.#idle.get(origin)?.filter((one) => one !== connection) ?? [];
    if (left.length === 0) {
      this.#idle.delete(origin);
    } else {
      this.#idle.set(origin, left);
    }
  }
}

interface Running {
  readonly request: PollRequest;
  readonly parser: ReplyParser;
  readonly settle: (error?: SandboxdError) => void;
}

/**
 * One kept-alive connection for GETs, one at a time. It does what the shared dispatcher does for other requests, and
 * allocates nothing per piece of a reply: at fleet size the replies of one tick are a hundred megabytes.
 */
class PollConnection {
  readonly #socket: Socket;
  readonly #host: string;
  readonly #keepAliveMs: number;
  #connectTimer: NodeJS.Timeout | undefined;
  #idleTimer: NodeJS.Timeout | undefined;
  #connected = false;
  #closed = false;
  #running: Running | undefined;
  #sent = false;
  #heard = false;

  constructor(address: NodeAddress, settings: PollSettings, onClose: () => void) {
    const { connectTimeoutMs, keepAliveMs, ca, scratch } = settings;
    this.#host = address.host;
    this.#keepAliveMs = keepAliveMs;
    const onChunk = (size: number): boolean => {
      this.#onData(scratch, size);
      return true;
    };
    const onread = { buffer: scratch, callback: onChunk };
    this.#socket = openSocket({ address, ca, allowHalfOpen: false, onread });
    if (address.tls) {
      this.#socket.on("data", (chunk: Buffer) => this.#onData(chunk, chunk.length));
    }
    this.#socket.once(connectedEvent(address), () => {
      clearTimeout(this.#connectTimer);
      this.#connected = true;
      this.#send();
    });
    this.#socket.on("error", (error) => this.#lost(errorText(error), error));
    this.#socket.once("end", () => this.#onEnd());
    this.#socket.once("close", () => {
      this.#lost("connection closed");
      onClose();
    });
    this.#connectTimer = setTimeout(() => this.#lost(`no connection within ${connectTimeoutMs} ms`), connectTimeoutMs);
  }

  /** Whether another request may be sent. */
  get usable(): boolean {
    return this.#connected && !this.#closed && this.#running === undefined;
  }

  /** Whether anything of the last reply came. */
  get heard(): boolean {
    return this.#heard;
  }

  destroy(): void {
    this.#lost("the pool is closed");
  }

  get(request: PollRequest): Promise<Buffer> {
    clearTimeout(this.#idleTimer);
    return new Promise((resolve, reject) => {
      const { signal, label, timeoutMs, into } = request;
      const onAbort = (): void => this.#fail("aborted", "aborted", signal?.reason);
      const timer = setTimeout(() => this.#fail("timeout", `no complete reply within ${timeoutMs} ms`), timeoutMs);
      const parser = new ReplyParser(into);
      this.#sent = false;
      this.#heard = false;
      this.#running = {
        request,
        parser,
        settle: (error) => {
          clearTimeout(timer);
          signal?.removeEventListener("abort", onAbort);
          this.#running = undefined;
          if (error !== undefined) {
            reject(error);
          } else if (parser.status < 300) {
            resolve(into.view());
          } else {
            reject(statusError(label, parser.status, into.view()));
          }
        },
      };
      if (signal?.aborted === true) {
        onAbort();
      } else if (this.#closed) {
        this.#lost("connection closed");
      } else {
        signal?.addEventListener("abort", onAbort, { once: true });
        this.#send();
      }
    });
  }

  #send(): void {
    if (!this.#connected || this.#running === undefined) {
      return;
    }
    const { request } = this.#running;
    this.#sent = true;
    const authorization = request.authorization === undefined ? "" : `authorization: ${request.authorization}\r\n`;
    this.#socket.write(
      `GET ${request.path} HTTP/1.1\r\nhost: ${this.#host}\r\naccept: application/json\r\n${authorization}\r\n`,
    );
  }

  #onData(chunk: Buffer, size: number): void {
    if (this.#running === undefined) {
      // Nobody asked.
      this.#close();
      return;
    }
    const { parser, settle } = this.#running;
    this.#heard = true;
    try {
      parser.push(chunk, size);
    } catch (error) {
      this.#failReply(error);
      return;
    }
    if (parser.done) {
      if (parser.reusable) {
        this.#idleTimer = setTimeout(() => this.#close(), this.#keepAliveMs).unref();
      } else {
        this.#close();
      }
      settle();
    }
  }

  #onEnd(): void {
    const running = this.#running;
    this.#close();
    if (running === undefined) {
      return;
    }
    try {
      running.parser.end();
    } catch (error) {
      this.#lost(errorText(error), error);
      return;
    }
    running.settle();
  }

  #failReply(error: unknown): void {
    if (!(error instanceof ReplyError)) {
      throw error;
    }
    this.#fail("bad_reply", error.message, error);
  }

  /** The connection is gone, or was never there. */
  #lost(why: string, cause?: unknown): void {
    this.#fail(this.#sent ? "connection_lost" : "unreachable", why, cause);
  }

  #fail(code: SandboxdErrorCode, why: string, cause?: unknown): void {
    this.#close();
    if (this.#running !== undefined) {
      const { request, settle } = this.#running;
      const delivery = this.#sent ? "maybe" : "no";
      settle(new SandboxdError(code, `${request.label}: ${why}`, { delivery, cause }));
    }
  }

  #close(): void {
    this.#closed = true;
    clearTimeout(this.#connectTimer);
    clearTimeout(this.#idleTimer);
    this.#socket.destroy();
  }
}
