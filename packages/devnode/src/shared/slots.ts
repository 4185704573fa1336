/** Bounds how much runs at once; the rest waits in its order. */
export interface Slots {
  run<T>(work: () => Promise<T>): Promise<T>;
}

/** Makes `size` slots. */
export function createSlots(size: number): Slots {
  let free = size;
  const waiting: (() => void)[] = [];
  return {
    run: async (work) => {
      if (free > 0) {
        free -= 1;
      } else {
        await new Promise<void>((resolve) => {
          waiting.push(resolve);
        });
      }
      try {
        return await work();
      } finally {
        const next = waiting.shift();
        if (next === undefined) {
          free += 1;
        } else {
          next();
        }
      }
    },
  };
}
