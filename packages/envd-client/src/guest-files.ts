import type { DialGuest } from "./guest-call.ts";
import { sendToGuest, type SendOptions } from "./send-guest.ts";

/** A file for a guest. */
export interface GuestFile {
  /** Absolute in the guest. */
  readonly path: string;
  /** Who the file belongs to; absent means the daemon's default user. */
  readonly user?: string | undefined;
  readonly content: AsyncIterable<Uint8Array> | Uint8Array;
}

/**
 * Writes a file in a guest, over one connection that is closed afterwards. The content goes through as it comes: no more
 * than a buffer of it is held. After a failure a part of the file may be there.
 *
 * @throws EnvdClientError
 */
export async function putGuestFile(
  dial: DialGuest,
  { path, user, content }: GuestFile,
  options: SendOptions,
): Promise<void> {
  const query = new URLSearchParams({ path, ...(user === undefined ? {} : { username: user }) });
  const target = `/files?${query.toString()}`;
  await sendToGuest(dial, { method: "POST", target, contentType: "application/octet-stream", body: content }, options);
}
