import yargs from "yargs";

/** One flag, in the shape yargs takes it, plus what this module adds. */
export interface FlagOption {
  readonly type: "string" | "boolean" | "number";
  readonly describe: string;
  /** Heading of the flag in the help text. */
  readonly group: string;
  readonly default?: string | number | boolean | undefined;
  readonly alias?: string | readonly string[] | undefined;
  readonly hidden?: boolean | undefined;
  /** The value is masked by `--print-config`. */
  readonly secret?: boolean | undefined;
  /** Every occurrence counts, in order; otherwise the last one wins. */
  readonly repeatable?: boolean | undefined;
}

/** Flags by name, without the leading dashes. */
export type FlagOptions = Readonly<Record<string, FlagOption>>;

/** A parsed flag: a string list for a repeatable one. */
export type FlagValue = string | number | boolean | readonly string[] | undefined;

/** Values by flag name. Every declared flag has an entry; one that was not given carries its default. */
export type FlagValues = Readonly<Record<string, FlagValue>>;

/** One command of a program. The name `$0` is the program called without a command. */
export interface CommandSpec {
  readonly describe: string;
  readonly options: FlagOptions;
  readonly examples?: readonly (readonly [command: string, meaning: string])[];
}

/** What a program accepts. */
export interface ProgramSpec {
  readonly name: string;
  readonly version: string;
  /** Prefix of the environment variables, with its trailing underscore. */
  readonly envPrefix: string;
  readonly commands: Readonly<Record<string, CommandSpec>>;
}

/** Where a value came from. */
export type FlagSource = "flag" | "environment" | "default";

/** The outcome of a command line that could be understood. */
export type ParsedCommandLine =
  | { readonly kind: "text"; readonly text: string }
  | {
      readonly kind: "run";
      readonly command: string;
      readonly values: FlagValues;
      readonly sources: Readonly<Record<string, FlagSource>>;
    };

/** A command line that cannot be understood: one line on stderr, exit status 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

const CONFIG_FLAG = "print-config";
const HELP_GROUP = "Help:";

/** The environment variable of a flag. */
export function environmentVariable(envPrefix: string, flag: string): string {
  return envPrefix + flag.replaceAll("-", "_").toUpperCase();
}

/**
 * Understands a command line. A flag wins over its environment variable, that one over the default; an empty variable
 * counts as unset.
 * @throws {UsageError} for an unknown flag or command, a missing value and a value of the wrong type
 */
export function parseCommandLine(
  program: ProgramSpec,
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): ParsedCommandLine {
  let command = "$0";
  let failure: string | undefined;
  let output = "";
  const parser = yargs()
    .scriptName(program.name)
    .exitProcess(false)
    .detectLocale(false)
    .strict()
    .version(program.version)
    .help("help", "Show this text")
    .wrap(Math.max(80, Math.min(120, process.stdout.columns ?? 100)))
    .parserConfiguration({
      "boolean-negation": false,
      "camel-case-expansion": false,
      "dot-notation": false,
      "greedy-arrays": false,
      "parse-numbers": false,
      "parse-positional-numbers": false,
      "strip-aliased": true,
    })
    .epilogue(
      `Every flag has an environment variable: ${program.envPrefix} and the name in capitals with _ for -, for example ` +
        `${environmentVariable(program.envPrefix, exampleFlag(program))}. A flag wins over its variable; an empty variable is unset. ` +
        `OPERATOR_LOG_LEVEL sets the log level: debug, info (default), warn or error.`,
    );
  for (const [name, spec] of Object.entries(program.commands)) {
    parser.command(
      name,
      spec.describe,
      (builder) => {
        for (const [flag, option] of Object.entries(withConfigFlag(spec.options))) {
          builder.option(flag, {
            type: option.type === "boolean" ? "boolean" : "string",
            requiresArg: option.type !== "boolean",
            describe: option.describe,
            group: option.group,
            defaultDescription: option.default === undefined ? undefined : String(option.default) || "empty",
            ...(option.alias === undefined ? {} : { alias: option.alias }),
            ...(option.hidden === undefined ? {} : { hidden: option.hidden }),
          });
        }
        builder.group(["help", "version"], HELP_GROUP);
        for (const [line, meaning] of spec.examples ?? []) builder.example(line, meaning);
        return builder;
      },
      () => {
        command = name;
      },
    );
  }
  checkTokens(program, argv);
  let parsed: Readonly<Record<string, unknown>> = {};
  void parser.parse(
    [...argv],
    {},
    (error: Error | null | undefined, result: Readonly<Record<string, unknown>>, text: string) => {
      failure = error?.message;
      parsed = result;
      output = text;
    },
  );
  if (failure !== undefined) throw new UsageError(failure);
  if (parsed["help"] === true || parsed["version"] === true) return { kind: "text", text: output };
  const options = withConfigFlag(program.commands[command]?.options ?? {});
  return { kind: "run", command, ...resolveValues(options, parsed, env, program.envPrefix) };
}

/** Whether the caller asked to see the configuration instead of running. */
export function wantsConfig(values: FlagValues): boolean {
  return values[CONFIG_FLAG] === true;
}

/** The effective configuration as JSON: every flag with its value and its source, secrets masked. */
export function printableConfig(
  program: ProgramSpec,
  command: string,
  values: FlagValues,
  sources: Readonly<Record<string, FlagSource>>,
): string {
  const flags: Record<string, { value: unknown; from: FlagSource }> = {};
  for (const [flag, option] of Object.entries(program.commands[command]?.options ?? {})) {
    flags[flag] = { value: printable(values[flag], option.secret === true), from: sources[flag] ?? "default" };
  }
  return JSON.stringify(
    { command: command === "$0" ? program.name : `${program.name} ${command}`, flags },
    undefined,
    2,
  );
}

function withConfigFlag(options: FlagOptions): FlagOptions {
  return {
    ...options,
    [CONFIG_FLAG]: {
      type: "boolean",
      default: false,
      group: HELP_GROUP,
      describe: "Print the effective configuration as JSON, secrets masked, and exit",
    },
  };
}

function exampleFlag(program: ProgramSpec): string {
  return `--${Object.keys(program.commands["$0"]?.options ?? {})[0] ?? "flag"}`.slice(2);
}

/** yargs reads `--switch=maybe` as false and names unknown words late: they are refused here, by name. */
function checkTokens(program: ProgramSpec, argv: readonly string[]): void {
  const everywhere = new Map(Object.values(program.commands).flatMap((spec) => knownFlags(spec.options)));
  const flags: string[] = [];
  const words: string[] = [];
  for (let index = 0; index < argv.length; index += 1) {
    const token = argv[index] ?? "";
    if (!token.startsWith("-") || token === "-") {
      words.push(token);
      continue;
    }
    if (!/^--[^-]/.test(token)) throw new UsageError(`unknown argument ${token}: flags are written --name=value`);
    const equals = token.indexOf("=");
    const flag = token.slice(2, equals === -1 ? undefined : equals);
    flags.push(flag);
    const option = everywhere.get(flag);
    if (option?.type === "boolean" && equals !== -1) toBoolean(token.slice(equals + 1), `--${flag}`);
    if (option !== undefined && option.type !== "boolean" && equals === -1) {
      const value = argv[index + 1];
      if (value === undefined || value.startsWith("--")) throw new UsageError(`--${flag} needs a value`);
      index += 1;
    }
  }
  const [command = "$0", ...more] = words;
  const spec = Object.hasOwn(program.commands, command) ? program.commands[command] : undefined;
  if (spec === undefined || more.length > 0) {
    const known = Object.keys(program.commands).filter((name) => name !== "$0");
    const hint = known.length === 0 ? "" : ` (commands: ${known.join(", ")})`;
    throw new UsageError(`unknown argument ${JSON.stringify(more[0] ?? command)}${hint}`);
  }
  const own = new Map(knownFlags(spec.options));
  for (const flag of flags) {
    if (own.has(flag) || flag === "help" || flag === "version") continue;
    const near = closest(flag, own.keys());
    throw new UsageError(`unknown flag --${flag}${near === undefined ? "" : `; did you mean --${near}?`}`);
  }
}

/** Every spelling of every flag with its option. */
function knownFlags(options: FlagOptions): [string, FlagOption][] {
  return Object.entries(withConfigFlag(options)).flatMap(([flag, option]) =>
    [flag, ...[option.alias ?? []].flat()].map((name): [string, FlagOption] => [name, option]),
  );
}

function resolveValues(
  options: FlagOptions,
  parsed: Readonly<Record<string, unknown>>,
  env: Readonly<Record<string, string | undefined>>,
  envPrefix: string,
): { values: FlagValues; sources: Readonly<Record<string, FlagSource>> } {
  const values: Record<string, FlagValue> = {};
  const sources: Record<string, FlagSource> = {};
  for (const [flag, option] of Object.entries(options)) {
    const variables = [flag, ...[option.alias ?? []].flat()].map((name) => environmentVariable(envPrefix, name));
    const variable = variables.find((name) => (env[name] ?? "") !== "") ?? "";
    const fromEnv = env[variable];
    const given = parsed[flag];
    if (given !== undefined) {
      const all = Array.isArray(given) ? (given as readonly unknown[]) : [given];
      values[flag] = option.repeatable === true ? all.map(String) : convert(all.at(-1), option, `--${flag}`);
      sources[flag] = "flag";
    } else if (fromEnv !== undefined && fromEnv !== "") {
      values[flag] =
        option.repeatable === true ? fromEnv.split(/\s+/).filter(Boolean) : convert(fromEnv, option, variable);
      sources[flag] = "environment";
    } else {
      values[flag] = option.repeatable === true ? [] : option.default;
      sources[flag] = "default";
    }
  }
  return { values, sources };
}

function convert(value: unknown, option: FlagOption, label: string): FlagValue {
  switch (option.type) {
    case "boolean":
      return typeof value === "boolean" ? value : toBoolean(String(value), label);
    case "number": {
      const text = String(value);
      if (!/^-?\d+$/.test(text) || !Number.isSafeInteger(Number(text))) {
        throw new UsageError(`invalid value ${JSON.stringify(text)} for ${label}: want a whole number`);
      }
      return Number(text);
    }
    case "string":
      return String(value);
    default:
      return option.type satisfies never;
  }
}

function toBoolean(text: string, label: string): boolean {
  if (text !== "true" && text !== "false") {
    throw new UsageError(`invalid value ${JSON.stringify(text)} for ${label}: want true or false`);
  }
  return text === "true";
}

function printable(value: FlagValue, secret: boolean): unknown {
  if (value === undefined) return null;
  if (secret) return value === "" ? "" : "***";
  const clean = (text: string): string => text.replaceAll(/\/\/[^/@\s,]*@/g, "//***@");
  if (typeof value === "string") return clean(value);
  return typeof value === "object" ? value.map(clean) : value;
}

/** The known name that differs least, when it differs little. */
function closest(name: string, candidates: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.max(2, Math.floor(name.length / 4)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(name, candidate);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const substitution = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, substitution));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
