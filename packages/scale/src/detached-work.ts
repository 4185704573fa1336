import { ScaleError } from "./errors.ts";

/** What to do with work whose caller has left. */
export interface Aftermath<T> {
  readonly done?: ((value: T) => Promise<void>) | undefined;
  readonly failed?: ((error: unknown) => void) | undefined;
}

/**
 * Calls that must not be cancelled with their caller. A caller that leaves is released at once; the call goes on and
 * its aftermath runs when it ends.
 */
export class DetachedWork {
  readonly #left = new Set<Promise<void>>();

  /** How many calls go on without their caller. */
  get size(): number {
    return this.#left.size;
  }

  /** Runs `start` for a caller that may leave. Rejects with `aborted` when it does, before or after the start. */
  run<T>(start: () => Promise<T>, signal: AbortSignal | undefined, aftermath: Aftermath<T> = {}): Promise<T> {
    if (signal === undefined) {
      return start();
    }
    if (signal.aborted) {
      return Promise.reject(abortedError(signal));
    }
    const work = start();
    return new Promise<T>((resolve, reject) => {
      const leave = (): void => {
        reject(abortedError(signal));
        const rest = work
          .then(aftermath.done, aftermath.failed)
          .then(undefined, () => undefined)
          .finally(() => this.#left.delete(rest));
        this.#left.add(rest);
      };
      if (signal.aborted) {
        leave();
        return;
      }
      signal.addEventListener("abort", leave, { once: true });
      // First of all: once the caller has the outcome, its leaving must not take it for nobody's.
      const stay = (): void => signal.removeEventListener("abort", leave);
      work.then(stay, stay);
      work.then(resolve, reject);
    });
  }

  /** Waits until no detached call is left. */
  async settled(): Promise<void> {
    while (this.#left.size > 0) {
      await Promise.all(this.#left);
    }
  }
}

/** The error of a call whose caller's signal ended it. */
export function abortedError(signal: AbortSignal): ScaleError {
  return new ScaleError("aborted", "the caller ended the call", { cause: signal.reason });
}

/** Throws when the caller has left. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) {
    throw abortedError(signal);
  }
}
