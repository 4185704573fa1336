import { createServer as createHttpServer } from "node:http";
import type { RequestListener, Server as HttpServer } from "node:http";
import { createServer, connect } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import { bindListener } from "../listener.ts";
import { createProxy } from "../proxy.ts";
import type { ProxyHandler, ProxyOptions } from "../proxy.ts";
import { serve } from "../serve.ts";
import type { ServeOptions } from "../serve.ts";
import type { ScriptedStore } from "./scripted-store.ts";

export const DOMAIN = "sandbox.example.com";

/** A running proxy over a scripted store. */
export interface RunningProxy extends AsyncDisposable {
  readonly port: number;
  readonly handler: ProxyHandler;
  readonly store: ScriptedStore;
  /** Begins the drain; resolves when it is over. */
  stop(): Promise<void>;
}

/** Starts a proxy on a free port. */
export async function startProxy(
  options: Partial<ProxyOptions> & { readonly store: ScriptedStore },
  serving: Omit<ServeOptions, "signal"> = {},
): Promise<RunningProxy> {
  const listener = await bindListener("127.0.0.1:0");
  // Short, so that tests that wait for relays to close do not wait long.
  const handler = createProxy({ domain: DOMAIN, relayIdleMs: 100, ...options });
  const controller = new AbortController();
  const served = serve(listener, handler, { drainTimeoutMs: 200, ...serving, signal: controller.signal });
  async function stop(): Promise<void> {
    controller.abort();
    await served;
    handler.close();
  }
  return { port: listener.port, handler, store: options.store, stop, [Symbol.asyncDispose]: stop };
}

/** A guest's server on a free port. */
export interface Guest extends AsyncDisposable {
  readonly port: number;
  /** Connections that are open now. */
  readonly sockets: ReadonlySet<Socket>;
}

function tracked(server: Server | HttpServer): Promise<Guest> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("close", () => sockets.delete(socket));
  });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      resolve({
        port: (server.address() as AddressInfo).port,
        sockets,
        [Symbol.asyncDispose]: async () => {
          for (const socket of sockets) {
            socket.destroy();
          }
          server.close();
        },
      });
    });
  });
}

/** A guest that speaks HTTP/1.1. */
export function httpGuest(listener: RequestListener): Promise<Guest> {
  const server = createHttpServer({ maxHeaderSize: 1024 * 1024 }, listener);
  server.maxHeadersCount = 0;
  return tracked(server);
}

/** A guest whose bytes the test writes itself. */
export function rawGuest(connection: (socket: Socket) => void): Promise<Guest> {
  return tracked(createServer({ allowHalfOpen: true, noDelay: true }, connection));
}

/** A raw client connection that remembers what it read. */
export interface RawClient extends Disposable {
  readonly socket: Socket;
  /** Everything read so far. */
  text(): string;
  /** Resolves once what was read contains `needle`. */
  until(needle: string): Promise<string>;
  /** Resolves with everything once the other side ended or broke the connection. */
  ended(): Promise<{ readonly text: string; readonly error: string | undefined; readonly clean: boolean }>;
}

/** Connects to a local port and writes `bytes`. */
export function rawClient(port: number, bytes: string | Buffer = ""): RawClient {
  const socket = connect({ host: "127.0.0.1", port, allowHalfOpen: true, noDelay: true });
  let text = "";
  let error: string | undefined;
  let fin = false;
  const waiting = new Set<() => void>();
  const wake = (): void => {
    for (const check of waiting) {
      check();
    }
  };
  socket.setEncoding("latin1");
  socket.on("data", (chunk: string) => {
    text += chunk;
    wake();
  });
  socket.on("end", () => {
    fin = true;
    wake();
  });
  socket.on("error", (cause: NodeJS.ErrnoException) => {
    error = cause.code ?? cause.message;
  });
  socket.on("close", wake);
  if (bytes.length > 0) {
    socket.write(bytes, "latin1");
  }
  function when<T>(ready: () => T | undefined): Promise<T> {
    return new Promise((resolve) => {
      const check = (): void => {
        const value = ready();
        if (value !== undefined) {
          waiting.delete(check);
          resolve(value);
        }
      };
      waiting.add(check);
      check();
    });
  }
  return {
    socket,
    text: () => text,
    until: (needle) => when(() => (text.includes(needle) || fin || socket.destroyed ? text : undefined)),
    ended: () => when(() => (fin || socket.destroyed ? { text, error, clean: fin && error === undefined } : undefined)),
    [Symbol.dispose]: () => socket.destroy(),
  };
}

/** A request head with the sandbox's host and token. */
export function requestHead(line: string, headers: readonly string[] = [], host = `49983-sb-a.${DOMAIN}`): string {
  return `${[`${line} HTTP/1.1`, `Host: ${host}`, ...headers].join("\r\n")}\r\n\r\n`;
}

/** Polls until `ready` holds; fails with `what` after some seconds. */
export async function eventually(what: string, ready: () => boolean): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!ready()) {
    if (performance.now() > deadline) {
      throw new Error(`never happened: ${what}`);
    }
    await new Promise((resolve) => {
      setTimeout(resolve, 5);
    });
  }
}

/** Parts of a raw HTTP/1.1 answer. */
export function parseAnswer(text: string): { readonly status: number; readonly head: string; readonly body: string } {
  const end = text.indexOf("\r\n\r\n");
  const head = end < 0 ? text : text.slice(0, end);
  return { status: Number(head.split(" ")[1]), head, body: end < 0 ? "" : text.slice(end + 4) };
}
