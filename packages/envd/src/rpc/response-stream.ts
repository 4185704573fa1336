import type { ServerResponse } from "node:http";

import type { DescMessage, MessageInitShape, Registry } from "@bufbuild/protobuf";

import type { ServerStream } from "./call.ts";
import { encodeMessage, type CodecName } from "./codec.ts";
import { encodeEnvelope } from "./envelope.ts";

/** What a server stream needs besides the response it is written to. */
export interface ResponseStreamOptions<O extends DescMessage> {
  readonly schema: O;
  readonly codec: CodecName;
  /** Types that may be inside `Any` values. */
  readonly registry: Registry | undefined;
  /** Ends waiting for a slow client. */
  readonly signal: AbortSignal;
  readonly keepaliveMs: number;
  /** Message that is sent after that long without another one. */
  readonly keepalive: MessageInitShape<O> | undefined;
  /** Sends the head, unless it was sent. */
  readonly open: () => void;
}

/** A server stream on an HTTP response, and the release of its timer. */
export interface ResponseStream<O extends DescMessage> extends ServerStream<O>, Disposable {}

export function createResponseStream<O extends DescMessage>(
  res: ServerResponse,
  options: ResponseStreamOptions<O>,
): ResponseStream<O> {
  const { schema, codec, signal, keepalive } = options;
  const timer =
    keepalive === undefined
      ? undefined
      : setInterval(() => {
          // A client that does not read needs no sign of life, only memory would grow.
          if (res.headersSent && !res.writableNeedDrain && !signal.aborted) res.write(frameOf(keepalive));
        }, options.keepaliveMs).unref();

  function frameOf(message: MessageInitShape<O>): Buffer {
    return encodeEnvelope(encodeMessage(schema, codec, message, options.registry));
  }

  function sendFrame(frame: Buffer): Promise<void> | undefined {
    if (signal.aborted || res.destroyed) return undefined;
    timer?.refresh();
    options.open();
    return res.write(frame) ? undefined : drained(res, signal);
  }

  return {
    codec,
    sendFrame,
    send: async (message) => sendFrame(frameOf(message)),
    [Symbol.dispose]: () => clearInterval(timer),
  };
}

/** Resolves when the response takes more, is closed, or the call is over. */
function drained(res: ServerResponse, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      res.off("drain", done);
      res.off("close", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    res.on("drain", done);
    res.on("close", done);
    signal.addEventListener("abort", done);
    if (res.destroyed || signal.aborted) done();
  });
}
