import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SortedEdit, spliceSorted } from "./sorted-splice.ts";

interface Item {
  readonly key: number;
}

const byKey = (a: Item, b: Item): number => a.key - b.key;
const items = (max: number): fc.Arbitrary<Item[]> =>
  fc.array(
    fc.nat(50).map((key) => ({ key })),
    { maxLength: max },
  );

describe("spliceSorted", () => {
  it("gives what taking out, adding and sorting would give", () => {
    fc.assert(
      fc.property(items(200), items(30), fc.array(fc.nat(300), { maxLength: 40 }), (all, inserted, picks) => {
        const sorted = all.toSorted(byKey);
        const before = [...sorted];
        const removed = picks.flatMap((at) => sorted[at] ?? []);
        const gone = new Set(removed.map((item) => item.key));
        const out = spliceSorted(sorted, removed, inserted, byKey);
        const left = sorted.filter((item) => !gone.has(item.key));
        expect(out.map((item) => item.key)).toStrictEqual([...left, ...inserted].sort(byKey).map((item) => item.key));
        expect(new Set(out)).toStrictEqual(new Set([...left, ...inserted]));
        expect(out).toHaveLength(left.length + inserted.length);
        expect(sorted).toStrictEqual(before);
      }),
      { numRuns: 300 },
    );
  });

  it("ignores what is not there and copies nothing for nothing", () => {
    const sorted = [{ key: 1 }, { key: 2 }];
    expect(spliceSorted(sorted, [{ key: 0 }, { key: 9 }], [], byKey)).toBe(sorted);
  });
});

it("edits an array and those beside it as if each cut and insertion were made by itself", () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(9), { maxLength: 12 }),
      fc.array(fc.nat(12), { maxLength: 6 }),
      fc.array(fc.nat(12), { maxLength: 6 }),
      (array, cutPlaces, insertPlaces) => {
        const cuts = [...new Set(cutPlaces)].filter((at) => at < array.length);
        const inserts = insertPlaces.filter((at) => at <= array.length).sort((a, b) => a - b);
        const edit = new SortedEdit(array.length);
        cuts.forEach((at) => edit.cut(at));
        inserts.forEach((at) => edit.insert(at));
        const inserted = inserts.map((_, index) => 100 + index);
        const expected: number[] = [];
        for (let at = 0; at <= array.length; at += 1) {
          expected.push(...inserted.filter((_, index) => inserts[index] === at));
          if (at < array.length && !cuts.includes(at)) {
            expected.push(array[at] ?? -1);
          }
        }
        const before = [...array];
        expect(edit.apply(array, inserted)).toStrictEqual(expected);
        expect(edit.apply(array, inserted)).toStrictEqual(expected);
        expect(array).toStrictEqual(before);
      },
    ),
  );
});
