import { claimIdFromPublic, matchesSandboxId } from "@org/sandbox-address";
import { guestAccessToken } from "@org/scale";
import type { Sandbox, SandboxStore } from "@org/scale";
import type { Call } from "./call.ts";
import type { GuestLogs } from "./guest-logs.ts";
import type { Settings } from "./options.ts";
import type { Templates } from "./template-catalog.ts";

/** What every handler works with. */
export interface Service {
  readonly settings: Settings;
  readonly store: SandboxStore;
  readonly templates: () => Templates;
  readonly guestLogs: GuestLogs;
  /** A name to claim the next sandbox under. */
  readonly newName: () => string;
  /** Releases a sandbox that nobody will collect, in the background and whatever happens to its caller. */
  readonly abandon: (node: string, id: string) => Promise<void>;
}

/** The sandbox that a request names, in the namespace of its key. Throws `not_found`. */
export function findSandbox(service: Service, call: Call, asked: string): Promise<Sandbox> {
  call.sandboxId = asked;
  const matches = (claimId: string): boolean => matchesSandboxId(claimId, asked);
  return service.store.getByClaimId(call.namespace, claimIdFromPublic(asked), matches, { signal: call.signal });
}

/** The token that clients present for a sandbox; `undefined` on nodes that give sandboxes none. */
export function accessTokenOf(settings: Settings, claimToken: string | undefined): string | undefined {
  return claimToken === undefined || claimToken === "" ? undefined : guestAccessToken(claimToken, settings.envdSecret);
}
