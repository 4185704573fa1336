import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { KubeError } from "./errors.ts";
import { LineSplitter } from "./line-splitter.ts";

/** The lines of a text that arrives in pieces which end at these places. */
function split(bytes: Uint8Array, cuts: readonly number[]): string[] {
  const splitter = new LineSplitter();
  const lines: string[] = [];
  let from = 0;
  for (const to of [...cuts.toSorted((a, b) => a - b), bytes.length]) {
    lines.push(...splitter.push(bytes.subarray(from, to)));
    from = Math.max(from, to);
  }
  const rest = splitter.end();
  return rest === undefined ? lines : [...lines, rest];
}

describe("the lines of a watch", () => {
  it("are the same however the stream is cut, whatever characters it has", () => {
    const event = fc.record({ type: fc.string({ unit: "binary" }), object: fc.jsonValue() });
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 6 }),
        fc.constantFrom("\n", "\r\n", "\n\n", "\n \n"),
        fc.boolean(),
        fc.array(fc.nat(4096), { maxLength: 20 }),
        (events, newline, ended, places) => {
          const lines = events.map((one) => JSON.stringify(one));
          const bytes = Buffer.from(lines.join(newline) + (ended ? newline : ""));
          const cuts = places.map((place) => place % (bytes.length + 1));
          expect(split(bytes, cuts)).toEqual(lines.map((line) => Buffer.from(line).toString("utf8")));
        },
      ),
    );
  });

  it("are whole when every byte comes alone", () => {
    const line = JSON.stringify({ name: "naïve – 日本語 – 👩‍🚀" });
    const bytes = Buffer.from(`${line}\n${line}\n`);
    expect(
      split(
        bytes,
        [...bytes.keys()].map((at) => at + 1),
      ),
    ).toEqual([line, line]);
  });

  it("may be very long", () => {
    const line = JSON.stringify({ entries: "é".repeat(2_000_000) });
    const bytes = Buffer.from(`${line}\n`);
    const cuts = Array.from({ length: Math.ceil(bytes.length / 65_535) }, (_, at) => at * 65_535);
    expect(split(bytes, cuts)).toEqual([line]);
  });

  it("over the cap are refused before they fill the memory", () => {
    const splitter = new LineSplitter(8);
    expect(splitter.push(Buffer.from("12345678"))).toEqual([]);
    expect(() => splitter.push(Buffer.from("9"))).toThrow(KubeError);
  });
});
