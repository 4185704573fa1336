import { claimIdFromPublic, matchesSandboxId } from "@org/sandbox-address";
import { guestAccessToken } from "@org/scale";
import type { Sandbox, SandboxStore } from "@org/scale";
import type { Builds } from "./builds/build-registry.ts";
import type { UploadStore } from "./builds/upload-store.ts";
import type { Call } from "./call.ts";
import type { CreateLimits } from "./create-limits.ts";
import type { GuestLogs } from "./guest-logs.ts";
import type { GuestMetrics } from "./guest-metrics.ts";
import type { KeyedSandboxes } from "./keyed-sandboxes.ts";
import type { KnownEnds } from "./known-ends.ts";
import type { Once } from "./once.ts";
import type { Settings } from "./options.ts";
import type { SandboxGate } from "./sandbox-gate.ts";
import type { SharedWakes } from "./shared-wakes.ts";
import type { Snapshots } from "./snapshots.ts";
import type { Templates } from "./template-catalog.ts";
import type { TemplateWrites } from "./template-writes.ts";

/** What every handler works with. */
export interface Service {
  readonly settings: Settings;
  readonly store: SandboxStore;
  readonly templates: () => Templates;
  readonly templateWrites: TemplateWrites;
  /** When this API was made, in RFC 3339: the age of what nobody tells the age of. */
  readonly since: string;
  readonly guestLogs: GuestLogs;
  readonly guestMetrics: GuestMetrics;
  readonly snapshots: Snapshots;
  readonly limits: CreateLimits;
  /** Creates with an `Idempotency-Key`. */
  readonly once: Once;
  readonly keyed: KeyedSandboxes;
  /** What is known of sandboxes that are gone. */
  readonly ends: KnownEnds;
  /** Keeps a pause and a wake of one sandbox apart. */
  readonly gate: SandboxGate;
  readonly wakes: SharedWakes;
  /** Absent when builds are off. */
  readonly builds: Builds | undefined;
  readonly uploads: UploadStore | undefined;
  /** A name to claim the next sandbox under. */
  readonly newName: () => string;
  /** Releases a sandbox that nobody will collect, in the background and whatever happens to its caller. */
  readonly abandon: (node: string, id: string) => Promise<void>;
}

/** Whatever a client writes into a path must not fill the log. */
const MAX_LOGGED_ID = 128;

/** The sandbox that a request is about, in the namespace of its key. Throws `not_found`. */
export function findSandbox(service: Service, call: Call, asked: string): Promise<Sandbox> {
  call.sandboxId = asked.slice(0, MAX_LOGGED_ID);
  return lookUp(service, call, asked);
}

/** One of several sandboxes that a request names, in the namespace of its key. Throws `not_found`. */
export async function lookUp(service: Service, call: Call, asked: string): Promise<Sandbox> {
  const matches = (claimId: string): boolean => matchesSandboxId(claimId, asked);
  const { store, ends } = service;
  const found = await store.getByClaimId(call.namespace, claimIdFromPublic(asked), matches, { signal: call.signal });
  ends.seen(found);
  return found;
}

/** The token that clients present for a sandbox; `undefined` on nodes that give sandboxes none. */
export function accessTokenOf(settings: Settings, claimToken: string | undefined): string | undefined {
  return claimToken === undefined || claimToken === "" ? undefined : guestAccessToken(claimToken, settings.envdSecret);
}
