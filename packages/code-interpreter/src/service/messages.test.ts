import * as fc from "fast-check";
import { expect, test } from "vitest";

import { lineOf } from "./messages.ts";

test("a message is one line of ASCII, and the same message when it is read again", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      const message = { type: "stdout", text, timestamp: 1 } as const;
      const line = lineOf(message);
      expect(line).toMatch(/^[\u0020-\u007e]*\n$/);
      expect(JSON.parse(line)).toEqual(message);
    }),
  );
});
