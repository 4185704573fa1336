import { tooLarge } from "./api-status.ts";

/** The most that a body may be: 3 MiB. */
export const BODY_LIMIT_BYTES: number = 3 * 1024 * 1024;

/**
 * The whole body of a request.
 * @throws ApiStatusError 413 as soon as it is known to be larger than the limit.
 */
export async function readBody(request: Request): Promise<Uint8Array> {
  const announced = Number(request.headers.get("content-length") ?? 0);
  if (announced > BODY_LIMIT_BYTES) {
    throw tooLarge(BODY_LIMIT_BYTES);
  }
  const chunks: Uint8Array[] = [];
  let size = 0;
  if (request.body !== null) {
    for await (const chunk of request.body) {
      size += chunk.byteLength;
      if (size > BODY_LIMIT_BYTES) {
        throw tooLarge(BODY_LIMIT_BYTES);
      }
      chunks.push(chunk);
    }
  }
  return Buffer.concat(chunks, size);
}
