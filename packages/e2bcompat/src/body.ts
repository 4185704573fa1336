import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { setImmediate as endOfTurn } from "node:timers/promises";
import { isScaleError, ScaleError } from "@org/scale";
import type { Call, Direct } from "./call.ts";
import { E2bError } from "./errors.ts";

/** Largest accepted request body, in bytes. */
export const MAX_BODY_BYTES = 1_048_576;

function tooLarge(): E2bError {
  return new E2bError("bad_request", `the request body is larger than ${MAX_BODY_BYTES} bytes`);
}

function gone(cause: unknown): ScaleError {
  return new ScaleError("aborted", "the client closed the connection while it sent its request", { cause });
}

/** JSON is UTF-8: what is not would be changed by decoding it. */
function decodeText(bytes: Buffer): string {
  if (!isUtf8(bytes)) {
    throw new E2bError("bad_request", "the request body is not UTF-8");
  }
  return bytes.toString("utf8");
}

async function readIncoming(direct: Direct): Promise<Buffer> {
  const { incoming } = direct;
  if (Number(incoming.headers["content-length"]) > MAX_BODY_BYTES) {
    throw tooLarge();
  }
  // The parser hands a request out before it reads on. A body that came together with the head, as most do, is there at
  // the end of this turn, and then needs neither listeners nor a timer.
  await endOfTurn();
  return incoming.complete && !incoming.destroyed ? readComplete(incoming) : readArriving(direct);
}

function readComplete(incoming: IncomingMessage): Buffer {
  if (incoming.readableLength > MAX_BODY_BYTES) {
    throw tooLarge();
  }
  const bytes: unknown = incoming.read();
  return Buffer.isBuffer(bytes) ? bytes : Buffer.alloc(0);
}

function readArriving({ incoming, bodyIdleTimeoutMs }: Direct): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const chunks: Buffer[] = [];
  let size = 0;
  const idle = setTimeout(() => {
    stop();
    incoming.pause();
    reject(new E2bError("bad_request", `the request body stopped coming for ${bodyIdleTimeoutMs} ms`));
  }, bodyIdleTimeoutMs);
  const stop = (): void => {
    clearTimeout(idle);
    incoming.off("data", onData).off("end", onEnd).off("error", onBroken).off("close", onBroken);
  };
  const onData = (chunk: Buffer): void => {
    size += chunk.length;
    if (size > MAX_BODY_BYTES) {
      stop();
      // The listener discards the rest once the answer is out.
      incoming.pause();
      reject(tooLarge());
      return;
    }
    chunks.push(chunk);
    idle.refresh();
  };
  const onEnd = (): void => {
    stop();
    const [first] = chunks;
    resolve(chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks));
  };
  const onBroken = (error?: Error): void => {
    stop();
    // Nothing listens any more, and a late error must not end the process.
    incoming.on("error", () => undefined);
    reject(gone(error));
  };
  incoming.on("data", onData).on("end", onEnd).on("error", onBroken).on("close", onBroken);
  if (incoming.destroyed) {
    onBroken();
  }
  return promise;
}

async function readWeb(call: Call): Promise<string> {
  const { req } = call.context;
  if (req.raw.bodyUsed) {
    // Something in front of us read it; Hono keeps what was read through its own request object.
    const text = await req.text();
    if (Buffer.byteLength(text) > MAX_BODY_BYTES) {
      throw tooLarge();
    }
    return text;
  }
  if (req.raw.body === null) {
    return "";
  }
  const reader = req.raw.body.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        break;
      }
      size += value.byteLength;
      if (size > MAX_BODY_BYTES) {
        throw tooLarge();
      }
      chunks.push(value);
    }
  } catch (error) {
    // A source that keeps sending is not waited for.
    reader.cancel(error).catch(() => undefined);
    throw error;
  }
  return decodeText(Buffer.concat(chunks));
}

async function readText(call: Call): Promise<string> {
  if (call.direct !== undefined) {
    return decodeText(await readIncoming(call.direct));
  }
  try {
    return await readWeb(call);
  } catch (error) {
    if (error instanceof E2bError || isScaleError(error)) {
      throw error;
    }
    throw call.signal.aborted
      ? gone(error)
      : new E2bError("bad_request", "the request body cannot be read", { cause: error });
  }
}

/**
 * The JSON body of a request; `undefined` for an empty one, however its emptiness was framed. Bytes are counted as they
 * come, since clients send bodies without a length. Throws `bad_request` for more than {@link MAX_BODY_BYTES} and for
 * malformed JSON, and `aborted` when the client hangs up.
 */
export async function readJson(call: Call): Promise<unknown> {
  const text = await readText(call);
  if (text === "" || text.trim() === "") {
    return undefined;
  }
  try {
    return JSON.parse(text);
  } catch {
    // The parser's message quotes the text, which may hold secrets.
    throw new E2bError("bad_request", "the request body is not valid JSON");
  }
}
