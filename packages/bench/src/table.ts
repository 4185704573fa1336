import { met } from "./figures.ts";
import type { Figure, Unit } from "./figures.ts";

const UNITS: Readonly<Record<Unit, string>> = {
  ns: "ns",
  us: "µs",
  ms: "ms",
  B: "B",
  "/s": "/s",
  "MB/s": "MB/s",
  count: "",
  x: "×",
};

const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** A number with three digits and its unit; long times and big sizes move to the next unit. */
export function amount(value: number, unit: Unit): string {
  if (unit === "us" && Math.abs(value) >= 1000) {
    return amount(value / 1000, "ms");
  }
  if (unit === "B" && Math.abs(value) >= 10_000) {
    return `${digits.format(value / 1024)} KiB`;
  }
  if (unit === "x" && value > 0 && value < 0.001) {
    return "< 0.001 ×";
  }
  return `${digits.format(value)} ${UNITS[unit]}`.trim();
}

function barText({ bar, unit }: Figure): string {
  if (bar === undefined) {
    return "";
  }
  const side = bar.side === "at most" ? "≤" : "≥";
  return `${side} ${bar.on === "ratio" ? amount(bar.limit, "x") : amount(bar.limit, unit)}`;
}

function metText(figure: Figure): string {
  const is = met(figure);
  return is === undefined ? "" : is ? "yes" : "**no**";
}

const HEADINGS = ["figure", "fleet", "value", "baseline", "ratio", "bar", "met", "published"] as const;

function cells(figure: Figure): string[] {
  const { name, fleet, value, unit, baseline, against, ratio, published } = figure;
  return [
    name,
    fleet,
    amount(value, unit),
    baseline === undefined ? "" : `${amount(baseline, unit)}${against === undefined ? "" : `: ${against}`}`,
    ratio === undefined ? "" : amount(ratio, "x"),
    barText(figure),
    metText(figure),
    published ?? "",
  ];
}

function columns(rows: readonly (readonly string[])[]): number[] {
  return HEADINGS.map((_heading, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
}

/** The figures for a terminal. */
export function textTable(figures: readonly Figure[]): string {
  const rows = [[...HEADINGS], ...figures.map((figure) => cells(figure).map((cell) => cell.replaceAll("**", "")))];
  const widths = columns(rows);
  return rows
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** The figures for a page. Columns are as wide as their widest cell, as the formatter wants them. */
export function markdownTable(figures: readonly Figure[]): string {
  const rows = [
    [...HEADINGS],
    ...figures.map((figure) => ["", ...cells(figure).slice(1)].with(0, `\`${figure.name}\``)),
  ];
  const widths = columns(rows);
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(" | ")} |`;
  const [head = [], ...body] = rows;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...body.map(line)].join("\n");
}
