import { conflict } from "../api-status.ts";
import type { SandboxResource } from "../reads/index.ts";

/** What an object must be for a write to happen. */
export interface Preconditions {
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
}

/** @throws ApiStatusError 409 when the object is another one, or not of that version any more. */
export function checkPreconditions({ uid, resourceVersion }: Preconditions, { metadata }: SandboxResource): void {
  if (uid !== undefined && uid !== metadata.uid) {
    throw conflict(
      metadata.name,
      `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${metadata.uid ?? ""}`,
    );
  }
  if (resourceVersion !== undefined && resourceVersion !== metadata.resourceVersion) {
    throw conflict(
      metadata.name,
      `Precondition failed: ResourceVersion in precondition: ${resourceVersion}, ResourceVersion in object meta: ${metadata.resourceVersion ?? ""}`,
    );
  }
}
