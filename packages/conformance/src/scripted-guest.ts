import { createServer, type AddressInfo, type Server, type Socket } from "node:net";

import { RequestReader, type SeenRequest } from "./strict-request.ts";

/** One connection to a {@link ScriptedGuest}. */
export interface GuestConnection {
  readonly socket: Socket;
  /** Requests that have begun on it, in their order. */
  readonly requests: readonly SeenRequest[];
  /** When the other side closed, in the time of `performance.now()`. */
  readonly gone: Promise<number>;
  /** From now on everything that comes is for `listener`, and no request any more. */
  take(listener: (bytes: Buffer) => void): void;
}

/** What a guest does about requests to a path. */
export interface GuestAct {
  /** Called when the head is there. Absent: nothing happens before the end. */
  readonly onHead?: (request: SeenRequest, connection: GuestConnection) => void;
  /** Called when all of it is there. */
  readonly onEnd?: (request: SeenRequest, connection: GuestConnection) => void;
  /** Called with every piece of the body's connection, as it arrives. */
  readonly onBytes?: (bytes: Buffer) => void;
}

/** What a request looked like, as {@link echo} answers it. */
export interface Echo {
  readonly method: string;
  readonly target: string;
  readonly headers: readonly string[];
  readonly body: string;
  readonly trailers: readonly string[];
}

/** Answers with the request, as JSON. */
export function echo(request: SeenRequest, { socket }: GuestConnection): void {
  const { method, target, headers, body, trailers } = request;
  const seen: Echo = { method, target, headers, body: body.toString("latin1"), trailers };
  const text = method === "HEAD" ? "" : JSON.stringify(seen);
  socket.write(
    `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
}

/**
 * Stands for what listens in a guest: records every byte of every connection that a relay leads here, holds them against
 * the letter of HTTP/1.1, and does what rows tell it. A path's first segment picks the act; all others are echoed.
 */
export class ScriptedGuest implements AsyncDisposable {
  readonly #server: Server;
  readonly #acts = new Map<string, GuestAct>();
  readonly #sockets = new Set<Socket>();
  #seen: SeenRequest[] = [];
  /** Bytes that came on connections on which no head was complete. */
  #scraps: string[] = [];
  /** What came that is no request. */
  readonly faults: string[] = [];
  /** Texts that no guest may be shown. Whatever holds one goes to {@link faults}. */
  readonly forbidden: string[] = [];
  /** Whether requests are kept. Off for rows with thousands of them. */
  recording = true;
  connections = 0;

  private constructor(server: Server) {
    this.#server = server;
    server.on("connection", (socket) => this.#serve(socket));
  }

  static async start(host = "127.0.0.1"): Promise<ScriptedGuest> {
    const server = createServer({ allowHalfOpen: true, noDelay: true });
    const guest = new ScriptedGuest(server);
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(0, host, resolve);
    });
    return guest;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Connections that are open now. */
  get open(): number {
    return this.#sockets.size;
  }

  /** What is done about requests whose path begins with this segment. */
  on(segment: string, act: GuestAct): void {
    this.#acts.set(segment, act);
  }

  /** Requests whose head holds this text, also those that never ended. */
  seen(text: string): SeenRequest[] {
    return this.#seen.filter((request) => request.head.includes(text));
  }

  /** Whether anything that came holds this text: heads, bodies, trailers, unfinished heads. */
  saw(text: string): boolean {
    return (
      this.#seen.some(
        (request) =>
          request.head.includes(text) || request.body.includes(text) || request.trailers.join("\n").includes(text),
      ) || this.#scraps.some((scrap) => scrap.includes(text))
    );
  }

  /** Forgets what was recorded. */
  forget(): void {
    this.#seen = [];
    this.#scraps = [];
  }

  #fault(what: string): void {
    if (this.faults.length < 20) {
      this.faults.push(what);
    }
  }

  #judge(text: string): void {
    for (const secret of this.forbidden) {
      if (text.includes(secret)) {
        this.#fault(
          `a guest was shown ${JSON.stringify(secret.slice(0, 8))}… in ${JSON.stringify(text.slice(0, 200))}`,
        );
      }
    }
  }

  #serve(socket: Socket): void {
    this.connections += 1;
    this.#sockets.add(socket);
    const requests: SeenRequest[] = [];
    const { promise: gone, resolve } = Promise.withResolvers<number>();
    let taken: ((bytes: Buffer) => void) | undefined;
    let scrap = "";
    const connection: GuestConnection = {
      socket,
      requests,
      gone,
      take: (listener) => {
        taken = listener;
        const { rest } = reader;
        if (rest.length > 0) {
          listener(rest);
        }
      },
    };
    const actOf = (request: SeenRequest): GuestAct => {
      const segment = /^(?:https?:\/\/[^/]*)?\/([^/?#]*)/.exec(request.target)?.[1] ?? "";
      return this.#acts.get(segment) ?? { onEnd: echo };
    };
    const reader = new RequestReader({
      onHead: (request) => {
        this.#judge(request.head);
        requests.push(request);
        if (this.recording) {
          this.#seen.push(request);
        }
        actOf(request).onHead?.(request, connection);
      },
      onEnd: (request) => {
        this.#judge(request.trailers.join("\n"));
        actOf(request).onEnd?.(request, connection);
      },
    });
    socket.on("error", () => undefined);
    socket.on("data", (bytes: Buffer) => {
      if (taken !== undefined) {
        taken(bytes);
        return;
      }
      if (requests.length === 0) {
        scrap += bytes.toString("latin1").slice(0, 4_096);
      }
      try {
        reader.feed(bytes);
        const last = reader.unfinished;
        if (last !== undefined) {
          actOf(last).onBytes?.(bytes);
        }
      } catch (error) {
        this.#fault(error instanceof Error ? error.message : String(error));
        socket.destroy();
      }
    });
    socket.once("end", () => {
      resolve(performance.now());
      if (taken === undefined) {
        socket.end();
      }
    });
    socket.once("close", () => {
      this.#sockets.delete(socket);
      if (requests.length === 0 && this.recording) {
        this.#scraps.push(scrap);
      }
      resolve(performance.now());
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) {
      socket.destroy();
    }
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
