import { type IncomingMessage, request } from "node:http";
import type { Duplex } from "node:stream";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

import { EnvdClientError } from "./errors.ts";
import { callGuest, type DialGuest } from "./guest-call.ts";
import { guestMessageIn, shortAnswer } from "./guest-words.ts";

/** What {@link sendToGuest} sends. */
export interface GuestUpload {
  readonly method: "POST" | "PUT";
  /** With its query. */
  readonly target: string;
  readonly contentType: string;
  readonly body: AsyncIterable<Uint8Array> | Uint8Array;
}

/** Options of {@link sendToGuest}. */
export interface SendOptions {
  readonly accessToken?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs: number;
}

const MAX_HEADER_BYTES = 16 * 1024;

/**
 * Sends a body to one of the daemon's plain routes over one connection, as fast as the guest takes it and without
 * holding more of it than a buffer. Resolves when the daemon answered with 2xx.
 *
 * @throws EnvdClientError; the error of a body that breaks off is its `cause`
 */
export async function sendToGuest(dial: DialGuest, upload: GuestUpload, options: SendOptions): Promise<void> {
  const [path = ""] = upload.target.split("?");
  await callGuest(dial, path, options, (connection) => exchange(connection, path, upload, options.accessToken));
}

async function exchange(
  connection: Duplex,
  path: string,
  { method, target, contentType, body }: GuestUpload,
  accessToken: string | undefined,
): Promise<void> {
  const length = body instanceof Uint8Array ? { "content-length": body.length } : {};
  const token = accessToken === undefined ? {} : { "x-access-token": accessToken };
  const call = request({
    method,
    path: target,
    host: "localhost",
    headers: { "content-type": contentType, connection: "close", ...length, ...token },
    maxHeaderSize: MAX_HEADER_BYTES,
    createConnection: () => connection,
  });
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    call.on("response", resolve);
    call.on("error", reject);
    call.on("upgrade", () => reject(new EnvdClientError("malformed", `guest switched protocols on ${path}`)));
  });
  answered.catch(() => undefined);
  const sent = pipeline(body instanceof Uint8Array ? Readable.from([body]) : Readable.from(body), call);
  // A daemon that refuses answers before it has everything, and its answer is worth more than the broken pipe.
  const answer = await Promise.race([answered, sent.then(() => answered)]).catch((error: unknown) => {
    throw new EnvdClientError("unreachable", `what was sent to ${path} did not arrive`, { cause: error });
  });
  sent.catch(() => undefined);
  const text = await shortAnswer(answer);
  const status = answer.statusCode ?? 0;
  if (status < 200 || status > 299) {
    const guestMessage = guestMessageIn(text);
    throw new EnvdClientError("refused", `guest answered ${path} with ${status}`, { status, guestMessage });
  }
}
