import { readGuestLogs } from "@org/envd-client";
import type { LogEntry, LogQuery } from "@org/envd-client";
import { guestAccessToken } from "@org/scale";
import type { Sandbox, SandboxStore } from "@org/scale";
import type { Call } from "./call.ts";
import { ENVD_PORT } from "./guest.ts";
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
      // Without derived tokens the daemon has none, and the sandbox's own is not the guest's to learn.
      const { envdSecret } = settings;
      const derived = envdSecret !== undefined && record.token !== undefined && record.token !== "";
      const accessToken = derived ? guestAccessToken(record.token, envdSecret) : undefined;
      let leave: (() => void) | undefined;
      const dial: Parameters<typeof readGuestLogs>[0] = async (options) => {
        leave = await slots.take(options.signal ?? signal);
        return store.dialGuestPort(node, id, "", ENVD_PORT, options);
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
