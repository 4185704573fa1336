import { EnvdClientError } from "./errors.ts";

const HEAD_BYTES = 5;
const COMPRESSED = 0b01;
const END_OF_STREAM = 0b10;
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;

/** One message of a Connect stream. */
export interface ConnectFrame {
  /** The daemon's last word: an empty object, or one with an `error`. */
  readonly last: boolean;
  readonly payload: Buffer;
}

/** One message as it goes to the daemon: flags, big-endian length, payload. */
export function connectFrame(payload: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(HEAD_BYTES + payload.length);
  frame[0] = 0;
  frame.writeUInt32BE(payload.length, 1);
  frame.set(payload, HEAD_BYTES);
  return frame;
}

/**
 * Takes the messages out of a stream, however it is cut, up to its last one.
 *
 * @throws EnvdClientError `unreachable` for a stream that ends before its last message, `malformed` for what is no stream
 */
export async function* readConnectFrames(
  source: AsyncIterable<Buffer>,
  path: string,
): AsyncGenerator<ConnectFrame, void> {
  const malformed = (why: string): EnvdClientError =>
    new EnvdClientError("malformed", `guest did not answer ${path} with a stream: ${why}`);
  let chunks: Buffer[] = [];
  let held = 0;
  let wanted = HEAD_BYTES;
  let flags: number | undefined;
  for await (const chunk of source) {
    chunks.push(chunk);
    held += chunk.length;
    while (held >= wanted) {
      const [first] = chunks;
      const all = chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks);
      const part = all.subarray(0, wanted);
      chunks = [all.subarray(wanted)];
      held -= wanted;
      if (flags === undefined) {
        flags = part.readUInt8(0);
        wanted = part.readUInt32BE(1);
        if ((flags & COMPRESSED) !== 0) throw malformed("a message is compressed");
        if (wanted > MAX_MESSAGE_BYTES) throw malformed(`a message has ${wanted} bytes`);
        continue;
      }
      const last = (flags & END_OF_STREAM) !== 0;
      yield { last, payload: part };
      if (last) return;
      flags = undefined;
      wanted = HEAD_BYTES;
    }
  }
  throw new EnvdClientError("unreachable", `guest broke off its answer to ${path}`);
}
