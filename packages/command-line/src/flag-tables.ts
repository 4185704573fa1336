import { environmentVariable } from "./command-line.ts";
import type { FlagOptions, ProgramSpec } from "./command-line.ts";

const SECTION = /(<!-- flags:start (\S+) -->\n)[\s\S]*?(<!-- flags:end -->)/g;

/**
 * A Markdown page with its flag tables made anew. A table stands between `<!-- flags:start <command> -->` and
 * `<!-- flags:end -->`; the command `$0` is the program itself, and the table of another command leaves out the flags
 * that the program itself has.
 * @throws TypeError for a section of a command that does not exist, and for a page without any section
 */
export function withFlagTables(page: string, program: ProgramSpec): string {
  let sections = 0;
  const main = program.commands["$0"]?.options ?? {};
  const text = page.replaceAll(SECTION, (_all, start: string, command: string, end: string) => {
    const spec = program.commands[command];
    if (spec === undefined) throw new TypeError(`no command ${command}`);
    sections += 1;
    const own = Object.entries(spec.options).filter(([flag]) => command === "$0" || !(flag in main));
    return `${start}\n${flagTable(Object.fromEntries(own), program.envPrefix)}\n\n${end}`;
  });
  if (sections === 0) throw new TypeError("no section for flags");
  return text;
}

function flagTable(options: FlagOptions, envPrefix: string): string {
  const rows = Object.entries(options)
    .filter(([, option]) => option.hidden !== true)
    .map(([flag, option]) => [
      [flag, ...[option.alias ?? []].flat()].map((name) => `\`--${name}\``).join(", "),
      `\`${environmentVariable(envPrefix, flag)}\``,
      option.default === undefined || option.default === "" ? "" : `\`${option.default}\``,
      option.describe.replaceAll("|", "\\|").replaceAll("<", "&lt;"),
    ]);
  const table = [["flag", "environment", "default", "meaning"], ...rows];
  // Columns are padded the way formatters do it, so that they find nothing to change.
  const widths = [0, 1, 2, 3].map((column) => Math.max(...table.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const [head = [], ...body] = table;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...body.map(line)].join("\n");
}
