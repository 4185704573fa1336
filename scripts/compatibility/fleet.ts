import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { createFleet, type Fleet, IMAGE, type Reply } from "../../packages/e2bcompat/src/testing/fleet.ts";
import { guestDaemon } from "../../packages/e2bcompat/src/testing/guest-daemon.ts";
import type { OpenApi } from "./document.ts";

/** What a sandbox's daemon says of itself. */
const SAMPLE = {
  ts: 1,
  cpu_count: 1,
  cpu_used_pct: 1,
  mem_used: 1,
  mem_total: 1,
  mem_cache: 1,
  disk_used: 1,
  disk_total: 1,
};

/** Name of a built template that the fleets hold. */
export const BUILT = "built";

/** The service over scripted nodes, to be asked what it answers. */
export interface AskedFleet extends AsyncDisposable {
  readonly send: Fleet["send"];
  readonly create: Fleet["create"];
  /** Its OpenAPI document. */
  document(): Promise<OpenApi>;
  /** Claims that reached a node. */
  claims(): number;
}

/**
 * Starts the service over one scripted node, with a daemon in every guest. `whole` has a secret,
 * and template builds with an upload folder; without it neither is on.
 */
export async function startFleet(whole: boolean): Promise<AskedFleet> {
  const directory = await mkdtemp(join(tmpdir(), "compatibility-"));
  const fleet = createFleet(whole ? { envdSecret: "a secret", builds: { uploads: { directory } } } : {});
  guestDaemon(fleet.node, { "/metrics": SAMPLE });
  const id = "sb_00000000000000bb";
  const entry = { name: `ns1/${id}`, id, phase: "Running", template: IMAGE, net: "none", size: "small" } as const;
  fleet.node.hold({ archived: false, token: "t", entry });
  await fleet.node.promote(id, `e2b/ns1/${BUILT}`);
  fleet.node.lose(id);
  fleet.publish();
  return {
    send: fleet.send,
    create: fleet.create,
    document: async () => (await fleet.send("GET", "/openapi.json")).body as OpenApi,
    claims: () => fleet.calls("claim").length,
    [Symbol.asyncDispose]: async () => {
      await fleet.server.settled();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** The message of an error answer. */
export function messageOf({ body, text }: Reply): string {
  const message = (body as { message?: unknown } | undefined)?.message;
  return typeof message === "string" ? message : text;
}
