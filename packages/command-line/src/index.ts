/**
 * What the three programs share of their command lines: strict flags with an environment variable each, one-line usage
 * errors, `--print-config` with secrets masked, Go-style durations, and the flag tables of their READMEs. It reads no
 * file, opens nothing and never ends the process.
 */
export {
  environmentVariable,
  flagTable,
  parseCommandLine,
  printableConfig,
  UsageError,
  wantsConfig,
} from "./command-line.ts";
export type {
  CommandSpec,
  FlagOption,
  FlagOptions,
  FlagSource,
  FlagValue,
  FlagValues,
  ParsedCommandLine,
  ProgramSpec,
} from "./command-line.ts";
export { durationMs, formatDuration } from "./duration.ts";
