import { readFile, statfs } from "node:fs/promises";
import { availableParallelism, freemem, totalmem } from "node:os";

/** Numbers of a guest at one moment; bytes unless the name says otherwise. */
export interface GuestMetrics {
  readonly cpuCount: number;
  /** Busy share of all processors since the last call, in percent. */
  readonly cpuUsedPercent: number;
  readonly memTotal: number;
  readonly memUsed: number;
  readonly memCache: number;
  readonly diskUsed: number;
  readonly diskTotal: number;
}

/** Where the daemon takes its numbers from. */
export type MetricsSource = () => Promise<GuestMetrics>;

const MIB = 1024 * 1024;

/** Body of `GET /metrics`. */
export function metricsBody(metrics: GuestMetrics, nowMs: number): Record<string, number> {
  return {
    ts: Math.floor(nowMs / 1000),
    cpu_count: metrics.cpuCount,
    cpu_used_pct: Math.round(metrics.cpuUsedPercent * 100) / 100,
    mem_total_mib: Math.floor(metrics.memTotal / MIB),
    mem_used_mib: Math.floor(metrics.memUsed / MIB),
    mem_total: metrics.memTotal,
    mem_used: metrics.memUsed,
    mem_cache: metrics.memCache,
    disk_used: metrics.diskUsed,
    disk_total: metrics.diskTotal,
  };
}

/** Numbers of what /proc and the file system of `/` show: the host's, unless the guest has its own. */
export function createSystemMetrics(): MetricsSource {
  let last = { busy: 0, total: 0 };
  return async () => {
    const [stat, meminfo, disk] = await Promise.all([
      readFile("/proc/stat", "utf8").catch(() => ""),
      readFile("/proc/meminfo", "utf8").catch(() => ""),
      statfs("/"),
    ]);
    const now = parseCpuTimes(stat);
    const total = now.total - last.total;
    const cpuUsedPercent = total > 0 ? ((now.busy - last.busy) / total) * 100 : 0;
    last = now;
    const memTotal = memoryField(meminfo, "MemTotal") ?? totalmem();
    return {
      cpuCount: availableParallelism(),
      cpuUsedPercent,
      memTotal,
      memUsed: memTotal - (memoryField(meminfo, "MemAvailable") ?? freemem()),
      memCache: memoryField(meminfo, "Cached") ?? 0,
      diskUsed: (disk.blocks - disk.bfree) * disk.bsize,
      diskTotal: disk.blocks * disk.bsize,
    };
  };
}

/** Busy and total ticks of the first line of /proc/stat. */
function parseCpuTimes(stat: string): { busy: number; total: number } {
  const fields = /^cpu +(.+)$/m.exec(stat)?.[1]?.split(" ").map(Number) ?? [];
  // Guest time, after the eighth field, is part of user time already.
  const total = fields.slice(0, 8).reduce((sum, ticks) => sum + ticks, 0);
  const idle = (fields[3] ?? 0) + (fields[4] ?? 0);
  return { busy: total - idle, total };
}

function memoryField(meminfo: string, name: string): number | undefined {
  const kilobytes = new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(meminfo)?.[1];
  return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
}
