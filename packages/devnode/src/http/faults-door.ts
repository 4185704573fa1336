import type { Server } from "node:http";
import type { DevNodeLogger } from "../logger.ts";
import type { Door } from "./faults.ts";

/** How long to wait for a port that somebody else took meanwhile. */
const RETRY_MS = 100;

/** A listener that can be shut for a while: connections are refused as if nobody listened. */
export interface ListenerDoor extends Door {
  /** Leaves the listener as it is, for good. */
  leave(): void;
}

/** Governs a listening server. `bind` is where it listens again. */
export function createDoor(
  server: Server,
  bind: () => { readonly host: string; readonly port: number },
  logger: DevNodeLogger,
): ListenerDoor {
  const timers = new Set<NodeJS.Timeout>();
  let left = false;
  let opening = false;
  const later = (ms: number, what: () => void): void => {
    const timer = setTimeout(() => {
      timers.delete(timer);
      what();
    }, ms);
    timers.add(timer);
  };
  const forget = (): void => {
    for (const timer of timers) {
      clearTimeout(timer);
    }
    timers.clear();
  };
  const listenAgain = (): void => {
    if (left || opening || server.listening) {
      return;
    }
    opening = true;
    const settle = (error?: Error): void => {
      opening = false;
      server.off("error", settle);
      server.off("listening", settle);
      if (error !== undefined) {
        logger.warn({ err: error }, "cannot listen again yet");
        later(RETRY_MS, listenAgain);
      }
    };
    server.once("error", settle);
    server.once("listening", settle);
    server.listen(bind());
  };
  return {
    shut: (delayMs, forMs, onShut) => {
      later(delayMs, () => {
        onShut();
        server.close();
        server.closeIdleConnections();
        later(forMs, listenAgain);
      });
    },
    open: () => {
      forget();
      listenAgain();
    },
    leave: () => {
      left = true;
      forget();
    },
  };
}
