import { resourceVersionOf } from "@org/scale";
import type { Sandbox } from "@org/scale";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { itemOf, TextCache } from "./item.ts";
import { sandboxBody } from "./sandbox-resource.ts";
import { SandboxWriter } from "./sandbox-writer.ts";

const text = fc.oneof(
  fc.constantFrom("", "a", "n/x", "sb_1", 'q"q', "back\\slash", "ümlaut", "\u2028", "tab\t", "emoji 🎉"),
  fc.string({ unit: "binary", maxLength: 8 }),
);
const time = fc.oneof(
  fc.constant(undefined),
  fc.date({ min: new Date("1969-01-01"), max: new Date("+010000-02-01"), noInvalidDate: false }),
  fc.date({ min: new Date("2026-01-01"), max: new Date("2026-01-03"), noInvalidDate: true }),
);
const maybe = <T>(one: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(one, { nil: undefined });

const sandbox: fc.Arbitrary<Sandbox> = fc.record({
  namespace: text,
  name: text,
  node: fc.constantFrom("a", "b", 'c"', ""),
  id: text,
  phase: fc.constantFrom("Running", "ready", "Hibernated", 'odd"', ""),
  paused: fc.boolean(),
  template: maybe(text),
  claimRef: maybe(text),
  addr: maybe(fc.oneof(text, fc.constantFrom("10.0.0.9:80", "http://h:1/x", "[::1]:5", "::1"))),
  deadline: time,
  claimedAt: time,
  metadata: maybe(fc.dictionary(fc.oneof(text, fc.constantFrom("10", "9", "__proto__")), text, { maxKeys: 3 })),
  cpuCount: maybe(fc.integer({ min: -1, max: 64 })),
  memoryBytes: maybe(fc.integer({ min: 0, max: 2 ** 40 })),
});

it("writes what JSON.stringify writes", () => {
  const writer = new SandboxWriter();
  fc.assert(
    fc.property(sandbox, (one) => {
      const version = resourceVersionOf(one);
      expect(writer.text(one, version)).toBe(JSON.stringify(sandboxBody(one)));
    }),
    { numRuns: 200 },
  );
});

it("keeps texts of listed sandboxes within its budget, and gives back what leaves", () => {
  const one = itemOf({ namespace: "n", name: "x", node: "a", id: "sb_1", phase: "Running", paused: false });
  const wide = itemOf({ ...one.sandbox, name: "\u2028" });
  const texts = new TextCache(1000);
  const written = texts.textOf(one);
  expect(texts.leftBytes).toBe(1000);
  texts.enter(one);
  expect(texts.textOf(one)).toBe(written);
  expect(texts.leftBytes).toBe(1000 - written.length);
  expect(texts.textOf(one)).toBe(one.text);
  texts.enter(wide);
  expect(texts.textOf(wide)).toContain("\u2028");
  // Wide characters take two bytes each, so that it does not fit.
  expect(wide.text).toBeUndefined();
  texts.leave(one);
  texts.leave(wide);
  expect(texts.leftBytes).toBe(1000);
});
