import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";

/** Everything that is open, so that an end can wait for what runs and close what does not. */
export class OpenConnections {
  readonly sockets: Set<Socket> = new Set();
  readonly sessions: Set<ServerHttp2Session> = new Set();
  #running = 0;
  readonly #waiting = new Set<() => void>();

  /** How many requests have no complete answer yet. */
  get running(): number {
    return this.#running;
  }

  addSocket(socket: Socket): void {
    this.sockets.add(socket);
    socket.once("close", () => {
      this.sockets.delete(socket);
      this.#look();
    });
  }

  /** A request has begun. Returns what says that it is over, once. */
  begin(): () => void {
    this.#running += 1;
    let over = false;
    return () => {
      if (!over) {
        over = true;
        this.#running -= 1;
        this.#look();
      }
    };
  }

  /** Resolves when a condition on these holds, or after a time. Tells whether it does. */
  until(condition: () => boolean, timeoutMs: number): Promise<boolean> {
    if (condition()) {
      return Promise.resolve(true);
    }
    return new Promise((resolve) => {
      const look = (): void => {
        if (condition()) {
          done(true);
        }
      };
      const done = (met: boolean): void => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        resolve(met);
      };
      const timer = setTimeout(() => done(false), timeoutMs);
      this.#waiting.add(look);
    });
  }

  #look(): void {
    for (const look of this.#waiting) {
      look();
    }
  }
}
