import { execFileSync } from "node:child_process";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { quote } from "./shell.ts";

describe("shell words", () => {
  test("come out of a shell as they went in", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "grapheme" }).filter((word) => !word.includes("\0") && word.isWellFormed()),
        (word) => {
          expect(execFileSync("/bin/sh", ["-c", `printf %s ${quote(word)}`]).toString()).toBe(word);
        },
      ),
      { numRuns: 50 },
    );
  });
});
