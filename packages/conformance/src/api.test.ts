import { describe, expect, it } from "vitest";

import { expectError, guestOutput, type Reply } from "./api.ts";

const frame = (flags: number, message: object): Buffer => {
  const body = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
};

const data = (field: "stdout" | "stderr", text: string): Buffer =>
  frame(0, { event: { data: { [field]: Buffer.from(text).toString("base64") } } });

describe("the output of a command's stream", () => {
  it("is put together from all data messages, characters split over them included", () => {
    const [first, second] = [Buffer.from("é").subarray(0, 1), Buffer.from("é").subarray(1)];
    const split = [first, second].map((part) => frame(0, { event: { data: { stdout: part.toString("base64") } } }));
    const stream = Buffer.concat([
      frame(0, { event: { start: { pid: 1 } } }),
      data("stderr", "a"),
      ...split,
      frame(2, {}),
    ]);
    expect(guestOutput(stream)).toBe("aé");
  });

  it("is an error when the stream ends with one or breaks", () => {
    expect(() => guestOutput(frame(2, { error: { code: "internal" } }))).toThrow("internal");
    expect(() => guestOutput(data("stdout", "a"))).toThrow("broke before its end");
  });
});

describe("a well-formed error", () => {
  const reply = (over: Partial<Reply>): Reply => ({
    status: 404,
    headers: { "content-type": "application/json" },
    text: '{"code":404,"message":"not found"}',
    ...over,
  });

  it("gives its message", () => {
    expect(expectError(reply({}), 404, "x")).toBe("not found");
  });

  it.each([
    ["another status", { status: 500 }],
    ["a text body", { text: "404 Not Found" }],
    ["an empty body", { text: "" }],
    ["no content type", { headers: {} }],
    ["a code that differs from the status", { text: '{"code":400,"message":"m"}' }],
    ["a code that is a string", { text: '{"code":"404","message":"m"}' }],
    ["no message", { text: '{"code":404}' }],
  ])("is not %s", (_name, over) => {
    expect(() => expectError(reply(over), 404, "x")).toThrow();
  });
});
