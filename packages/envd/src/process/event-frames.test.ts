import { fromBinary, fromJsonString, type MessageShape } from "@bufbuild/protobuf";
import { StartResponseSchema } from "@org/envd-client";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { dataNotice, endNotice, type ProcessNotice, startNotice } from "./event-frames.ts";
import { exitedWith } from "./exit-status.ts";

function parse(notice: ProcessNotice, codec: "json" | "proto"): MessageShape<typeof StartResponseSchema> {
  const frame = notice.frame(codec);
  expect([frame[0], frame.readUInt32BE(1)]).toEqual([0, frame.length - 5]);
  const payload = frame.subarray(5);
  return codec === "proto"
    ? fromBinary(StartResponseSchema, payload)
    : fromJsonString(StartResponseSchema, payload.toString("utf8"));
}

describe("frames of events", () => {
  it("say the same in JSON and in binary, for any bytes", () => {
    const name = fc.constantFrom("stdout" as const, "stderr" as const, "pty" as const);
    fc.assert(
      fc.property(name, fc.uint8Array({ maxLength: 200 }), (stream, bytes) => {
        const notice = dataNotice(stream, Buffer.from(bytes));
        for (const codec of ["json", "proto"] as const) {
          const data = parse(notice, codec).event?.event;
          if (data?.case !== "data") expect.unreachable();
          expect(data.value.output.case).toBe(stream);
          expect(Buffer.from(data.value.output.value ?? [])).toEqual(Buffer.from(bytes));
        }
      }),
    );
  });

  it("are made once for all subscribers", () => {
    const notice = dataNotice("stdout", Buffer.from("x"));
    expect(notice.frame("json")).toBe(notice.frame("json"));
    expect(notice.frame("proto")).not.toBe(notice.frame("json"));
  });

  it("carry start and end", () => {
    for (const codec of ["json", "proto"] as const) {
      expect(parse(startNotice(42), codec).event?.event).toMatchObject({ case: "start", value: { pid: 42 } });
      expect(parse(endNotice(exitedWith(137)), codec).event?.event).toMatchObject({
        case: "end",
        value: { exitCode: 137, exited: true, status: "exit status 137", error: "exit status 137" },
      });
    }
  });
});
