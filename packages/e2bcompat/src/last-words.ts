import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

/** How long a client may go on sending what nobody reads. */
const LINGER_MS = 2000;

function isSending(incoming: IncomingMessage): boolean {
  const { headers, complete } = incoming;
  return !complete && (headers["transfer-encoding"] !== undefined || Number(headers["content-length"]) > 0);
}

/**
 * Ends an answer whose head is written. When the client still sends its body the answer goes out at once, and the rest
 * of the body is read and dropped for a while: closing on unread bytes resets the connection, and the client would
 * lose the answer.
 */
export function endAnswer(incoming: IncomingMessage, outgoing: ServerResponse, body: string | undefined): void {
  if (!isSending(incoming)) {
    outgoing.end(body);
    return;
  }
  outgoing.flushHeaders();
  if (body !== undefined) {
    outgoing.write(body);
  }
  const done = (): void => {
    clearTimeout(late);
    outgoing.end();
  };
  const late = setTimeout(() => {
    outgoing.end(() => incoming.destroy());
  }, LINGER_MS);
  incoming.on("error", () => undefined);
  incoming.once("end", done).once("close", done).resume();
}

/** Sends the last bytes of a connection that has left the HTTP server, and closes it whether or not the client does. */
export function endConnection(socket: Duplex, bytes: string): void {
  socket.on("error", () => undefined);
  socket.resume();
  socket.end(bytes);
  const late = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(late));
}
