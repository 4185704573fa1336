/**
 * What the three programs share of their command lines: strict flags with an environment variable each, one-line usage
 * errors, `--print-config` with secrets masked, Go-style durations, the flags about nodes, and the flag tables of their
 * pages. It reads no file, opens nothing and never ends the process.
 */
export { UsageError } from "./command-line.ts";
export type {
  CommandSpec,
  FlagOption,
  FlagOptions,
  FlagSource,
  FlagValue,
  FlagValues,
  ProgramSpec,
} from "./command-line.ts";
export { withFlagTables } from "./flag-tables.ts";
export { durationMs, formatDuration } from "./duration.ts";
export { addressesOf, meshFlags, meshOptions, nodeTokenOptions, textOf } from "./mesh-flags.ts";
export type { MeshFlags } from "./mesh-flags.ts";
export { runProgram } from "./run-program.ts";
export type { CommandCall, ProgramIo } from "./run-program.ts";
