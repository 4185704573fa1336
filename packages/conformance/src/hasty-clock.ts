import { Server } from "node:http";
import { Socket } from "node:net";

/**
 * Loaded into a program under test before anything else (`NODE_OPTIONS=--import=…`): every limit of a minute or longer
 * is over after a sixtieth of it, whether it is a timer, that of a socket, or one of an HTTP server, those that Node
 * sets by itself included. What must outlast any such limit can be tried in seconds. Shorter ones stay as they are: a
 * busy machine needs them.
 */
const LONG_MS = 60_000;
const FACTOR = 60;

function hasty(ms: number): number {
  return ms >= LONG_MS ? ms / FACTOR : ms;
}

const { setTimeout: trueSetTimeout } = globalThis;
globalThis.setTimeout = Object.assign(
  (callback: (...values: unknown[]) => void, ms?: number, ...values: unknown[]) =>
    trueSetTimeout(callback, hasty(ms ?? 0), ...values),
  trueSetTimeout,
);

const trueSocketTimeout = Reflect.get<Socket, "setTimeout">(Socket.prototype, "setTimeout");
Socket.prototype.setTimeout = function setTimeout(this: Socket, ms: number, callback?: () => void): Socket {
  return trueSocketTimeout.call(this, hasty(ms), callback);
};

const trueEmit = Reflect.get(Server.prototype, "emit") as (...values: unknown[]) => boolean;
Server.prototype.emit = function emit(this: Server, ...values: unknown[]): boolean {
  if (values[0] === "listening") {
    this.requestTimeout = hasty(this.requestTimeout);
    this.headersTimeout = hasty(this.headersTimeout);
    this.keepAliveTimeout = hasty(this.keepAliveTimeout);
    this.timeout = hasty(this.timeout);
    Object.assign(this, { connectionsCheckingInterval: 250 });
  }
  return trueEmit.apply(this, values);
};
