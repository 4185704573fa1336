import { pause, type Timing } from "@org/kubeinventory/client";

/** Options of {@link RunLoop}. */
export interface RunLoopOptions {
  readonly timing: Timing;
  /** Does the work once. Resolves with whether it succeeded; must not reject. */
  readonly run: (signal: AbortSignal) => Promise<boolean>;
  /** The longest rest between two runs, in milliseconds. */
  readonly intervalMs: number;
}

/** The shortest rest between two runs, in milliseconds: a burst of reasons is one run. */
const GATHER_MS = 1000;
const LONGEST_BACKOFF_MS = 30_000;

/** Runs some work whenever there is a reason and at intervals, one run at a time. Reasons that come together are one. */
export class RunLoop {
  readonly #options: RunLoopOptions;
  readonly #gatherMs: number;
  #wanted = false;
  #wake: () => void = () => undefined;

  constructor(options: RunLoopOptions) {
    this.#options = options;
    this.#gatherMs = Math.min(GATHER_MS, options.intervalMs);
  }

  /** Asks for a run: at once after a rest, else when the one that runs is over. */
  want(): void {
    this.#wanted = true;
    this.#wake();
  }

  /** Runs until the signal fires, and resolves when the last run is over. The first run is at once. */
  async until(signal: AbortSignal): Promise<void> {
    const { timing, run, intervalMs } = this.#options;
    let failures = 0;
    while (!signal.aborted) {
      this.#wanted = false;
      failures = (await run(signal)) ? 0 : failures + 1;
      if (failures > 0) {
        await pause(timing, Math.min(LONGEST_BACKOFF_MS, intervalMs * 2 ** Math.min(failures - 1, 16)), signal);
      } else {
        await pause(timing, this.#gatherMs, signal);
        await this.#reason(intervalMs - this.#gatherMs, signal);
      }
    }
  }

  async #reason(ms: number, signal: AbortSignal): Promise<void> {
    if (this.#wanted) {
      return;
    }
    const rest = new AbortController();
    const end = (): void => rest.abort();
    this.#wake = end;
    signal.addEventListener("abort", end, { once: true });
    await pause(this.#options.timing, ms, signal.aborted ? signal : rest.signal);
    signal.removeEventListener("abort", end);
    this.#wake = () => undefined;
  }
}
