import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { median } from "./statistics.ts";

const MAX_BYTES = 4 * 1024 * 1024;
const ATTEMPTS = 5;

/** Starts a full garbage collection. */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as () => void;
  gc();
}

async function growth(run: (times: number) => unknown, times: number): Promise<number> {
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  await run(times);
  return process.memoryUsage().heapUsed - before;
}

/**
 * Bytes of heap that one time takes: how far the heap grows over so few times that no collection comes in between.
 * The median of several attempts.
 */
export async function bytesPerTime(run: (times: number) => unknown): Promise<number> {
  let times = 1;
  while ((await growth(run, times)) < MAX_BYTES / 4 && times < 65_536) {
    times *= 4;
  }
  const attempts: number[] = [];
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    attempts.push((await growth(run, times)) / times);
  }
  return median(attempts);
}
