import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/** Ports of this run. One that was given out is neither given nor tried again: trying it could keep its owner out. */
const given = new Set<number>();

/**
 * Ports of the loopback interface that nobody listens at; each differs from all that this process got before. They lie
 * below the range that systems take outgoing connections' ports from, so that none of those gets in between.
 */
export async function freePorts(count: number): Promise<number[]> {
  const found: number[] = [];
  for (let tries = 0; found.length < count; tries += 1) {
    if (tries > 1_000) {
      throw new Error("there is no free port between 20000 and 32000");
    }
    const port = randomInt(20_000, 32_000);
    if (given.has(port)) {
      continue;
    }
    given.add(port);
    if (await isFree(port)) {
      found.push(port);
    }
  }
  return found;
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
