import type { Duplex } from "node:stream";

/**
 * Couples two connections byte for byte. The end of either direction is passed on alone (half-close); an error or an
 * early close of one side ends both at once. Both must allow half-open. `done` is called once, when both are closed.
 */
export function joinStreams(a: Duplex, b: Duplex, done?: () => void): void {
  let open = 2;
  const couple = (from: Duplex, to: Duplex): void => {
    from.on("error", () => to.destroy());
    from.on("close", () => {
      // After a clean end in both directions the other side still has bytes to flush: `end` was passed on by the pipe.
      if (!from.readableEnded || !from.writableFinished) {
        to.destroy();
      }
      open -= 1;
      if (open === 0) {
        done?.();
      }
    });
    from.pipe(to);
  };
  couple(a, b);
  couple(b, a);
  if (a.destroyed || b.destroyed) {
    a.destroy();
    b.destroy();
  }
}
