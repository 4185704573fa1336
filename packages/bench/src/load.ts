import { connect } from "node:net";
import type { Socket } from "node:net";
import { MessageReader } from "./http-messages.ts";
import type { Message } from "./http-messages.ts";
import { sum } from "./statistics.ts";

/** One reply. */
export interface Reply {
  readonly status: number;
  readonly body: string;
}

/** A keep-alive connection that carries one request at a time. */
export class Connection implements Disposable {
  readonly #socket: Socket;
  readonly #reader = new MessageReader();
  #waiting: { resolve: (message: Message) => void; reject: (error: Error) => void } | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => {
      try {
        for (const message of this.#reader.read(chunk)) {
          this.#waiting?.resolve(message);
          this.#waiting = undefined;
        }
      } catch (error) {
        socket.destroy(error instanceof Error ? error : new Error(String(error)));
      }
    });
    socket.on("error", (error) => this.#fail(error));
    socket.on("close", () => this.#fail(new Error("the connection was closed")));
  }

  /** @param address `host:port` */
  static open(address: string): Promise<Connection> {
    const cut = address.lastIndexOf(":");
    return new Promise((resolve, reject) => {
      const socket = connect({ host: address.slice(0, cut), port: Number(address.slice(cut + 1)), noDelay: true });
      socket.once("error", reject);
      socket.once("connect", () => {
        socket.off("error", reject);
        resolve(new Connection(socket));
      });
    });
  }

  async send(request: string): Promise<Reply> {
    const { head, body } = await new Promise<Message>((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#socket.write(request);
    });
    return { status: Number(head.slice(9, 12)), body };
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }

  #fail(error: Error): void {
    this.#waiting?.reject(error);
    this.#waiting = undefined;
  }
}

/** What a load came to. */
export interface LoadResult {
  /** How long each good reply took, in microseconds. */
  readonly micros: readonly number[];
  /** Replies with another status than wanted, and requests without a reply. */
  readonly errors: number;
  /** From the first request to the last reply, in microseconds. */
  readonly wallMicros: number;
}

/** Sends `total` requests from `clients` connections: each sends its next one when it has its reply. */
export async function load(
  address: string,
  options: {
    readonly clients: number;
    readonly total: number;
    readonly status: number;
    readonly request: () => string;
  },
): Promise<LoadResult> {
  const { clients, total, status, request } = options;
  const connections = await Promise.all(Array.from({ length: clients }, () => Connection.open(address)));
  const micros: number[] = [];
  let errors = 0;
  let sent = 0;
  const began = performance.now();
  const work = async (connection: Connection): Promise<void> => {
    while (sent < total) {
      sent += 1;
      const at = performance.now();
      try {
        const reply = await connection.send(request());
        if (reply.status !== status) {
          errors += 1;
          continue;
        }
        micros.push((performance.now() - at) * 1000);
      } catch {
        // A connection that broke sends nothing more.
        errors += 1;
        return;
      }
    }
  };
  try {
    await Promise.all(connections.map(work));
    return { micros, errors, wallMicros: (performance.now() - began) * 1000 };
  } finally {
    for (const connection of connections) {
      connection[Symbol.dispose]();
    }
  }
}

/** Throws when a request failed: figures of loads that did not succeed say nothing. */
export function allGood(results: readonly LoadResult[]): void {
  const errors = sum(results.map((result) => result.errors));
  if (errors > 0) {
    throw new Error(`${errors} requests failed that must not`);
  }
}
