import { met } from "./figures.ts";
import type { Results } from "./results.ts";
import { isBusy } from "./results.ts";
import { markdownTable } from "./table.ts";

const BEGIN = "<!-- figures -->";
const END = "<!-- end of figures -->";

function machineLine({ machine }: Results): string {
  if (machine === undefined) {
    return "";
  }
  const { node, platform, cores, memoryGiB, load } = machine;
  const busy = isBusy(machine)
    ? " Others kept the machine busy meanwhile: times over sockets are longer than they would be alone."
    : "";
  return `Node ${node} on ${platform}, ${cores} cores, ${memoryGiB} GiB; load ${load} when the run began.${busy}\n\n`;
}

/** What a page says of a run. */
export function resultsSection(results: Results): string {
  const judged = results.figures.filter((figure) => met(figure) !== undefined);
  const missed = judged.filter((figure) => met(figure) === false);
  const summary = `${judged.length} of ${results.figures.length} figures have a bar; ${missed.length} of them miss it.`;
  return `${machineLine(results)}${summary}\n\n${markdownTable(results.figures)}`;
}

/**
 * A page with its figures replaced by those of a run.
 * @throws Error for a page without the marks between which they stand
 */
export function withResults(page: string, results: Results): string {
  const begin = page.indexOf(BEGIN);
  const end = page.indexOf(END);
  if (begin < 0 || end < begin) {
    throw new Error(`the page has no place for figures: ${BEGIN} and ${END}`);
  }
  return `${page.slice(0, begin + BEGIN.length)}\n\n${resultsSection(results)}\n\n${page.slice(end)}`;
}
