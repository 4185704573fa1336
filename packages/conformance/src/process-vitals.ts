import { readdirSync, readlinkSync } from "node:fs";

/** What a process holds, seen from outside. Sizes in bytes. */
export interface Vitals {
  /** After a full collection. */
  readonly heap: number;
  /** Memory of buffers, after the same. */
  readonly buffers: number;
  readonly rss: number;
  readonly sockets: number;
}

/** Open sockets of a process. Linux only. */
export function socketsOf(pid: number): number {
  let count = 0;
  for (const name of readdirSync(`/proc/${pid}/fd`)) {
    try {
      count += readlinkSync(`/proc/${pid}/fd/${name}`).startsWith("socket:") ? 1 : 0;
    } catch {
      // Closed in the meantime.
    }
  }
  return count;
}

/**
 * Looks into a process that runs with `--inspect`, collecting its garbage first. `url` is the address that it wrote to
 * its standard error. The look itself takes a connection, which is the same each time.
 */
export async function readVitals(pid: number, url: string): Promise<Vitals> {
  const socket = new WebSocket(url);
  const waiting = new Map<number, (result: unknown) => void>();
  let last = 0;
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener("open", () => resolve(), { once: true });
    socket.addEventListener("error", () => reject(new Error(`no inspector at ${url}`)), { once: true });
  });
  socket.addEventListener("message", ({ data }) => {
    const { id = 0, result } = JSON.parse(String(data)) as { id?: number; result?: unknown };
    waiting.get(id)?.(result);
  });
  const call = (method: string, params: object = {}): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const id = (last += 1);
      waiting.set(id, resolve);
      socket.addEventListener("close", () => reject(new Error("the inspector's connection closed")), { once: true });
      socket.send(JSON.stringify({ id, method, params }));
    });
  try {
    // What the first one makes collectable goes with the second.
    await call("HeapProfiler.collectGarbage");
    await call("HeapProfiler.collectGarbage");
    const { result } = (await call("Runtime.evaluate", {
      expression: "JSON.stringify(process.memoryUsage())",
    })) as { result: { value: string } };
    const usage = JSON.parse(result.value) as NodeJS.MemoryUsage;
    return { heap: usage.heapUsed, buffers: usage.arrayBuffers, rss: usage.rss, sockets: socketsOf(pid) };
  } finally {
    socket.close();
  }
}
