import type { Duplex } from "node:stream";

/** Whether a stream closed after both its directions had come to their ends. */
function closedInOrder(stream: Duplex): boolean {
  return stream.readableEnded && stream.writableFinished;
}

/**
 * Joins two byte streams: bytes, backpressure and half-closes pass in both directions. When either side breaks, both
 * are destroyed; when both directions have ended, both close by themselves. `reset` breaks off `a` visibly.
 */
export function splice(a: Duplex, b: Duplex, reset: (stream: Duplex) => void): void {
  const breakBoth = (): void => {
    reset(a);
    b.destroy();
  };
  for (const stream of [a, b]) {
    stream.on("error", breakBoth);
    stream.once("close", () => {
      if (!closedInOrder(stream)) {
        breakBoth();
      }
    });
  }
  if (a.destroyed || b.destroyed) {
    breakBoth();
    return;
  }
  for (const [from, to] of [
    [a, b],
    [b, a],
  ] as const) {
    if (from.readableEnded) {
      to.end();
    } else {
      from.pipe(to);
    }
  }
}
