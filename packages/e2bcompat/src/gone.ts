import { ScaleError } from "@org/scale";

/** Throws `aborted` when the client is gone. */
export function stopIfGone(signal: AbortSignal): void {
  if (signal.aborted) {
    throw new ScaleError("aborted", "the client closed the connection while its sandbox was made");
  }
}
