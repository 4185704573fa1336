import type { Duplex } from "node:stream";

import { EnvdClientError } from "./errors.ts";

/** Opens one raw connection to the daemon's port (49983) inside the guest. */
export type DialGuest = (options: { signal?: AbortSignal }) => Promise<Duplex>;

/** Bounds of one call to the daemon. */
export interface GuestCallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Time for the whole call, dial included. */
  readonly timeoutMs: number;
}

/**
 * Runs `exchange` over one connection of its own, which is closed afterwards whatever happens. `path` is for messages.
 *
 * @throws EnvdClientError in every case but success
 */
export async function callGuest<T>(
  dial: DialGuest,
  path: string,
  { signal, timeoutMs }: GuestCallOptions,
  exchange: (connection: Duplex) => Promise<T>,
): Promise<T> {
  const aborted = (): EnvdClientError =>
    new EnvdClientError("aborted", `the call of ${path} was aborted`, { cause: signal?.reason });
  if (signal?.aborted) throw aborted();
  const phase = new AbortController();
  const ended = Promise.withResolvers<never>();
  // Without a reader of its own the rejection of an abandoned race would count as unhandled.
  ended.promise.catch(() => undefined);
  const stop = (error: EnvdClientError): void => {
    ended.reject(error);
    phase.abort(error);
  };
  const onAbort = (): void => stop(aborted());
  const timer = setTimeout(
    () => stop(new EnvdClientError("timeout", `guest did not answer ${path} within ${timeoutMs} ms`)),
    timeoutMs,
  );
  signal?.addEventListener("abort", onAbort, { once: true });
  let connection: Duplex | undefined;
  try {
    const dialled = dial({ signal: phase.signal }).then((socket) => {
      // Errors are reported by the request; one that comes after it must not bring the process down.
      socket.on("error", () => undefined);
      if (phase.signal.aborted) socket.destroy();
      return socket;
    });
    dialled.catch(() => undefined);
    connection = await Promise.race([dialled, ended.promise]);
    return await Promise.race([exchange(connection), ended.promise]);
  } catch (error) {
    if (error instanceof EnvdClientError) throw error;
    throw new EnvdClientError("unreachable", `guest could not be reached for ${path}`, { cause: error });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
    connection?.destroy();
  }
}
