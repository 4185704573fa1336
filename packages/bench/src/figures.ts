/** What a figure must come to. */
export interface Bar {
  readonly limit: number;
  /** What is held against the limit: the ratio to the baseline, or the value itself. */
  readonly on: "ratio" | "value";
  readonly side: "at most" | "at least";
}

/** One measured number. */
export interface Figure {
  /** Stable: scripts look for it. */
  readonly name: string;
  /** Nodes × sandboxes on each, as in `200x2000`; empty where the fleet does not matter. */
  readonly fleet: string;
  readonly value: number;
  readonly unit: Unit;
  /** The baseline's value in the same run, in the same unit. */
  readonly baseline?: number | undefined;
  /** What the baseline is, in a few words. */
  readonly against?: string | undefined;
  /** Median over the rounds of value by baseline. It need not be the quotient of the two medians. */
  readonly ratio?: number | undefined;
  /** Only where the project has promised one. */
  readonly bar?: Bar | undefined;
  /** What the original project published for the same operation on its own machine. */
  readonly published?: string | undefined;
}

/** Units of figures. */
export type Unit = "ns" | "us" | "ms" | "B" | "/s" | "MB/s" | "count" | "x";

/** Whether a figure meets its bar; `undefined` when it has none. A missing ratio meets none. */
export function met(figure: Figure): boolean | undefined {
  const { bar } = figure;
  if (bar === undefined) {
    return undefined;
  }
  const held = bar.on === "ratio" ? figure.ratio : figure.value;
  if (held === undefined || Number.isNaN(held)) {
    return false;
  }
  return bar.side === "at most" ? held <= bar.limit : held >= bar.limit;
}

function rounded(value: number | undefined): number | undefined {
  return value === undefined ? undefined : Number(value.toPrecision(4));
}

/** A figure as one line of JSON. */
export function toJsonLine(figure: Figure): string {
  const { name, fleet, value, unit, baseline, against, ratio, bar, published } = figure;
  return JSON.stringify({
    name,
    fleet,
    value: rounded(value),
    unit,
    baseline: rounded(baseline),
    against,
    ratio: rounded(ratio),
    bar: bar?.limit,
    barOn: bar?.on,
    barSide: bar?.side,
    met: met(figure),
    published,
  });
}

/** Reads a line of {@link toJsonLine}. @throws Error for anything else. */
export function fromJsonLine(line: string): Figure {
  const read = JSON.parse(line) as Omit<Figure, "bar"> & {
    bar?: number;
    barOn?: Bar["on"];
    barSide?: Bar["side"];
    met?: boolean;
  };
  const { bar, barOn, barSide, met: _met, ...figure } = read;
  if (typeof figure.name !== "string" || typeof figure.value !== "number" || typeof figure.unit !== "string") {
    throw new TypeError(`not a figure: ${line}`);
  }
  return bar === undefined || barOn === undefined || barSide === undefined
    ? figure
    : { ...figure, bar: { limit: bar, on: barOn, side: barSide } };
}
