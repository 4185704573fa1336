import { isScaleError } from "@org/scale";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SandboxGate } from "./sandbox-gate.ts";

const forever = new AbortController().signal;

describe("SandboxGate", () => {
  it("never has one that is alone together with another, keeps the order, and forgets everybody in the end", async () => {
    const visits = fc.array(
      fc.record({
        alone: fc.boolean(),
        /** Turns of the event loop before it comes, while it is inside, and until its client leaves. */
        comesAfter: fc.nat(6),
        stays: fc.nat(4),
        leavesAfter: fc.option(fc.nat(12), { nil: undefined }),
        fails: fc.boolean(),
      }),
      { minLength: 1, maxLength: 25 },
    );
    const turns = async (count: number): Promise<void> => {
      for (let turn = 0; turn < count; turn += 1) {
        await Promise.resolve();
      }
    };
    await fc.assert(
      fc.asyncProperty(visits, async (script) => {
        const gate = new SandboxGate();
        const inside = new Set<number>();
        const came: number[] = [];
        const entered: number[] = [];
        const left = new Set<number>();
        const visit = async (index: number): Promise<void> => {
          const { alone = false, comesAfter = 0, stays = 0, leavesAfter, fails } = script[index] ?? {};
          const client = new AbortController();
          await turns(comesAfter);
          came.push(index);
          const run = gate[alone ? "alone" : "together"]("sb_1", client.signal, async () => {
            entered.push(index);
            const others = [...inside];
            inside.add(index);
            expect(alone ? others : others.filter((other) => script[other]?.alone === true)).toStrictEqual([]);
            await turns(stays);
            inside.delete(index);
            if (fails === true) {
              throw new Error("inside");
            }
          }).catch((error: unknown) => {
            if (isScaleError(error, "aborted")) {
              left.add(index);
            } else {
              expect(error).toStrictEqual(new Error("inside"));
            }
          });
          if (leavesAfter !== undefined) {
            await turns(leavesAfter);
            client.abort();
          }
          await run;
        };
        await Promise.all(script.map((_, index) => visit(index)));
        // Those who go together may go in any order.
        const apart = (order: readonly number[]): string =>
          order
            .map((index) => (script[index]?.alone === true ? `/${index}/` : `${index} `))
            .join("")
            .split("/")
            .map((some) => some.split(" ").sort().join(" "))
            .join("/");
        expect(apart(entered)).toBe(apart(came.filter((index) => !left.has(index))));
        expect(entered.length + left.size).toBe(script.length);
        expect(gate.size).toBe(0);
      }),
      { numRuns: 200 },
    );
  });

  it("lets those in at once who waited for nobody but one that left", async () => {
    const gate = new SandboxGate();
    const hold = Promise.withResolvers<void>();
    const first = gate.together("sb_1", forever, () => hold.promise);
    const client = new AbortController();
    const alone = gate.alone("sb_1", client.signal, () => expect.unreachable("it ran"));
    const behind = gate.together("sb_1", forever, () => Promise.resolve("in"));
    client.abort();
    await expect(alone).rejects.toMatchObject({ code: "aborted" });
    expect(await behind).toBe("in");
    hold.resolve();
    await first;
  });

  it("keeps sandboxes apart", async () => {
    const gate = new SandboxGate();
    const hold = Promise.withResolvers<void>();
    const first = gate.alone("sb_1", forever, () => hold.promise);
    await gate.alone("sb_2", forever, () => Promise.resolve());
    hold.resolve();
    await first;
  });

  it("lets nobody in who has left before", async () => {
    const gate = new SandboxGate();
    const hold = Promise.withResolvers<void>();
    const first = gate.alone("sb_1", forever, () => hold.promise);
    const gone = AbortSignal.abort();
    await expect(gate.together("sb_1", gone, () => expect.unreachable("it ran"))).rejects.toMatchObject({
      code: "aborted",
    });
    hold.resolve();
    await first;
    expect(gate.size).toBe(0);
  });
});
