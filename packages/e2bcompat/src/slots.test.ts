import { describe, expect, it } from "vitest";
import { createSlots } from "./slots.ts";

const forever = new AbortController().signal;

describe("slots", () => {
  it("let as many in as there are places, and the rest in the order in which they came", async () => {
    const slots = createSlots(2);
    const entered: number[] = [];
    const places = [1, 2, 3, 4].map((who) =>
      slots.take(forever).then((leave) => {
        entered.push(who);
        return leave;
      }),
    );
    (await places[1])?.();
    (await places[2])?.();
    expect(entered).toStrictEqual([1, 2, 3]);
    (await places[0])?.();
    await places[3];
    expect(entered).toStrictEqual([1, 2, 3, 4]);
  });

  it("count a place that is given back twice once", async () => {
    const slots = createSlots(1);
    const leave = await slots.take(forever);
    leave();
    leave();
    await slots.take(forever);
    const late = new AbortController();
    const second = slots.take(late.signal);
    late.abort(new Error("tired"));
    await expect(second).rejects.toThrow("tired");
  });

  it("are not lost to those who stopped waiting", async () => {
    const slots = createSlots(1);
    const leave = await slots.take(forever);
    const tired = new AbortController();
    const first = slots.take(tired.signal);
    const second = slots.take(forever);
    tired.abort(new Error("tired"));
    await expect(first).rejects.toThrow("tired");
    leave();
    await second;
    await expect(slots.take(tired.signal)).rejects.toThrow("tired");
  });
});
