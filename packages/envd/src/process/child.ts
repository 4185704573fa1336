import type { OutputName } from "./event-frames.ts";
import type { ExitStatus } from "./exit-status.ts";
import type { Source } from "./fan-out.ts";

/** What a running command reports. `onEnd` comes once and last. */
export interface ChildEvents {
  onOutput(name: OutputName, bytes: Buffer): void;
  onEnd(status: ExitStatus): void;
}

/** A spawned command, behind pipes or a terminal. */
export interface Child extends Source {
  readonly pid: number;
  /** Input of the other kind is refused with `internal`. */
  readonly kind: "pipe" | "pty";
  /**
   * Writes to the standard input or terminal; resolves when the command can have read it.
   *
   * @throws EnvdError `internal` when the input is closed or was never open
   */
  write(data: Uint8Array): Promise<void>;
  /** Ends the standard input; once more is no error. */
  closeInput(): void;
  resize(cols: number, rows: number): void;
  /** Sends a signal to this process alone; afterwards its end does not wait for others that hold its output. */
  kill(signal: "SIGKILL" | "SIGTERM"): void;
  /** Kills the process and its group at once. */
  destroy(): void;
}

/** Output is passed on in pieces of at most this size. */
export function* pieces(bytes: Buffer, size: number): Generator<Buffer, void> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}
