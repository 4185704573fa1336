import { checkpointRecordSchema, type CheckpointRecord } from "@org/sandboxd-client/wire";
import type { KeptCapture } from "../host/capture-store.ts";
import type { Caller } from "./access.ts";
import { mayChange } from "./roster.ts";

/** One checkpoint of this node. */
export interface Checkpoint {
  readonly record: CheckpointRecord;
  readonly capture: KeptCapture;
}

/** The checkpoints of a node. */
export interface Checkpoints {
  find(id: string): Checkpoint | undefined;
  /** Those of this caller, newest first. */
  list(caller: Caller): readonly CheckpointRecord[];
  add(checkpoint: Checkpoint): void;
  /** Resolves `false` for one that is unknown, or another tenant's. */
  remove(id: string, caller: Caller): Promise<boolean>;
}

/** What is noted with a capture, so that a later node knows it again. */
export function checkpointNote(record: CheckpointRecord): unknown {
  return { checkpoint: record };
}

/** The checkpoint that a capture of an earlier run is, if it is one. */
export function readCheckpoint(capture: KeptCapture): Checkpoint | undefined {
  const { note } = capture;
  if (typeof note !== "object" || note === null || !("checkpoint" in note)) {
    return undefined;
  }
  const parsed = checkpointRecordSchema.safeParse(note.checkpoint);
  return parsed.success ? { record: parsed.data, capture } : undefined;
}

/** Makes the table. */
export function createCheckpoints(found: Iterable<Checkpoint>): Checkpoints {
  const sorted = [...found].sort((a, b) => Date.parse(a.record.created_at) - Date.parse(b.record.created_at));
  /** Oldest first. */
  const byId = new Map(sorted.map((checkpoint) => [checkpoint.record.id, checkpoint]));
  return {
    find: (id) => byId.get(id),
    list: (caller) =>
      [...byId.values()]
        .filter(({ record }) => mayChange(caller, record.tenant))
        .map(({ record }) => record)
        .toReversed(),
    add: (checkpoint) => void byId.set(checkpoint.record.id, checkpoint),
    remove: async (id, caller) => {
      const checkpoint = byId.get(id);
      if (checkpoint === undefined || !mayChange(caller, checkpoint.record.tenant)) {
        return false;
      }
      byId.delete(id);
      await checkpoint.capture.remove();
      return true;
    },
  };
}
