import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SlidingWindow } from "./sliding-window.ts";

describe("SlidingWindow", () => {
  it("agrees with a plain list of times at every step", () => {
    const steps = fc.array(fc.record({ laterMs: fc.nat(40), count: fc.nat(12) }), { maxLength: 60 });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), steps, (limit, script) => {
        const window = new SlidingWindow(limit, 100);
        let times: number[] = [];
        let now = 1000;
        for (const { laterMs, count } of script) {
          now += laterMs;
          times = times.filter((at) => at > now - 100);
          expect(window.used(now)).toBe(times.length);
          for (const wanted of [0, 1, count]) {
            const at = times[wanted - 1];
            expect(window.untilLeft(now, wanted)).toBe(
              wanted === 0 ? 0 : at === undefined ? undefined : at + 100 - now,
            );
          }
          window.add(now, count);
          times = [...times, ...Array.from({ length: count }, () => now)].slice(-limit);
        }
      }),
    );
  });
});
