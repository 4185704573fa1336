import { type IncomingMessage, request } from "node:http";
import type { Duplex } from "node:stream";

import { EnvdClientError } from "./errors.ts";

/** Opens one raw connection to the daemon's port (49983) inside the guest. */
export type DialGuest = (options: { signal?: AbortSignal }) => Promise<Duplex>;

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

const MAX_ANSWER_BYTES = 16 * 1024;
const MAX_MESSAGE_CHARS = 300;

/**
 * Prepares a fresh guest: one `POST /init` over one connection, which is closed afterwards whatever happens. Resolves
 * when the daemon has answered 204. After an abort the daemon may still have taken the body.
 *
 * @throws EnvdClientError in all other cases
 */
export async function initGuest(dial: DialGuest, body: InitBody, options: InitGuestOptions = {}): Promise<void> {
  const { signal, timeoutMs = 5000 } = options;
  if (signal?.aborted) throw new EnvdClientError("aborted", "init of the guest was aborted", { cause: signal.reason });
  const phase = new AbortController();
  const ended = Promise.withResolvers<never>();
  // Without a reader of its own the rejection of an abandoned race would count as unhandled.
  ended.promise.catch(() => undefined);
  const stop = (error: EnvdClientError): void => {
    ended.reject(error);
    phase.abort(error);
  };
  const onAbort = (): void =>
    stop(new EnvdClientError("aborted", "init of the guest was aborted", { cause: signal?.reason }));
  const timer = setTimeout(
    () => stop(new EnvdClientError("timeout", `guest did not answer /init within ${timeoutMs} ms`)),
    timeoutMs,
  );
  signal?.addEventListener("abort", onAbort, { once: true });
  let connection: Duplex | undefined;
  try {
    const dialled = dial({ signal: phase.signal }).then((socket) => {
      // Errors are reported by the request; one that comes after it must not bring the process down.
      socket.on("error", () => undefined);
      if (phase.signal.aborted) socket.destroy();
      return socket;
    });
    dialled.catch(() => undefined);
    connection = await Promise.race([dialled, ended.promise]);
    await Promise.race([exchange(connection, body), ended.promise]);
  } catch (error) {
    if (error instanceof EnvdClientError) throw error;
    throw new EnvdClientError("unreachable", "guest could not be reached for /init", { cause: error });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
    connection?.destroy();
  }
}

function exchange(connection: Duplex, body: InitBody): Promise<void> {
  return new Promise((resolve, reject) => {
    const payload = Buffer.from(JSON.stringify(body));
    const call = request({
      method: "POST",
      path: "/init",
      host: "localhost",
      headers: { "content-type": "application/json", "content-length": payload.length, connection: "close" },
      maxHeaderSize: MAX_ANSWER_BYTES,
      createConnection: () => connection,
    });
    call.on("error", reject);
    call.on("response", (answer) => {
      readAnswer(answer).then((text) => {
        if (answer.statusCode === 204) return resolve();
        const guestMessage = messageOf(text);
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

/** Text of the answer; a longer one is cut, since only its message matters. */
async function readAnswer(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length >= MAX_ANSWER_BYTES) break;
  }
  return Buffer.concat(chunks).toString("utf8");
}

function messageOf(text: string): string | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "object" && parsed !== null && "message" in parsed && typeof parsed.message === "string") {
      return parsed.message.slice(0, MAX_MESSAGE_CHARS);
    }
  } catch {
    // Not the daemon's own JSON: the status says enough.
  }
  return undefined;
}
