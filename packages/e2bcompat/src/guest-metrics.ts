import { EnvdClientError, readGuestJson } from "@org/envd-client";
import { isScaleError } from "@org/scale";
import type { Sandbox, SandboxStore } from "@org/scale";
import * as z from "zod";
import type { Call } from "./call.ts";
import { daemonToken, dialDaemon } from "./daemon.ts";
import { E2bError } from "./errors.ts";
import type { Settings } from "./options.ts";
import { createSlots } from "./slots.ts";

const READ_TIMEOUT_MS = 2000;
const MAX_BYTES = 65_536;
const PARALLEL_READS = 16;
/** The last second that RFC 3339 can write. */
const LAST_SECOND = 253_402_300_799;

const amount = z.number().nonnegative().max(Number.MAX_SAFE_INTEGER);

/** `GET /metrics` of the daemon. Older ones leave out what came later. */
const document = z.object({
  ts: z.number().nonnegative().max(LAST_SECOND).default(0),
  cpu_count: amount,
  cpu_used_pct: amount,
  mem_used: amount,
  mem_total: amount,
  mem_cache: amount.default(0),
  disk_used: amount.default(0),
  disk_total: amount.default(0),
});

/** What a guest used at one moment. Bytes, unless the name says otherwise. */
export interface GuestSample {
  /** Whole seconds since 1970, by the guest's clock. */
  readonly seconds: number;
  readonly cpuCount: number;
  /** Of all processors, in percent. */
  readonly cpuUsedPct: number;
  readonly memUsed: number;
  readonly memTotal: number;
  readonly memCache: number;
  readonly diskUsed: number;
  readonly diskTotal: number;
}

/** Reads what guests use. */
export interface GuestMetrics {
  /**
   * `undefined` for a sandbox that is paused or about to be: it is not woken. Rejects when the node does not know the
   * sandbox or cannot be asked, with `guest_failed` when the guest does not answer as a daemon does, and when the caller
   * leaves.
   */
  read(call: Call, sandbox: Pick<Sandbox, "node" | "id">): Promise<GuestSample | undefined>;
}

/** Checks what a guest said. Guests say what they want. */
function parseSample(said: unknown, nowMs: number): GuestSample {
  const parsed = document.safeParse(said);
  if (!parsed.success) {
    throw new E2bError("guest_failed", "the sandbox gave no metrics: its daemon did not answer with numbers");
  }
  const { ts, cpu_used_pct: cpuUsedPct, ...rest } = parsed.data;
  return {
    seconds: Math.floor(ts === 0 ? nowMs / 1000 : ts),
    cpuUsedPct,
    cpuCount: Math.floor(rest.cpu_count),
    memUsed: Math.floor(rest.mem_used),
    memTotal: Math.floor(rest.mem_total),
    memCache: Math.floor(rest.mem_cache),
    diskUsed: Math.floor(rest.disk_used),
    diskTotal: Math.floor(rest.disk_total),
  };
}

export function createGuestMetrics(settings: Settings, store: SandboxStore): GuestMetrics {
  const slots = createSlots(PARALLEL_READS);
  return {
    async read({ signal }, { node, id }) {
      const record = await store.read(node, id, { signal });
      if (record.paused || record.archived) {
        return undefined;
      }
      const accessToken = daemonToken(settings, record.token);
      const leave = await slots.take(signal);
      try {
        const bounds = { signal, timeoutMs: READ_TIMEOUT_MS, maxBytes: MAX_BYTES };
        const said = await readGuestJson(dialDaemon(store, node, id), "/metrics", { accessToken, ...bounds });
        return parseSample(said, settings.now());
      } catch (error) {
        const cause = error instanceof EnvdClientError ? error.cause : undefined;
        // It was paused, or ended, between the two calls.
        if (isScaleError(cause, "node_refused") && cause.status === 409) {
          return undefined;
        }
        if (isScaleError(cause, "not_found")) {
          throw cause;
        }
        if (signal.aborted || error instanceof E2bError) {
          throw error;
        }
        throw new E2bError("guest_failed", "the sandbox gave no metrics: its daemon did not answer", { cause: error });
      } finally {
        leave();
      }
    },
  };
}
