import { durationMs, textOf, UsageError } from "@org/command-line";
import type { FlagOption, FlagValues } from "@org/command-line";

/** A flag with text. */
export function text(group: string, value: string, describe: string): FlagOption {
  return { type: "string", default: value, group, describe };
}

/** A flag that is on or off. */
export function toggle(group: string, value: boolean, describe: string): FlagOption {
  return { type: "boolean", default: value, group, describe };
}

/** Parts between commas, trimmed, without empty ones. */
export function listOf(values: FlagValues, flag: string): readonly string[] {
  return textOf(values, flag)
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

/** A duration in milliseconds. @throws UsageError for what is none, or is negative */
export function durationOf(values: FlagValues, flag: string): number {
  const given = textOf(values, flag);
  const ms = durationMs(given);
  if (ms === undefined || ms < 0) {
    throw new UsageError(`invalid value ${JSON.stringify(given)} for --${flag}: want a duration such as 90s`);
  }
  return ms;
}

/** A whole number. @throws UsageError for another one, or a negative one */
export function wholeOf(values: FlagValues, flag: string): number {
  const value = values[flag];
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0) {
    throw new UsageError(`invalid value ${String(value)} for --${flag}: want a whole number from 0`);
  }
  return value;
}

/** Refuses what other servers of this kind can and this one cannot. @throws UsageError when the flag is on */
export function refuseSet(values: FlagValues, flag: string, why: string): void {
  const value = values[flag];
  if (value === true || (typeof value === "string" && value !== "")) {
    throw new UsageError(`--${flag} is not supported: ${why}`);
  }
}
