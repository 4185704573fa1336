import { HostileRig, type HostileRigOptions } from "../src/hostile-rig.ts";
import type { ProcessSet } from "../src/processes.ts";
import type { Programs } from "../src/programs.ts";
import { answerRows } from "./hostile/answer-rows.ts";
import type { HostileContext, HostileRow } from "./hostile/context.ts";
import { frontRows, hastyRows } from "./hostile/front-rows.ts";
import { guestRows } from "./hostile/guest-rows.ts";
import { hangupRows } from "./hostile/hangup-rows.ts";
import { headerRows } from "./hostile/header-rows.ts";
import { splitRows } from "./hostile/split-rows.ts";
import { http2Rows } from "./hostile/http2-rows.ts";
import { poolRows } from "./hostile/pool-rows.ts";
import { promptRows, streamRows } from "./hostile/stream-rows.ts";
import { tableRows } from "./hostile/table-rows.ts";
import { tlsRows } from "./hostile/tls-rows.ts";
import { NODE_TRICK_PORTS, upgradeRows } from "./hostile/upgrade-rows.ts";

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

/** Lanes of a run. */
export interface HostileLanes {
  /** Each of them needs the machine for itself. */
  readonly busy: readonly HostileLane[];
  /** These wait for timers beside the others. */
  readonly waiting: readonly HostileLane[];
}

/** Rows of clients, guests and nodes that mean harm. */
export function hostileLanes(choices: HostileChoices): HostileLanes {
  return {
    busy: [
      lane(choices, { logLevel: "debug" }, (context) => [
        ...tableRows(context),
        ...answerRows(context),
        ...splitRows(context),
        ...headerRows(context),
        ...promptRows(context),
        ...http2Rows(context),
        ...poolRows(context),
        ...frontRows(context),
      ]),
      lane(choices, { tricks: NODE_TRICK_PORTS }, (context) => [...upgradeRows(context), ...hangupRows(context)]),
      lane(choices, {}, (context) => [...guestRows(context)]),
      lane(choices, { tls: true }, (context) => [...tlsRows(context)]),
    ],
    waiting: [
      lane(choices, {}, (context) => [...streamRows(context)]),
      lane(choices, {}, (context) => [...hastyRows(context)]),
    ],
  };
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
