import { randomBytes } from "node:crypto";

/** No vowels and no look-alikes: names spell no words and read well aloud. */
const ALPHABET = "bcdfghjklmnpqrstvwxz2456789";
/** Bytes from here on would favour the first letters. */
const FAIR = 256 - (256 % ALPHABET.length);
const LENGTH = 5;

/** A name to claim a sandbox under: `e2b-` and five random characters. */
export function randomSandboxName(random: (size: number) => Uint8Array = randomBytes): string {
  let suffix = "";
  while (suffix.length < LENGTH) {
    for (const byte of random(2 * LENGTH)) {
      if (byte < FAIR && suffix.length < LENGTH) {
        suffix += ALPHABET.charAt(byte % ALPHABET.length);
      }
    }
  }
  return `e2b-${suffix}`;
}
