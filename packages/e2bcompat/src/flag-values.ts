import { readFile } from "node:fs/promises";
import { E2bError } from "./errors.ts";

/** One command-line option in the shape that yargs takes. */
export interface FlagOption {
  readonly type: "string" | "boolean";
  readonly describe: string;
  readonly group: string;
  readonly alias?: string;
  readonly default?: string | boolean;
  readonly requiresArg?: boolean;
}

/** Parsed arguments, keyed by flag name. */
export type FlagArguments = Readonly<Record<string, unknown>>;

const GROUP = "E2B API:";

/** An option with a value. */
export function textOption(
  describe: string,
  extra: { readonly default?: string; readonly alias?: string } = {},
): FlagOption {
  return { type: "string", requiresArg: true, group: GROUP, describe, ...extra };
}

/** An option that is off unless it is given. */
export function switchOption(describe: string): FlagOption {
  return { type: "boolean", group: GROUP, default: false, describe };
}

/** The one value of an option. Throws `invalid_flag`. */
export function textFlag(argv: FlagArguments, name: string): string | undefined {
  const value = argv[name];
  if (value === undefined || value === null) {
    return undefined;
  }
  if (typeof value !== "string") {
    throw new E2bError("invalid_flag", `--${name}: want one value`);
  }
  return value;
}

/** Throws `invalid_flag`. */
export function switchFlag(argv: FlagArguments, name: string): boolean {
  const value = argv[name] ?? false;
  if (typeof value !== "boolean") {
    throw new E2bError("invalid_flag", `--${name}: want true or false`);
  }
  return value;
}

/** A whole number above 0; an empty value means the default. Throws `invalid_flag`. */
export function countFlag(argv: FlagArguments, name: string, otherwise: number): number {
  const text = textFlag(argv, name) || String(otherwise);
  const value = Number(text);
  if (!/^\d{1,16}$/.test(text) || !Number.isSafeInteger(value) || value < 1) {
    throw new E2bError("invalid_flag", `--${name}: ${JSON.stringify(text)} is not a whole number above 0`);
  }
  return value;
}

/** Runs a check whose error names the flag then. */
export function namingFlag<T>(name: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    throw new E2bError("invalid_flag", `--${name}: ${error instanceof Error ? error.message : "invalid"}`);
  }
}

/** The text of a file that a flag names. Throws `file_unreadable`. */
export async function readFlagFile(what: string, file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    const reason = error instanceof Error ? error.message : "unreadable";
    throw new E2bError("file_unreadable", `read ${what} file ${JSON.stringify(file)}: ${reason}`, { cause: error });
  }
}
