import { setTimeout as sleep } from "node:timers/promises";
import type { CommandEnd } from "@org/envd-client";
import { E2bError } from "../errors.ts";
import type { BuildGuest, OnLine, RunAs } from "./build-guest.ts";
import { failureOf } from "./run-steps.ts";

/** A start command and how to tell that it is of use. */
export interface Serving {
  readonly guest: BuildGuest;
  readonly state: RunAs;
  readonly startCommand: string | undefined;
  readonly readyCommand: string | undefined;
  readonly onLine: OnLine;
  readonly signal: AbortSignal;
}

const READY_PAUSE_MS = 1000;
/** Time for a start command to fail at once, when nothing tells that it is ready. */
const SETTLE_MS = 1000;

/**
 * Starts the start command in the background and waits until the ready command ends with 0. The start command goes on
 * afterwards; when it fails before, the build does. Throws `guest_failed`, what guests throw, and the signal's reason.
 */
export async function startServing(serving: Serving): Promise<void> {
  const { guest, state, startCommand, onLine, signal } = serving;
  if (startCommand === undefined) {
    await untilReady(serving, undefined);
    return;
  }
  const listening = new AbortController();
  const onAbort = (): void => listening.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const started = Promise.withResolvers<void>();
    const options = { onLine, onStart: started.resolve, signal: listening.signal };
    const ended = guest.shell(startCommand, state, options);
    ended.then(() => started.resolve(), started.reject);
    await started.promise;
    // One that ends well has left something behind in the background.
    const failed = ended.then((end) => mustHaveEndedWell(startCommand, end));
    failed.catch(() => undefined);
    await untilReady(serving, failed);
  } finally {
    signal.removeEventListener("abort", onAbort);
    listening.abort();
  }
}

function mustHaveEndedWell(command: string, end: CommandEnd): Promise<never> {
  const failure = failureOf(command, end);
  if (failure !== undefined) {
    throw new E2bError("guest_failed", `the start command failed: ${failure}`);
  }
  return new Promise<never>(() => undefined);
}

async function untilReady(serving: Serving, failed: Promise<never> | undefined): Promise<void> {
  const { guest, state, readyCommand, onLine, signal } = serving;
  const unless = <T>(promise: Promise<T>): Promise<T> =>
    failed === undefined ? promise : Promise.race([promise, failed]);
  if (readyCommand === undefined) {
    if (failed !== undefined) {
      await unless(sleep(SETTLE_MS, undefined, { signal }));
    }
    return;
  }
  for (;;) {
    const end = await unless(guest.shell(readyCommand, state, { onLine: (_, line) => onLine("debug", line) }));
    if (end.exitCode === 0) {
      return;
    }
    await unless(sleep(READY_PAUSE_MS, undefined, { signal }));
  }
}
