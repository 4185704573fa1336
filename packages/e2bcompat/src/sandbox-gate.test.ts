import { isScaleError } from "@org/scale";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SandboxGate } from "./sandbox-gate.ts";

const forever = new AbortController().signal;

describe("SandboxGate", () => {
  it("never has one that is alone together with another, keeps the order, and forgets everybody in the end", async () => {
    const visits = fc.array(
      fc.record({ alone: fc.boolean(), turns: fc.nat(4), leaves: fc.boolean(), fails: fc.boolean() }),
      {
        minLength: 1,
        maxLength: 25,
      },
    );
    await fc.assert(
      fc.asyncProperty(visits, async (script) => {
        const gate = new SandboxGate();
        const inside = new Set<number>();
        const entered: number[] = [];
        const left = new Set<number>();
        const runs = script.map(({ alone, turns, leaves, fails }, index) => {
          const client = new AbortController();
          const run = gate[alone ? "alone" : "together"]("sb_1", client.signal, async () => {
            entered.push(index);
            inside.add(index);
            const others = [...inside].filter((other) => other !== index);
            expect(alone ? others : others.filter((other) => script[other]?.alone === true)).toStrictEqual([]);
            for (let turn = 0; turn < turns; turn += 1) {
              await Promise.resolve();
            }
            inside.delete(index);
            if (fails) {
              throw new Error("inside");
            }
          }).catch((error: unknown) => {
            if (isScaleError(error, "aborted")) {
              left.add(index);
            } else {
              expect(error).toStrictEqual(new Error("inside"));
            }
          });
          if (leaves) {
            client.abort();
          }
          return run;
        });
        await Promise.all(runs);
        expect(entered).toStrictEqual(entered.toSorted((a, b) => a - b));
        expect(entered.length + left.size).toBe(script.length);
        expect(gate.size).toBe(0);
      }),
    );
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
