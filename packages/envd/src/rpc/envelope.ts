import { EnvdError } from "../errors.ts";

const COMPRESSED = 0b01;
const END_OF_STREAM = 0b10;
const HEAD_BYTES = 5;

/** One message of a stream on the wire: flags, big-endian length, payload. */
export function encodeEnvelope(payload: Uint8Array, flags = 0): Buffer {
  const frame = Buffer.allocUnsafe(HEAD_BYTES + payload.length);
  frame[0] = flags;
  frame.writeUInt32BE(payload.length, 1);
  frame.set(payload, HEAD_BYTES);
  return frame;
}

/** The last frame of every stream; clients take a stream without it for broken. */
export function encodeEndOfStream(error?: EnvdError, trailers: readonly (readonly [string, string])[] = []): Buffer {
  const metadata: Record<string, string[]> = {};
  for (const [name, value] of trailers) (metadata[name] ??= []).push(value);
  const body = {
    ...(error === undefined ? {} : { error: errorJson(error) }),
    ...(trailers.length === 0 ? {} : { metadata }),
  };
  return encodeEnvelope(Buffer.from(JSON.stringify(body)), END_OF_STREAM);
}

/** An error as Connect clients read it. */
export function errorJson({ code, message, attached }: EnvdError): object {
  const details = attached.map(({ type, value }) => ({
    type,
    value: Buffer.from(value).toString("base64").replace(/=+$/, ""),
  }));
  return { code, message, ...(details.length === 0 ? {} : { details }) };
}

/**
 * Takes the messages out of a stream of bytes, however they are cut.
 *
 * @throws EnvdError `invalid_argument` for a stream that ends inside a message, `resource_exhausted` for a message over
 *   the limit, `internal` for a compressed one
 */
export async function* readEnvelopes(
  source: AsyncIterable<Uint8Array>,
  maxMessageBytes: number,
): AsyncGenerator<Buffer, void> {
  let chunks: Uint8Array[] = [];
  let held = 0;
  let wanted = HEAD_BYTES;
  let head: Buffer | undefined;
  for await (const chunk of source) {
    chunks.push(chunk);
    held += chunk.length;
    while (held >= wanted) {
      const all = chunks.length === 1 && chunks[0] !== undefined ? bufferOf(chunks[0]) : Buffer.concat(chunks);
      const part = all.subarray(0, wanted);
      chunks = [all.subarray(wanted)];
      held -= wanted;
      if (head === undefined) {
        head = part;
        wanted = lengthIn(part, maxMessageBytes);
      } else {
        const isEnd = ((head[0] ?? 0) & END_OF_STREAM) !== 0;
        head = undefined;
        wanted = HEAD_BYTES;
        if (isEnd) return;
        yield part;
      }
    }
  }
  if (held > 0 || head !== undefined) throw new EnvdError("invalid_argument", "the stream ends inside a message");
}

function lengthIn(head: Buffer, maxMessageBytes: number): number {
  const flags = head[0] ?? 0;
  if ((flags & COMPRESSED) !== 0) {
    // A stream that names a compression is refused before its first message.
    throw new EnvdError("internal", "a compressed message in a stream that named no compression");
  }
  if ((flags & ~END_OF_STREAM) !== 0) throw new EnvdError("invalid_argument", `unknown envelope flags ${flags}`);
  const length = head.readUInt32BE(1);
  if (length > maxMessageBytes) {
    throw new EnvdError("resource_exhausted", `message of ${length} bytes is over the limit of ${maxMessageBytes}`);
  }
  return length;
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
