import { describe, expect, test } from "vitest";
import { BODY_LIMIT_BYTES, readBody } from "./request-body.ts";

const tooLarge = expect.objectContaining({
  code: 413,
  reason: "RequestEntityTooLarge",
  message: "Request entity too large: limit is 3145728",
}) as Error;

function streamed(chunks: readonly number[], onCancel?: () => void): Request {
  const left = [...chunks];
  const body = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        const size = left.shift();
        if (size === undefined) {
          controller.close();
        } else {
          controller.enqueue(new Uint8Array(size).fill(32));
        }
      },
      ...(onCancel !== undefined && { cancel: onCancel }),
    },
    { highWaterMark: 0 },
  );
  return new Request("http://api.example/", { method: "POST", body, duplex: "half" });
}

describe("a body", () => {
  test.each([[[]], [[1]], [[2, 3, 0, 5]], [[BODY_LIMIT_BYTES]]])("is read whole: %j", async (chunks) => {
    const expected = chunks.reduce((sum, size) => sum + size, 0);
    expect((await readBody(streamed(chunks))).byteLength).toBe(expected);
  });

  test("that is too large is left alone from there on", async () => {
    let cancelled = false;
    const request = streamed([BODY_LIMIT_BYTES, 1, 7], () => {
      cancelled = true;
    });
    await expect(readBody(request)).rejects.toThrow(tooLarge);
    expect(cancelled).toBe(true);
  });

  test("that says so is not read at all", async () => {
    const request = new Request("http://api.example/", {
      method: "POST",
      body: "x",
      headers: { "content-length": String(BODY_LIMIT_BYTES + 1) },
    });
    await expect(readBody(request)).rejects.toThrow(tooLarge);
    expect(request.bodyUsed).toBe(false);
  });

  test("may be absent", async () => {
    expect((await readBody(new Request("http://api.example/"))).byteLength).toBe(0);
  });
});
