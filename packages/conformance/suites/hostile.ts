import { HostileRig, type HostileRigOptions } from "../src/hostile-rig.ts";
import type { ProcessSet } from "../src/processes.ts";
import type { Programs } from "../src/programs.ts";
import type { HostileContext, HostileRow } from "./hostile/context.ts";
import { tableRows } from "./hostile/table-rows.ts";

/** Rows that share a rig. */
export interface HostileLane {
  readonly rows: readonly HostileRow[];
  readonly close: () => Promise<void>;
}

/** What {@link hostileLanes} is told. */
export interface HostileChoices {
  readonly set: ProcessSet;
  readonly programs: Programs;
  readonly isolation: string | undefined;
  readonly brief: boolean;
}

/** Rows of clients, guests and nodes that mean harm, in lanes that run side by side. */
export function hostileLanes(choices: HostileChoices): readonly HostileLane[] {
  return [lane(choices, { logLevel: "debug" }, (context) => [...tableRows(context)])];
}

function lane(
  choices: HostileChoices,
  options: Omit<HostileRigOptions, "set" | "programs">,
  make: (context: HostileContext) => readonly HostileRow[],
): HostileLane {
  const { set, programs } = choices;
  let rig: Promise<HostileRig> | undefined;
  return {
    rows: make({ ...choices, rig: () => (rig ??= HostileRig.start({ set, programs, ...options })) }),
    close: async () => {
      await (await rig)?.close();
    },
  };
}
