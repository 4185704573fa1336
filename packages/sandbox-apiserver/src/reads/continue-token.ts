import { badRequest } from "../api-status.ts";

/** Where a list goes on: behind the sandbox with this place, which need not be there any more. */
export interface ContinuePoint {
  /** The version of the first page: a watch from there misses nothing of what changed while pages were read. */
  readonly version: string;
  readonly namespace: string;
  readonly name: string;
  readonly id: string;
  readonly node: string;
}

const VERSION = /^\d{1,20}$/;

/** A token that clients send back as they got it. */
export function formatContinue({ version, namespace, name, id, node }: ContinuePoint): string {
  return Buffer.from(JSON.stringify([version, namespace, name, id, node])).toString("base64url");
}

/** @throws ApiStatusError 400 for anything that {@link formatContinue} did not make. */
export function parseContinue(token: string): ContinuePoint {
  const parts = partsOf(token);
  const [version, namespace, name, id, node] = parts;
  if (
    parts.length !== 5 ||
    version === undefined ||
    namespace === undefined ||
    name === undefined ||
    id === undefined ||
    node === undefined ||
    !VERSION.test(version)
  ) {
    throw badRequest("continue: the token is not one of this server");
  }
  return { version, namespace, name, id, node };
}

function partsOf(token: string): readonly string[] {
  const bytes = Buffer.from(token, "base64url");
  if (bytes.toString("base64url") !== token) {
    return [];
  }
  try {
    const read: unknown = JSON.parse(bytes.toString());
    return Array.isArray(read) && read.every((part) => typeof part === "string") ? read : [];
  } catch {
    return [];
  }
}
