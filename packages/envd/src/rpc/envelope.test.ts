import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { EnvdError } from "../errors.ts";
import { encodeEndOfStream, encodeEnvelope, readEnvelopes } from "./envelope.ts";

async function* cut(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer, void> {
  let at = 0;
  for (let index = 0; at < bytes.length; index += 1) {
    const size = sizes[index % Math.max(sizes.length, 1)] ?? bytes.length;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

async function read(bytes: Buffer, sizes: readonly number[], limit = 1 << 20): Promise<Buffer[]> {
  const list: Buffer[] = [];
  for await (const message of readEnvelopes(cut(bytes, sizes), limit)) list.push(Buffer.from(message));
  return list;
}

describe("envelopes", () => {
  it("come back as they were sent, however the bytes are cut", async () => {
    const payloads = fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(payloads, fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 5 }), async (list, sizes) => {
        const bytes = Buffer.concat(list.map((payload) => encodeEnvelope(payload)));
        expect(await read(bytes, sizes)).toEqual(list.map((payload) => Buffer.from(payload)));
        expect(await read(bytes, [1])).toHaveLength(list.length);
      }),
    );
  });

  it("are refused when the stream ends inside one, at every byte", async () => {
    const bytes = Buffer.concat([encodeEnvelope(Buffer.from("first")), encodeEnvelope(Buffer.from("second"))]);
    for (let length = 1; length < bytes.length; length += 1) {
      if (length === 10) continue;
      await expect(read(bytes.subarray(0, length), [3])).rejects.toMatchObject({ code: "invalid_argument" });
    }
  });

  it("end with the end frame", async () => {
    const bytes = Buffer.concat([encodeEnvelope(Buffer.from("a")), encodeEndOfStream(), Buffer.from("rest")]);
    expect(await read(bytes, [2])).toEqual([Buffer.from("a")]);
  });

  it("never take more memory than allowed", async () => {
    const head = Buffer.alloc(5);
    head.writeUInt32BE(1001, 1);
    await expect(read(head, [5], 1000)).rejects.toMatchObject({ code: "resource_exhausted" });
  });

  it("carry errors by code and message alone", () => {
    const frame = encodeEndOfStream(new EnvdError("not_found", "gone", { cause: new Error("inner") }));
    expect([frame[0], JSON.parse(frame.subarray(5).toString())]).toEqual([
      2,
      { error: { code: "not_found", message: "gone" } },
    ]);
  });
});
