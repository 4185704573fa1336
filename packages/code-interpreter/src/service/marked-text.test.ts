import * as fc from "fast-check";
import { expect, test } from "vitest";

import { createMarkedText } from "./marked-text.ts";

const MARK = "\u0000mark\u0000";

/** Cuts bytes at these places. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [0, ...places.map((place) => place % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b);
  return at.slice(1).map((end, index) => bytes.subarray(at[index], end));
}

test("text before and after a mark comes whole, however the bytes are cut", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "grapheme" }),
      fc.string({ unit: "grapheme" }),
      fc.array(fc.nat()),
      (before, after, places) => {
        fc.pre(!before.includes("\u0000") && !after.includes("\u0000"));
        const marked = createMarkedText();
        marked.expect(MARK);
        const seen = ["", ""];
        let side = 0;
        for (const chunk of cut(Buffer.from(before + MARK + after), places)) {
          for (const piece of marked.push(chunk)) {
            if ("marked" in piece) side += 1;
            else seen[side] += piece.text;
          }
        }
        expect([side, ...seen]).toEqual([1, before, after]);
      },
    ),
  );
});

test("what only begins like the mark is text, and nothing is kept back without a mark", () => {
  const marked = createMarkedText();
  expect(marked.push(Buffer.from("\u0000mar"))).toEqual([{ text: "\u0000mar" }]);
  marked.expect(MARK);
  expect(marked.push(Buffer.from("a\u0000mar"))).toEqual([{ text: "a" }]);
  expect(marked.push(Buffer.from("ble"))).toEqual([{ text: "\u0000marble" }]);
});

test("a broken character before the mark does not swallow it", () => {
  const marked = createMarkedText();
  marked.expect(MARK);
  const bytes = Buffer.concat([Buffer.from([0xf0, 0x9f]), Buffer.from(MARK)]);
  expect(marked.push(bytes)).toEqual([{ text: "\ufffd" }, { marked: true }]);
});
