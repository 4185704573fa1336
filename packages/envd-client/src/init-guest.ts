import { request } from "node:http";
import type { Duplex } from "node:stream";

import { EnvdClientError } from "./errors.ts";
import { callGuest, type DialGuest } from "./guest-call.ts";
import { guestMessageIn, shortAnswer } from "./guest-words.ts";

/** Body of `POST /init`; what is absent or empty is left as it is, except `accessToken` and `envVars`. */
export interface InitBody {
  /** Absent removes a token that was set. */
  readonly accessToken?: string | undefined;
  /** Replaces the default variables of all later commands. */
  readonly envVars?: Readonly<Record<string, string>> | undefined;
  readonly defaultUser?: string | undefined;
  readonly defaultWorkdir?: string | undefined;
  /** RFC 3339. A daemon drops a body that is not newer than the last one it took. */
  readonly timestamp?: string | undefined;
}

/** Options of {@link initGuest}. */
export interface InitGuestOptions {
  readonly signal?: AbortSignal | undefined;
  /**
   * Time for the whole call, dial included.
   * @default 5000
   */
  readonly timeoutMs?: number | undefined;
}

/** What a daemon says of itself when it took a body. */
export interface InitAnswer {
  /** Its version, when it tells one. */
  readonly version: string | undefined;
}

const MAX_HEADER_BYTES = 16 * 1024;

/**
 * Prepares a fresh guest: one `POST /init` over one connection, which is closed afterwards whatever happens. Resolves
 * when the daemon has answered 204. After an abort the daemon may still have taken the body.
 *
 * @throws EnvdClientError in all other cases
 */
export async function initGuest(dial: DialGuest, body: InitBody, options: InitGuestOptions = {}): Promise<InitAnswer> {
  const { signal, timeoutMs = 5000 } = options;
  return callGuest(dial, "/init", { signal, timeoutMs }, (connection) => exchange(connection, body));
}

function exchange(connection: Duplex, body: InitBody): Promise<InitAnswer> {
  return new Promise((resolve, reject) => {
    const payload = Buffer.from(JSON.stringify(body));
    const call = request({
      method: "POST",
      path: "/init",
      host: "localhost",
      headers: { "content-type": "application/json", "content-length": payload.length, connection: "close" },
      maxHeaderSize: MAX_HEADER_BYTES,
      createConnection: () => connection,
    });
    call.on("error", reject);
    call.on("response", (answer) => {
      shortAnswer(answer).then((text) => {
        const version = answer.headers["x-envd-version"];
        if (answer.statusCode === 204) return resolve({ version: typeof version === "string" ? version : undefined });
        const guestMessage = guestMessageIn(text);
        return reject(
          new EnvdClientError("refused", `guest answered /init with ${answer.statusCode}`, {
            status: answer.statusCode,
            guestMessage,
          }),
        );
      }, reject);
    });
    call.end(payload);
  });
}
