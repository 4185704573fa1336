import type { HarnessRow } from "../../src/harness-rows.ts";
import type { HostileRig } from "../../src/hostile-rig.ts";
import type { ProcessSet } from "../../src/processes.ts";
import type { Programs } from "../../src/programs.ts";

/** A row of the suite. */
export interface HostileRow extends HarnessRow {
  /** Part of the quick run. */
  readonly quick: boolean;
}

/** What makes rows. */
export interface HostileContext {
  readonly set: ProcessSet;
  readonly programs: Programs;
  readonly isolation: string | undefined;
  /** Rows that repeat something do so less often. */
  readonly brief: boolean;
  /** The rig that the rows of a lane share, started with the first of them. */
  readonly rig: () => Promise<HostileRig>;
}

/** Makes a row on the rig of its lane, which is judged after it. */
export function rigRow(
  context: HostileContext,
  id: string,
  title: string,
  row: (rig: HostileRig) => Promise<void>,
  quick = false,
): HostileRow {
  return {
    id,
    title,
    quick,
    run: async () => {
      const rig = await context.rig();
      await row(rig);
      await rig.judge();
    },
  };
}

/** A number of repetitions: fewer when the run is brief. */
export function times(context: HostileContext, full: number, brief: number): number {
  return context.brief ? brief : full;
}

/** Collects what is wrong with the cases of a table, so that one run tells all of it. */
export class Findings {
  readonly #found: string[] = [];

  /** Notes a failure of a case. */
  add(name: string, what: string): void {
    this.#found.push(`${name}: ${what}`);
  }

  /** Throws when there was any. */
  settle(): void {
    if (this.#found.length > 0) {
      throw new Error(`${this.#found.length} cases\n${this.#found.join("\n")}`);
    }
  }
}
