/** A number of places that work has to take before it may begin. */
export interface Slots {
  /** Waits for a place; what it resolves with gives the place back. Rejects with the signal's reason. */
  take(signal: AbortSignal): Promise<() => void>;
}

export function createSlots(count: number): Slots {
  const waiting = new Set<() => void>();
  let free = count;

  const place = (): (() => void) => {
    free -= 1;
    let held = true;
    return () => {
      if (!held) {
        return;
      }
      held = false;
      free += 1;
      const [next] = waiting;
      next?.();
    };
  };

  return {
    take: (signal) => {
      if (signal.aborted) {
        return Promise.reject(signal.reason as Error);
      }
      if (free > 0) {
        return Promise.resolve(place());
      }
      return new Promise((resolve, reject) => {
        const leave = (): void => {
          waiting.delete(enter);
          signal.removeEventListener("abort", onAbort);
        };
        const enter = (): void => {
          leave();
          resolve(place());
        };
        const onAbort = (): void => {
          leave();
          reject(signal.reason as Error);
        };
        waiting.add(enter);
        signal.addEventListener("abort", onAbort);
      });
    },
  };
}
