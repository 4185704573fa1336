import { type GuestMesh, type GuestMeshOptions, startGuestMesh } from "../../src/guest-mesh.ts";
import type { HarnessRow } from "../../src/harness-rows.ts";
import type { ProcessSet } from "../../src/processes.ts";
import type { Programs } from "../../src/programs.ts";

/** What makes rows of the control plane. */
export interface ControlContext {
  readonly set: ProcessSet;
  readonly programs: Programs;
  readonly isolation: string | undefined;
}

/** Rows that run one after the other on what they hold together. */
export interface HeldRows {
  readonly rows: readonly HarnessRow[];
  readonly close: () => Promise<void>;
}

/** A mesh that the first row of a lane starts and the lane's end stops. */
export function laneMesh(
  { set, programs, isolation }: ControlContext,
  label: string,
  options: Omit<GuestMeshOptions, "isolation">,
): { readonly mesh: () => Promise<GuestMesh>; readonly close: () => Promise<void> } {
  let started: Promise<GuestMesh> | undefined;
  return {
    mesh: () => (started ??= startGuestMesh(set, programs, label, { isolation, ...options })),
    close: async () => {
      await (await started?.catch(() => undefined))?.[Symbol.asyncDispose]();
    },
  };
}
