import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MessageReader, requestText } from "./http-messages.ts";

describe("a reader of messages", () => {
  it("finds the same messages however the bytes are cut", () => {
    const bodies = fc.array(fc.option(fc.string(), { nil: undefined }), { maxLength: 5 });
    fc.assert(
      fc.property(bodies, fc.infiniteStream(fc.integer({ min: 1, max: 40 })), (sent, sizes) => {
        const bytes = Buffer.from(
          sent.map((text) => requestText("POST", "/x", { body: text === undefined ? undefined : { text } })).join(""),
        );
        const reader = new MessageReader();
        const read: string[] = [];
        for (let at = 0; at < bytes.length;) {
          const size = sizes.next().value ?? 1;
          read.push(...reader.read(bytes.subarray(at, at + size)).map(({ body }) => body));
          at += size;
        }
        expect(
          read.map((body) =>
            body === "" ? undefined : (JSON.parse(Buffer.from(body, "latin1").toString()) as { text: string }).text,
          ),
        ).toStrictEqual(sent);
      }),
    );
  });

  it("refuses a body whose end it would have to guess", () => {
    const chunked = Buffer.from("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    expect(() => new MessageReader().read(chunked)).toThrow("without a length");
  });
});
