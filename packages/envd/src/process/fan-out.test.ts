import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import type { ProcessNotice } from "./event-frames.ts";
import { createFanOut, type Subscription } from "./fan-out.ts";

function notice(isEnd = false, size = 1): ProcessNotice {
  return { isEnd, size, frame: () => Buffer.alloc(0) };
}

function source(): { paused: boolean; pause(): void; resume(): void } {
  return {
    paused: false,
    pause() {
      this.paused = true;
    },
    resume() {
      this.paused = false;
    },
  };
}

const never = new AbortController().signal;

describe("a fan-out", () => {
  it.each([
    ["bytes", 1000, 10_000, 26],
    ["pieces", 10_000, 1, 2048],
  ])(
    "keeps the newest output that nobody hears, by its %s, for the next subscriber alone",
    (_by, count, size, kept) => {
      const from = source();
      const hub = createFanOut(from);
      const all = Array.from({ length: count }, () => notice(false, size));
      for (const item of all) hub.publish(item);
      expect(from.paused).toBe(false);
      expect(hub.unheard()).toHaveLength(kept);
      const first = hub.subscribe();
      expect(all.slice(-kept).every((item) => first.next(never) === item)).toBe(true);
      expect(first.next(never)).toBeInstanceOf(Promise);
      expect(hub.subscribe().next(never)).toBeInstanceOf(Promise);
    },
  );

  it("keeps what waited for the last subscriber when it leaves, and the end for nobody", () => {
    const hub = createFanOut(source());
    const [one, two] = [hub.subscribe(), hub.subscribe()];
    const items = [notice(), notice(), notice(true)];
    for (const item of items) hub.publish(item);
    expect(one.next(never)).toBe(items[0]);
    two[Symbol.dispose]();
    expect(hub.unheard()).toEqual([]);
    for (let times = 0; times < 2; times += 1) one[Symbol.dispose]();
    expect(hub.unheard()).toEqual([items[1]]);
  });

  it("wakes a waiting subscriber, and lets one go whose signal fires", async () => {
    const hub = createFanOut(source());
    const subscription = hub.subscribe();
    const end = notice(true);
    const waiting = subscription.next(never);
    hub.publish(end);
    expect(await waiting).toBe(end);
    expect(await subscription.next(never)).toBeUndefined();
    const stop = new AbortController();
    const left = hub.subscribe().next(stop.signal);
    stop.abort();
    expect(await left).toBeUndefined();
  });

  it("holds up its source exactly while someone is behind, whoever comes, reads and goes", async () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant("publish" as const), count: fc.integer({ min: 1, max: 40 }) }),
      fc.record({ kind: fc.constant("take" as const), who: fc.nat(5), count: fc.integer({ min: 1, max: 60 }) }),
      fc.record({ kind: fc.constant("subscribe" as const) }),
      fc.record({ kind: fc.constant("leave" as const), who: fc.nat(5) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const from = source();
        const hub = createFanOut(from);
        // What a reader may be behind: as much as anyone, or what it began with and the piece that stopped the source.
        const readers: { subscription: Subscription; expected: ProcessNotice[]; most: number }[] = [];
        let unheard: ProcessNotice[] = [];
        for (const action of steps) {
          if (action.kind === "subscribe") {
            const expected = unheard.splice(0);
            readers.push({ subscription: hub.subscribe(), expected, most: Math.max(64, expected.length + 1) });
          }
          const reader = "who" in action ? readers[action.who] : undefined;
          if (action.kind === "publish") {
            // A source that is held up publishes nothing.
            for (let count = 0; count < action.count && !from.paused; count += 1) {
              const item = notice();
              for (const { expected } of readers) expected.push(item);
              if (readers.length === 0) unheard.push(item);
              hub.publish(item);
            }
          }
          if (action.kind === "take" && reader !== undefined) {
            for (const item of reader.expected.splice(0, action.count)) {
              expect(await reader.subscription.next(never)).toBe(item);
            }
          }
          if (action.kind === "leave" && reader !== undefined) {
            reader.subscription[Symbol.dispose]();
            readers.splice(readers.indexOf(reader), 1);
            if (readers.length === 0) unheard = reader.expected;
          }
          const behind = Math.max(0, ...readers.map(({ expected }) => expected.length));
          for (const { expected, most } of readers) expect(expected.length).toBeLessThanOrEqual(most);
          if (action.kind === "publish" && behind >= 64) expect(from.paused).toBe(true);
          if (behind <= 32) expect(from.paused).toBe(false);
        }
      }),
    );
  });
});
