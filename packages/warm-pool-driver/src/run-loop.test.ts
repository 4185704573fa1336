import { afterEach, describe, expect, test } from "vitest";
import { RunLoop } from "./run-loop.ts";
import { FakeTime } from "./testing/fake-time.ts";

let end = new AbortController();
afterEach(() => end.abort());

/** A loop whose runs take some time, and when they began. */
function loop(takesMs: number, succeeds: () => boolean = () => true, intervalMs = 5000) {
  end = new AbortController();
  const time = new FakeTime();
  const begun: number[] = [];
  let running = 0;
  const runs = new RunLoop({
    timing: time,
    intervalMs,
    run: async () => {
      running += 1;
      expect(running).toBe(1);
      begun.push(time.now());
      if (takesMs > 0) {
        await new Promise<void>((resolve) => time.after(takesMs, resolve));
      }
      running -= 1;
      return succeeds();
    },
  });
  return { time, begun, runs, over: runs.until(end.signal) };
}

describe("a loop", () => {
  test("runs at once, and then at intervals", async () => {
    const { time, begun } = loop(0);
    await time.pass(15_000);
    expect(begun).toEqual([0, 5000, 10_000, 15_000]);
  });

  test("makes one run of all reasons that come together, and of all that come during a run", async () => {
    const { time, begun, runs } = loop(3000);
    await time.pass(1000);
    runs.want();
    runs.want();
    await time.pass(2500);
    runs.want();
    await time.pass(3000);
    expect(begun).toEqual([0, 4000]);
    await time.pass(20_000);
    expect(begun).toEqual([0, 4000, 12_000, 20_000]);
  });

  test("runs soon for a reason that comes in a rest", async () => {
    const { time, begun, runs } = loop(0);
    await time.pass(500);
    runs.want();
    await time.pass(1000);
    runs.want();
    await time.pass(2500);
    runs.want();
    await time.pass(0);
    expect(begun).toEqual([0, 1000, 2000, 4000]);
  });

  test("backs off while runs fail, whatever reasons there are", async () => {
    let succeeds = false;
    const { time, begun, runs } = loop(0, () => succeeds);
    for (let at = 0; at < 1000; at += 1) {
      runs.want();
      await time.pass(100);
    }
    expect(begun).toEqual([0, 5000, 15_000, 35_000, 65_000, 95_000]);
    succeeds = true;
    await time.pass(30_000);
    expect(begun.slice(6)).toEqual([125_000, 130_000]);
  });

  test("with a short interval rests no longer than that", async () => {
    const { time, begun } = loop(0, undefined, 300);
    await time.pass(600);
    expect(begun).toEqual([0, 300, 600]);
  });

  test.each([0, 500, 2000])("ends %i ms into its rest, and leaves nothing behind", async (ms) => {
    const { time, over } = loop(0);
    await time.pass(ms);
    end.abort();
    await over;
    expect(time.pending).toBe(0);
  });
});
