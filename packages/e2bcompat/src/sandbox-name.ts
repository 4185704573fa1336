import { randomFillSync } from "node:crypto";

/** No vowels and no look-alikes: names spell no words and read well aloud. */
const ALPHABET = "bcdfghjklmnpqrstvwxz2456789";
/** Bytes from here on would favour the first letters. */
const FAIR = 256 - (256 % ALPHABET.length);
const LENGTH = 5;
const POOL_BYTES = 4096;

/**
 * Makes a source of names to claim sandboxes under: `e2b-` and five random characters. Random bytes are drawn many at a
 * time, since asking the system for a few per sandbox costs more than the rest of a request's checks.
 */
export function createSandboxNames(fill: (pool: Uint8Array) => unknown = randomFillSync): () => string {
  const pool = new Uint8Array(POOL_BYTES);
  let at = POOL_BYTES;
  return () => {
    let name = "e2b-";
    for (let left = LENGTH; left > 0;) {
      if (at === POOL_BYTES) {
        fill(pool);
        at = 0;
      }
      const byte = pool[at] ?? FAIR;
      at += 1;
      if (byte < FAIR) {
        name += ALPHABET.charAt(byte % ALPHABET.length);
        left -= 1;
      }
    }
    return name;
  };
}
