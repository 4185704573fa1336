import { EnvdClientError } from "./errors.ts";
import type { DialGuest } from "./guest-call.ts";
import { sendToGuest, type SendOptions } from "./send-guest.ts";

/** Path of the daemon's own boot route. E2B's daemon has neither this path nor any with this prefix. */
export const GUEST_BOOT_PATH = "/_sandbox/boot";

/** Longest boot document, in bytes. */
export const MAX_BOOT_BYTES: number = 2 * 1024 * 1024;

/**
 * What a guest starts with when it is made out of the files of another one and not out of its memory: then nothing runs
 * in it, and its daemon knows nothing of what the other one was told.
 */
export interface BootDocument {
  /** User of commands that name none. */
  readonly user: string;
  /** Directory of commands that name none. */
  readonly workdir: string;
  /** Variables of every command, below those of `/init`. Values are secrets. */
  readonly environment: Readonly<Record<string, string>>;
  /**
   * User of the two commands below.
   * @default user
   */
  readonly startUser?: string | undefined;
  /** Shell command that is started at once, and left running. A document without one keeps that of the document before. */
  readonly startCommand?: string | undefined;
  /** Shell command that ends with 0 once the started one is of use. Waited for a few seconds. */
  readonly readyCommand?: string | undefined;
}

/**
 * Leaves a boot document in the files of a guest. Resolves `false` when its daemon keeps none, as E2B's: then its node
 * is one that copies memory.
 *
 * @throws EnvdClientError
 */
export async function putBootDocument(dial: DialGuest, boot: BootDocument, options: SendOptions): Promise<boolean> {
  const body = Buffer.from(JSON.stringify(boot));
  try {
    await sendToGuest(dial, { method: "PUT", target: GUEST_BOOT_PATH, contentType: "application/json", body }, options);
    return true;
  } catch (error) {
    if (error instanceof EnvdClientError && error.status === 404) return false;
    throw error;
  }
}
