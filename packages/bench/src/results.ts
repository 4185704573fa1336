import { availableParallelism, loadavg, totalmem } from "node:os";
import { fromJsonLine, toJsonLine } from "./figures.ts";
import type { Figure } from "./figures.ts";

/** Where figures come from, as far as it matters. */
export interface Machine {
  readonly node: string;
  readonly platform: string;
  readonly cores: number;
  readonly memoryGiB: number;
  /** Programs that wanted a processor when the run began. */
  readonly load: number;
}

/** A run's figures and where they were measured. */
export interface Results {
  readonly machine: Machine | undefined;
  readonly figures: readonly Figure[];
}

/** This machine, now. */
export function thisMachine(): Machine {
  return {
    node: process.version,
    platform: `${process.platform} ${process.arch}`,
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    load: Math.round((loadavg()[0] ?? 0) * 10) / 10,
  };
}

/** Whether others keep so much of the machine that times over sockets say little. */
export function isBusy({ cores, load }: Machine): boolean {
  return load > cores / 2;
}

/** One JSON object a line: the machine, then the figures. */
export function writeResults({ machine, figures }: Results): string {
  const lines = figures.map(toJsonLine);
  return `${[...(machine === undefined ? [] : [JSON.stringify({ machine })]), ...lines].join("\n")}\n`;
}

/** Reads what {@link writeResults} wrote. @throws Error for a line that is neither a machine nor a figure */
export function readResults(text: string): Results {
  let machine: Machine | undefined;
  const figures: Figure[] = [];
  for (const line of text.split("\n")) {
    if (line.startsWith('{"machine":')) {
      machine = (JSON.parse(line) as { machine: Machine }).machine;
    } else if (line.trim() !== "") {
      figures.push(fromJsonLine(line));
    }
  }
  return { machine, figures };
}
