import type { Sandbox, SandboxStore } from "@org/scale";
import { internalError } from "../api-status.ts";
import type { SandboxReads } from "../reads/index.ts";

/** What the verbs of sandboxes work with. */
export interface VerbParts {
  readonly store: SandboxStore;
  readonly reads: SandboxReads;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly sandboxUnique: boolean;
  /** Names that a create is at work on, as `<namespace>/<name>`, where names are held by one sandbox only. */
  readonly claiming: Set<string>;
}

/**
 * The sandbox of a name, with the node and the claim id that verbs need.
 * @throws ScaleError `not_found`
 * @throws ApiStatusError 500 when either is missing: nothing is ever done by name alone.
 */
export async function ownedSandbox(
  { store }: VerbParts,
  { namespace, name, signal }: { readonly namespace: string; readonly name: string; readonly signal: AbortSignal },
): Promise<Sandbox> {
  const sandbox = await store.get(namespace, name, { signal });
  if (sandbox.node === "" || sandbox.id === "") {
    throw internalError(`sandbox "${namespace}/${name}" has no node or no claim id yet`);
  }
  return sandbox;
}
