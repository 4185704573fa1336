import * as fc from "fast-check";
import { expect, it } from "vitest";
import { TextSlices, textStream } from "./text-stream.ts";

it("hands on texts of any size, in order and whole", async () => {
  const sizes = fc.oneof(fc.constant(0), fc.nat(40), fc.integer({ min: 43_000, max: 44_000 }), fc.nat(300_000));
  const texts = fc.array(fc.tuple(fc.constantFrom("a", "ü", "🎉", "\u2028"), sizes), { maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(texts, async (parts) => {
      const all = parts.map(([unit, size]) => unit.repeat(size));
      expect(await new Response(textStream(all)).text()).toBe(all.join(""));
    }),
    { numRuns: 60 },
  );
});

it("makes no more than is read, and lets others have their turn", async () => {
  let made = 0;
  let turns = 0;
  const count = setInterval(() => void (turns += 1), 0);
  const texts = function* (): Generator<string> {
    for (; made < 2000; made += 1) {
      yield "x".repeat(1024);
    }
  };
  const reader = textStream(texts()).getReader();
  await reader.read();
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect(made).toBeLessThan(600);
  turns = 0;
  while (!(await reader.read()).done) {
    // To the end.
  }
  clearInterval(count);
  expect(made).toBe(2000);
  expect(turns).toBeGreaterThan(0);
});

it.each([0, 1, 5000, 40_000, 200_000])("holds little more than what it hands on: %d bytes", (size) => {
  const slices = new TextSlices([`${"x".repeat(size)}y`]);
  for (let slice = slices.next(); slice !== undefined; slice = slices.next()) {
    expect(slice.buffer.byteLength).toBeLessThanOrEqual(4 * slice.length);
  }
});
