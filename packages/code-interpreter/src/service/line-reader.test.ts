import * as fc from "fast-check";
import { expect, test } from "vitest";

import { createLineReader } from "./line-reader.ts";

test("lines come whole and in order, however the bytes are cut", () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: "grapheme" }).filter((line) => !line.includes("\n"))),
      fc.integer({ min: 1, max: 9 }),
      (lines, size) => {
        const reader = createLineReader(10_000);
        const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(""));
        const read: string[] = [];
        for (let at = 0; at < bytes.length; at += size) read.push(...reader.push(bytes.subarray(at, at + size)));
        expect(read).toEqual(lines);
      },
    ),
  );
});

test("a line that never ends is given up at the limit", () => {
  const reader = createLineReader(10);
  expect(reader.push(Buffer.from("0123456789"))).toEqual([]);
  expect(() => reader.push(Buffer.from("x"))).toThrow(RangeError);
});
