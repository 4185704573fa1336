/** Bounds how many guests start at once. Whoever waits for a claim goes before whoever fills a pool. */
export interface StartSlots {
  run<T>(urgent: boolean, start: () => Promise<T>): Promise<T>;
}

/** Makes `size` slots. */
export function createStartSlots(size: number): StartSlots {
  let free = size;
  const urgent: (() => void)[] = [];
  const patient: (() => void)[] = [];
  const acquire = (isUrgent: boolean): Promise<void> => {
    if (free > 0) {
      free -= 1;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      (isUrgent ? urgent : patient).push(resolve);
    });
  };
  const release = (): void => {
    const next = urgent.shift() ?? patient.shift();
    if (next === undefined) {
      free += 1;
    } else {
      next();
    }
  };
  return {
    run: async (isUrgent, start) => {
      await acquire(isUrgent);
      try {
        return await start();
      } finally {
        release();
      }
    },
  };
}
