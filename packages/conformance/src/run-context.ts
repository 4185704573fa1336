import type { Args } from "./args.ts";
import type { ProcessSet } from "./processes.ts";
import type { Programs } from "./programs.ts";
import type { ResultCollector } from "./results.ts";

/** Everything a run works with. */
export interface RunContext {
  readonly set: ProcessSet;
  readonly programs: Programs;
  readonly args: Args;
  readonly collector: ResultCollector;
  readonly say: (line: string) => void;
  /** What must be done before the run may be ended from outside: nodes that are not its own keep what it made. */
  readonly undo: Set<() => Promise<void>>;
  /** Versions of the clients that ran, by id. */
  readonly versions: Map<string, string>;
}
