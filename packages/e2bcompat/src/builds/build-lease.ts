import { isScaleError } from "@org/scale";

/** What {@link keepLease} works with. */
export interface BuildLeaseParts {
  /** Length of the lease that the sandbox was claimed with, in seconds. */
  readonly seconds: number;
  /** Renews it. Rejects with a `ScaleError`. */
  readonly renew: (seconds: number) => Promise<void>;
  /** Called once, when the sandbox is gone or must be taken for gone. */
  readonly onLost: () => void;
}

/** A lease that is renewed until it is stopped. */
export interface BuildLease {
  /** Renews it at once for longer, and keeps it so. A failure is left to the next renewal. */
  lengthen(seconds: number): Promise<void>;
  stop(): void;
}

/** How often a lease is renewed in its own time, and how often it is tried again after a failure. */
const RENEWALS = 4;
const RETRIES = 12;

/**
 * Renews the short lease of a build's sandbox for as long as this process lives: when it dies in the middle of a build,
 * nobody else knows that the sandbox is of no use any more. A node that takes no renewal for a whole lease has ended
 * the sandbox, whether or not it says so.
 */
export function keepLease({ seconds: first, renew, onLost }: BuildLeaseParts): BuildLease {
  let seconds = first;
  let grantedAt = performance.now();
  let stopped = false;
  let timer: NodeJS.Timeout;

  const attempt = async (): Promise<boolean> => {
    const asked = seconds;
    const at = performance.now();
    try {
      await renew(asked);
      grantedAt = at;
      return true;
    } catch (error) {
      if (!stopped && (isScaleError(error, "not_found") || performance.now() - grantedAt > asked * 1000)) {
        stopped = true;
        onLost();
      }
      return false;
    }
  };
  const next = async (): Promise<void> => {
    const granted = await attempt();
    if (!stopped) {
      later(granted ? RENEWALS : RETRIES);
    }
  };
  const later = (share: number): void => {
    timer = setTimeout(() => void next(), (seconds * 1000) / share);
  };
  later(RENEWALS);

  return {
    async lengthen(to) {
      seconds = to;
      await attempt();
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
