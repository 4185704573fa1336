import type { HarnessRow } from "../../src/harness-rows.ts";
import { type KubeRig, type Shim, startKubeRig } from "../../src/kube-rig.ts";
import type { GuestMeshOptions } from "../../src/guest-mesh.ts";
import type { ControlContext, HeldRows } from "../control/context.ts";

/** A lane of the suite: a rig, a shim over it, and rows that use both. */
export interface KubeLane {
  readonly rig: KubeRig;
  readonly shim: Shim;
}

/** A row of a lane. */
export type KubeCheck = readonly [id: string, title: string, run: (lane: KubeLane) => Promise<void>];

/** A rig that is started by the first row that needs it. */
export function heldRig(
  { set, programs, isolation }: ControlContext,
  label: string,
  options: Omit<GuestMeshOptions, "isolation">,
): { readonly rig: () => Promise<KubeRig>; readonly close: () => Promise<void> } {
  let started: Promise<KubeRig> | undefined;
  return {
    rig: () => (started ??= startKubeRig(set, programs, label, { isolation, ...options })),
    close: async () => {
      await (await started?.catch(() => undefined))?.[Symbol.asyncDispose]();
    },
  };
}

/** Rows over one rig with one shim. */
export function laneOf(
  context: ControlContext,
  label: string,
  options: Omit<GuestMeshOptions, "isolation">,
  checks: readonly KubeCheck[],
): HeldRows {
  const held = heldRig(context, label, options);
  let lane: Promise<KubeLane> | undefined;
  const ready = (): Promise<KubeLane> =>
    (lane ??= (async () => {
      const rig = await held.rig();
      return { rig, shim: await rig.shim() };
    })());
  const rows = checks.map(([id, title, run]): HarnessRow => ({ id, title, run: async () => run(await ready()) }));
  return {
    rows,
    close: async () => {
      const started = await lane?.catch(() => undefined);
      await started?.shim.process.stop(5_000);
      await held.close();
    },
  };
}
