import type { Socket } from "node:net";

const PREFACE = "PRI * HTTP/2.0\r\n";

/** How the first bytes of a connection read: HTTP/2 with prior knowledge, HTTP/1, or too few to tell. */
function protocolOf(start: Buffer): "http1" | "http2" | undefined {
  const length = Math.min(start.length, PREFACE.length);
  if (start.toString("latin1", 0, length) !== PREFACE.slice(0, length)) {
    return "http1";
  }
  return length === PREFACE.length ? "http2" : undefined;
}

/**
 * Reads just enough of a cleartext connection to tell its protocol, puts it back, and hands the connection over. A
 * connection that does not say within `timeoutMs` is destroyed. Returns the function that gives up at once.
 */
export function sniff(socket: Socket, timeoutMs: number, found: (protocol: "http1" | "http2") => void): () => void {
  let start: Buffer = Buffer.alloc(0);

  function stop(): void {
    clearTimeout(timer);
    socket.off("data", onData);
    socket.off("end", onEnd);
    socket.off("close", stop);
  }
  function onData(chunk: Buffer): void {
    start = start.length === 0 ? chunk : Buffer.concat([start, chunk]);
    const protocol = protocolOf(start);
    if (protocol !== undefined) {
      stop();
      socket.pause();
      socket.unshift(start);
      found(protocol);
    }
  }
  function onEnd(): void {
    stop();
    socket.destroy();
  }

  const timer = setTimeout(onEnd, timeoutMs);
  socket.on("data", onData);
  socket.on("end", onEnd);
  socket.on("close", stop);
  socket.resume();
  return onEnd;
}
