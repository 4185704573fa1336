import { StartResponseSchema } from "@org/envd-client";

import { type CodecName, encodeMessage } from "../rpc/codec.ts";
import { encodeEnvelope } from "../rpc/envelope.ts";
import type { ExitStatus } from "./exit-status.ts";

/** Where output came from. */
export type OutputName = "stdout" | "stderr" | "pty";

/** Something a subscriber of a command is told. Encoded once per codec, however many subscribers there are. */
export interface ProcessNotice {
  readonly isEnd: boolean;
  /** Bytes of output in it. */
  readonly size: number;
  frame(codec: CodecName): Buffer;
}

/** `StartResponse` and `ConnectResponse` have the same form, so one frame serves both. */
export function startNotice(pid: number): ProcessNotice {
  return notice(false, 0, (codec) => encode(codec, { case: "start", value: { pid } }));
}

export function endNotice(status: ExitStatus): ProcessNotice {
  return notice(true, 0, (codec) => encode(codec, { case: "end", value: status }));
}

export function dataNotice(name: OutputName, bytes: Buffer): ProcessNotice {
  return notice(false, bytes.length, (codec) =>
    codec === "json"
      ? encodeJsonData(name, bytes)
      : encode(codec, { case: "data", value: { output: { case: name, value: bytes } } }),
  );
}

function notice(isEnd: boolean, size: number, make: (codec: CodecName) => Buffer): ProcessNotice {
  const frames: Partial<Record<CodecName, Buffer>> = {};
  return { isEnd, size, frame: (codec) => (frames[codec] ??= make(codec)) };
}

type EventInit = NonNullable<
  NonNullable<Parameters<typeof encodeMessage<typeof StartResponseSchema>>[2]["event"]>["event"]
>;

function encode(codec: CodecName, event: EventInit): Buffer {
  return encodeEnvelope(encodeMessage(StartResponseSchema, codec, { event: { event } }));
}

const JSON_SUFFIX = '"}}}';

/** Output is nearly all that streams carry: its JSON is written directly, with the runtime's own base64. */
function encodeJsonData(name: OutputName, bytes: Buffer): Buffer {
  const prefix = `{"event":{"data":{"${name}":"`;
  const base64Bytes = Math.ceil(bytes.length / 3) * 4;
  const length = prefix.length + base64Bytes + JSON_SUFFIX.length;
  const frame = Buffer.allocUnsafe(5 + length);
  frame[0] = 0;
  frame.writeUInt32BE(length, 1);
  let at = 5 + frame.write(prefix, 5, "latin1");
  at += frame.write(bytes.toString("base64"), at, "latin1");
  frame.write(JSON_SUFFIX, at, "latin1");
  return frame;
}
