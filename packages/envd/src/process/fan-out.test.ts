import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import type { ProcessNotice } from "./event-frames.ts";
import { createFanOut, type Subscription } from "./fan-out.ts";

function notice(isEnd = false): ProcessNotice {
  return { isEnd, frame: () => Buffer.alloc(0) };
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
  it("drops what nobody has subscribed to", () => {
    const from = source();
    const hub = createFanOut(from);
    for (let count = 0; count < 1000; count += 1) hub.publish(notice());
    expect(from.paused).toBe(false);
    expect(hub.subscribe().next(never)).toBeInstanceOf(Promise);
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
        const readers: { subscription: Subscription; expected: ProcessNotice[] }[] = [];
        for (const action of steps) {
          if (action.kind === "subscribe") readers.push({ subscription: hub.subscribe(), expected: [] });
          const reader = "who" in action ? readers[action.who] : undefined;
          if (action.kind === "publish") {
            // A source that is held up publishes nothing.
            for (let count = 0; count < action.count && !from.paused; count += 1) {
              const item = notice();
              for (const { expected } of readers) expected.push(item);
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
          }
          const behind = Math.max(0, ...readers.map(({ expected }) => expected.length));
          expect(behind).toBeLessThanOrEqual(64);
          if (behind === 64) expect(from.paused).toBe(true);
          if (behind <= 32) expect(from.paused).toBe(false);
        }
      }),
    );
  });
});
