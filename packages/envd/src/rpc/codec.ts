import { isUtf8 } from "node:buffer";

import {
  create,
  type DescMessage,
  fromBinary,
  fromJsonString,
  type MessageInitShape,
  type MessageShape,
  type Registry,
  toBinary,
  toJsonString,
} from "@bufbuild/protobuf";

import { EnvdError } from "../errors.ts";

/** How messages are written: `json` is what the SDKs use, `proto` the binary form. */
export type CodecName = "json" | "proto";

/** What a content type asks for. */
export interface WireFormat {
  readonly codec: CodecName;
  /** Messages in envelopes, as in all streaming calls. */
  readonly enveloped: boolean;
}

/** Reads a `Content-Type`; undefined for one we do not speak. */
export function parseContentType(value: string | undefined): WireFormat | undefined {
  const [type = "", ...parameters] = (value ?? "").toLowerCase().split(";");
  const found = /^application\/(connect\+)?(json|proto)$/.exec(type.trim());
  if (found === null) return undefined;
  const charset = parameters.map((parameter) => parameter.trim()).find((parameter) => parameter.startsWith("charset="));
  if (charset !== undefined && !/^charset="?utf-8"?$/.test(charset)) return undefined;
  return { codec: found[2] === "proto" ? "proto" : "json", enveloped: found[1] !== undefined };
}

export function contentTypeOf({ codec, enveloped }: WireFormat): string {
  return `application/${enveloped ? "connect+" : ""}${codec}`;
}

/**
 * `registry` knows the types inside `Any` values, which are JSON as well.
 *
 * @throws EnvdError `invalid_argument`
 */
export function decodeMessage<D extends DescMessage>(
  schema: D,
  codec: CodecName,
  bytes: Uint8Array,
  registry?: Registry,
): MessageShape<D> {
  try {
    if (codec === "proto") return fromBinary(schema, bytes);
    return fromJsonString(schema, decodeText(bytes), {
      ignoreUnknownFields: true,
      ...(registry === undefined ? {} : { registry }),
    });
  } catch (error) {
    const reason = error instanceof Error ? error.message : "malformed";
    throw new EnvdError("invalid_argument", `cannot read ${schema.typeName}: ${reason}`, { cause: error });
  }
}

export function encodeMessage<D extends DescMessage>(
  schema: D,
  codec: CodecName,
  message: MessageInitShape<D>,
  registry?: Registry,
): Uint8Array {
  const full = create(schema, message);
  return codec === "proto"
    ? toBinary(schema, full)
    : Buffer.from(toJsonString(schema, full, registry === undefined ? {} : { registry }));
}

function decodeText(bytes: Uint8Array): string {
  if (!isUtf8(bytes)) throw new TypeError("not UTF-8");
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
}
