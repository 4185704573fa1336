import type { Front } from "../../src/front.ts";
import type { ControlContext, HeldRows } from "../control/context.ts";
import { LANE_NODES, type LaneMesh, laneRows } from "../control/lanes.ts";
import { heldRig } from "./context.ts";

/** The matrix of the E2B control plane verb by verb, through a shim and a data plane that watches the cluster. */
export function e2bRows(context: ControlContext): HeldRows {
  const held = heldRig(context, "kube-e2b", LANE_NODES);
  let started: Front | undefined;
  return laneRows(context, {
    mesh: async (): Promise<LaneMesh> => {
      const rig = await held.rig();
      return {
        nodes: rig.guests.nodes,
        front: async () => {
          started = await rig.front();
          return started;
        },
      };
    },
    close: async () => {
      await started?.stop();
      await held.close();
    },
  });
}
