import { parseCommandLine, printableConfig, UsageError, wantsConfig } from "./command-line.ts";
import type { FlagSource, FlagValues, ProgramSpec } from "./command-line.ts";

/** A command line that asks for a command. */
export interface CommandCall {
  readonly command: string;
  readonly values: FlagValues;
  readonly sources: Readonly<Record<string, FlagSource>>;
}

/** What {@link runProgram} needs of the process. */
export interface ProgramIo {
  /** Arguments after the program's name. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
}

/**
 * Runs a command line and resolves with the exit status: 0, 1 after a failure, 2 after a usage error. Failures are one
 * line on stderr, `<name>: <reason>`. `check` reads the values and gives back what runs; it throws {@link UsageError}, or
 * an error with the code `invalid_flag`, for values that make no sense, also when only the configuration is asked for.
 */
export async function runProgram(
  program: ProgramSpec,
  io: ProgramIo,
  check: (call: CommandCall) => () => Promise<void>,
): Promise<number> {
  try {
    const parsed = parseCommandLine(program, io.argv, io.env);
    if (parsed.kind === "text") {
      io.stdout(`${parsed.text}\n`);
      return 0;
    }
    const run = check(parsed);
    if (wantsConfig(parsed.values)) {
      io.stdout(`${printableConfig(program, parsed.command, parsed.values, parsed.sources)}\n`);
      return 0;
    }
    await run();
    return 0;
  } catch (error) {
    const usage = error instanceof UsageError || hasCode(error, "invalid_flag");
    io.stderr(
      `${program.name}: ${reasonOf(error)
        .trim()
        .replaceAll(/\s*\n\s*/g, "; ")}\n`,
    );
    if (usage) io.stderr(`usage: ${usageLine(program)}; \`${program.name} --help\` lists the flags\n`);
    return usage ? 2 : 1;
  }
}

/** The message, and what the system said, if that is behind it and the message does not say so itself. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { message, cause } = error;
  const system = cause instanceof Error && "syscall" in cause && !message.includes(cause.message);
  return system ? `${message}: ${cause.message}` : message;
}

function usageLine(program: ProgramSpec): string {
  const commands = Object.keys(program.commands).filter((name) => name !== "$0");
  return [program.name, ...(commands.length === 0 ? [] : [`[${commands.join("|")}]`]), "[--flag=value …]"].join(" ");
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
