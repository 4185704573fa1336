import { readGuestLogs } from "@org/envd-client";
import type { DialGuest, LogEntry, LogQuery } from "@org/envd-client";
import type { Sandbox, SandboxStore } from "@org/scale";
import type { Call } from "./call.ts";
import { daemonToken, dialDaemon } from "./daemon.ts";
import type { Settings } from "./options.ts";
import { createSlots } from "./slots.ts";

const READ_TIMEOUT_MS = 2000;
/** Each read may hold some megabytes of what a guest says, and guests say what they want. */
const PARALLEL_READS = 8;

/** Reads what the commands of sandboxes printed. */
export interface GuestLogs {
  /**
   * Hands every line of a page to `onEntry`. Resolves to `false` when there is no log to read: the sandbox is paused, or
   * its guest does not answer as our daemon does; what was handed over by then does not count. A paused sandbox is not
   * woken. Rejects when the node does not know the sandbox or cannot be asked, and when the caller leaves.
   */
  read(call: Call, sandbox: Sandbox, query: LogQuery, onEntry: (entry: LogEntry) => void): Promise<boolean>;
}

export function createGuestLogs(settings: Settings, store: SandboxStore): GuestLogs {
  const slots = createSlots(PARALLEL_READS);
  return {
    async read({ signal, requestId, sandboxId }, { node, id }, query, onEntry) {
      const record = await store.read(node, id, { signal });
      if (record.paused || record.archived) {
        return false;
      }
      const accessToken = daemonToken(settings, record.token);
      let leave: (() => void) | undefined;
      const dial: DialGuest = async (options) => {
        leave = await slots.take(options.signal ?? signal);
        return dialDaemon(store, node, id)(options);
      };
      try {
        await readGuestLogs(dial, query, onEntry, { accessToken, signal, timeoutMs: READ_TIMEOUT_MS });
        return true;
      } catch (error) {
        if (signal.aborted) {
          throw error;
        }
        settings.logger.debug({ requestId, sandboxId, node, err: error }, "the guest gave no log");
        return false;
      } finally {
        leave?.();
      }
    },
  };
}
