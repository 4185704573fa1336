import { request } from "node:http";
import type { Duplex } from "node:stream";

import { EnvdClientError } from "./errors.ts";
import { callGuest, type DialGuest } from "./guest-call.ts";

/** Options of {@link readGuestJson}. */
export interface ReadGuestJsonOptions {
  /** What `/init` gave the daemon; absent for a daemon without a token. A secret. */
  readonly accessToken?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /**
   * Time for the whole call, dial included.
   * @default 2000
   */
  readonly timeoutMs?: number | undefined;
  /**
   * Longest answer that is read.
   * @default 65536
   */
  readonly maxBytes?: number | undefined;
}

const MAX_HEADER_BYTES = 16 * 1024;

/**
 * Reads one of the daemon's JSON documents (`/metrics`, `/envs`) over one connection that is closed afterwards. The guest
 * is not trusted: time and bytes are bounded, the form of the document is the caller's to check.
 *
 * @throws EnvdClientError
 */
export async function readGuestJson(
  dial: DialGuest,
  path: string,
  options: ReadGuestJsonOptions = {},
): Promise<unknown> {
  const { accessToken, signal, timeoutMs = 2000, maxBytes = 65_536 } = options;
  return callGuest(dial, path, { signal, timeoutMs }, async (connection) => {
    const text = await exchange(connection, path, accessToken, maxBytes);
    try {
      return JSON.parse(text) as unknown;
    } catch {
      throw malformed(path, "it is not JSON");
    }
  });
}

function malformed(path: string, why: string): EnvdClientError {
  return new EnvdClientError("malformed", `guest did not answer ${path} with a document: ${why}`);
}

function exchange(
  connection: Duplex,
  path: string,
  accessToken: string | undefined,
  maxBytes: number,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const token = accessToken === undefined ? {} : { "x-access-token": accessToken };
    const call = request({
      path,
      host: "localhost",
      headers: { accept: "application/json", connection: "close", ...token },
      maxHeaderSize: MAX_HEADER_BYTES,
      createConnection: () => connection,
    });
    call.on("error", reject);
    call.on("upgrade", () => reject(malformed(path, "it switched protocols")));
    call.on("response", (answer) => {
      const { statusCode: status } = answer;
      if (status !== 200) {
        reject(new EnvdClientError("refused", `guest answered ${path} with ${status}`, { status }));
        return;
      }
      const chunks: Buffer[] = [];
      let length = 0;
      answer.on("error", reject);
      answer.on("data", (chunk: Buffer) => {
        length += chunk.length;
        if (length > maxBytes) {
          reject(malformed(path, `it is longer than ${maxBytes} bytes`));
          return;
        }
        chunks.push(chunk);
      });
      answer.on("end", () => resolve(Buffer.concat(chunks).toString("utf8")));
    });
    call.end();
  });
}
