import type { IncomingMessage } from "node:http";

import { EnvdError } from "../errors.ts";

const PREFIX = "x-metadata-";
const MAX_KEY_BYTES = 246;
const MAX_TOTAL_BYTES = 4096;
/** What the name prefix of an attribute costs. */
const ENTRY_BYTES = 9;
const PRINTABLE = /^[\x20-\x7e]*$/;

/**
 * The metadata an upload asks for, by lower-case key.
 *
 * @throws EnvdError `invalid_argument` for what could not be stored
 */
export function metadataOf(req: IncomingMessage): ReadonlyMap<string, string> {
  const metadata = new Map<string, string>();
  let total = 0;
  for (const [name, values] of Object.entries(req.headersDistinct)) {
    if (!name.startsWith(PREFIX)) continue;
    const key = name.slice(PREFIX.length);
    const value = values?.[0] ?? "";
    if (key === "" || key.length > MAX_KEY_BYTES || !PRINTABLE.test(key)) {
      throw new EnvdError(
        "invalid_argument",
        `metadata key must have 1 to ${MAX_KEY_BYTES} printable ASCII characters`,
      );
    }
    if (!PRINTABLE.test(value)) {
      throw new EnvdError("invalid_argument", `metadata value of '${key}' must be printable ASCII`);
    }
    total += ENTRY_BYTES + key.length + value.length;
    metadata.set(key, value);
  }
  if (total > MAX_TOTAL_BYTES) {
    throw new EnvdError("invalid_argument", `metadata takes ${total} bytes; at most ${MAX_TOTAL_BYTES} are allowed`);
  }
  return metadata;
}
