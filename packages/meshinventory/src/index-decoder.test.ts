import type { InventoryEntry } from "@org/scale";
import { entryFromRow } from "@org/scale/sandboxd";
import { readIndex } from "@org/sandboxd-client/wire";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { IndexDecoder } from "./index-decoder.ts";
import { row } from "./testing/fake-mesh.ts";

function body(rows: readonly object[] | null): Buffer {
  return Buffer.from(JSON.stringify({ sandboxes: rows }));
}

/** Runs a decoder to its end. */
function decode(decoder: IndexDecoder, reply: Buffer): readonly InventoryEntry[] {
  const steps = decoder.decode(reply);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) {
      return value;
    }
  }
}

function plainly(reply: Buffer): unknown {
  return readIndex(JSON.parse(reply.toString())).map(entryFromRow);
}

const tricky = 'a"}],{"id":"x\\","},{"id":"sb_0","b":[{\\';
const rowArbitrary = fc
  .record({
    id: fc.integer({ min: 0, max: 12 }),
    ref: fc.constantFrom("ns/a", "ns/ü漢🙂", tricky),
    hibernated: fc.boolean(),
    metadata: fc.option(fc.dictionary(fc.constantFrom("id", "k", tricky), fc.string()), { nil: undefined }),
    volumes: fc.option(fc.constant([{ name: "v" }, { name: tricky }]), { nil: undefined }),
  })
  .map(({ id, ref, ...rest }) => row(`sb_${id}`, ref, rest));

describe("the index decoder", () => {
  it("reads every sequence of replies as a plain parser does", () => {
    const layout = fc.constantFrom<(rows: readonly object[]) => string>(
      (rows) => JSON.stringify({ sandboxes: rows }),
      (rows) => `${JSON.stringify({ sandboxes: rows })}\n`,
      (rows) => JSON.stringify({ sandboxes: rows }, null, 1),
      (rows) => JSON.stringify({ sandboxes: rows, next: [{ id: "sb_no" }] }),
      (rows) => JSON.stringify({ sandboxes: [{ id: "" }, ...rows] }),
      (rows) => JSON.stringify({ sandboxes: rows.map((one) => ({ zone: 1, ...one })) }),
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.array(rowArbitrary, { maxLength: 8 }), layout), { maxLength: 6 }), (replies) => {
        const decoder = new IndexDecoder();
        for (const [rows, write] of replies) {
          const reply = Buffer.from(write(rows));
          const expected = plainly(reply) as unknown[];
          const entries = decode(decoder, reply);
          // A reply that only moved its rows keeps the last array, so order is not compared.
          expect([...entries].map(asText).sort()).toEqual(expected.map(asText).sort());
        }
      }),
      { numRuns: 500 },
    );
  });

  it("keeps the array when bytes or rows are the same, and entries of rows that did not change", () => {
    const decoder = new IndexDecoder();
    const rows = [row("sb_1", "ns/1"), row("sb_2", "ns/2"), row("sb_3", "ns/3")];
    const first = decode(decoder, body(rows));
    expect(decode(decoder, body(rows))).toBe(first);
    expect(decode(decoder, Buffer.concat([body(rows), Buffer.from("\n")]))).toBe(first);
    expect(decode(decoder, body(rows.toReversed()))).toBe(first);
    const changed = decode(decoder, body([row("sb_9", "ns/9"), ...rows.slice(1), row("sb_4", "ns/4")]));
    expect(changed).not.toBe(first);
    expect(changed.map((entry) => entry.id)).toEqual(["sb_2", "sb_3", "sb_9", "sb_4"]);
    expect(changed[0]).toBe(first[1]);
    expect(changed[1]).toBe(first[2]);
  });

  it("keeps the entry of every row whose bytes stayed, through any insertions, removals, changes and moves", () => {
    type Edit = (rows: readonly string[]) => readonly string[];
    const text = fc.tuple(rowArbitrary, fc.nat(99)).map(([one, id]) => JSON.stringify({ ...one, id: `sb_${id}` }));
    const at = (rows: readonly string[], where: number): number => Math.floor(where * rows.length);
    const where = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    const edit = fc.oneof(
      fc.tuple(where, text).map(
        ([to, made]): Edit =>
          (rows) =>
            rows.toSpliced(at(rows, to), 0, made),
      ),
      where.map(
        (from): Edit =>
          (rows) =>
            rows.toSpliced(at(rows, from), 1),
      ),
      fc.tuple(where, text).map(
        ([to, made]): Edit =>
          (rows) =>
            rows.toSpliced(at(rows, to), 1, made),
      ),
      fc.tuple(where, where).map(([from, to]): Edit => (rows) => {
        const moved = rows.slice(at(rows, from), at(rows, from) + 1);
        return rows.toSpliced(at(rows, from), 1).toSpliced(at(rows, to), 0, ...moved);
      }),
      fc.constant<Edit>((rows) => rows.toReversed()),
      fc.constant<Edit>((rows) => rows),
    );
    fc.assert(
      fc.property(
        fc.array(text, { minLength: 1, maxLength: 40 }),
        fc.array(fc.array(edit, { maxLength: 4 }), { maxLength: 6 }),
        (first, polls) => {
          const decoder = new IndexDecoder();
          let rows: readonly string[] = [];
          let known = new Map<string, InventoryEntry>();
          for (const edits of [[() => first], ...polls]) {
            rows = edits.reduce((now, change) => change(now), rows);
            // A node lists a sandbox once.
            rows = [...new Map(rows.map((one) => [JSON.parse(one).id as string, one])).values()];
            const reply = Buffer.from(`{"sandboxes":[${rows.join(",")}]}`);
            const entries = decode(decoder, reply);
            const scratch = decode(new IndexDecoder(), reply);
            expect([...entries].map(asText).sort()).toEqual([...scratch].map(asText).sort());
            const byId = new Map(entries.map((entry) => [entry.id, entry]));
            const next = new Map<string, InventoryEntry>();
            for (const [index, one] of rows.entries()) {
              const entry = byId.get(scratch[index]?.id ?? "");
              expect(entry).toBeDefined();
              if (entry !== undefined) {
                next.set(one, entry);
                expect(known.get(one) ?? entry).toBe(entry);
              }
            }
            known = next;
          }
        },
      ),
      { numRuns: 400 },
    );
  });

  it("puts entries where they were, whatever order a node lists them in", () => {
    const decoder = new IndexDecoder();
    const rows = Array.from({ length: 200 }, (_, index) => row(`sb_${index}`, `ns/${index}`));
    const first = decode(decoder, body(rows));
    const changed = new Map([[7, row("sb_7", "ns/7", { hibernated: true })]]);
    const shuffled = rows
      .map((one, index) => changed.get(index) ?? one)
      .map((one, index) => ({ one, place: (index * 7919) % 211 }))
      .toSorted((a, b) => a.place - b.place)
      .map(({ one }) => one);
    const second = decode(decoder, body(shuffled));
    expect(second.map((entry) => entry.id)).toEqual(first.map((entry) => entry.id));
    expect(second.filter((entry, index) => entry !== first[index]).map((entry) => entry.id)).toEqual(["sb_7"]);
    const third = decode(decoder, body(shuffled.filter((_, index) => index % 3 !== 0).toReversed()));
    expect([...third]).toEqual(second.filter((entry) => third.includes(entry)));
  });

  it("is as it was when its steps are not run to their end", () => {
    const decoder = new IndexDecoder();
    const many = Array.from({ length: 2000 }, (_, index) => row(`sb_${index}`, `ns/${index}`));
    const before = decode(decoder, body(many));
    const steps = decoder.decode(body(many.map((one, index) => ({ ...one, hibernated: index % 2 === 0 }))));
    expect(steps.next().done).toBe(false);
    expect(decode(decoder, body(many))).toBe(before);
  });

  it("reads a huge reply in many short steps, the first one and those after it", () => {
    const decoder = new IndexDecoder();
    const stepsFor = (rows: readonly object[]): number => {
      const steps = decoder.decode(body(rows));
      for (let count = 1; ; count += 1) {
        if (steps.next().done === true) {
          return count;
        }
      }
    };
    const many = Array.from({ length: 20_000 }, (_, index) => row(`sb_${index}`, `ns/${index}`));
    expect(stepsFor(many)).toBeGreaterThan(50);
    expect(stepsFor(many.map((one, index) => (index % 2 === 0 ? { ...one, hibernated: true } : one)))).toBeGreaterThan(
      25,
    );
    expect(stepsFor(many.slice(1))).toBeGreaterThan(3);
    expect(stepsFor(many.slice(1))).toBe(1);
  });

  it("tells a row listed twice from two rows", () => {
    const decoder = new IndexDecoder();
    const [one, two] = [row("sb_1", "ns/1"), row("sb_2", "ns/2")];
    decode(decoder, body([one, two]));
    expect(decode(decoder, body([one, one])).map((entry) => entry.id)).toEqual(["sb_1", "sb_1"]);
    expect(decode(decoder, body([two, one])).map((entry) => entry.id)).toEqual(["sb_1", "sb_2"]);
  });

  it("reads null, absent and empty lists alike, and keeps the empty array", () => {
    const decoder = new IndexDecoder();
    const first = decode(decoder, body(null));
    expect(first).toEqual([]);
    expect(decode(decoder, body([]))).toBe(first);
    expect(decode(decoder, Buffer.from("{}"))).toBe(first);
  });

  it.each([
    ["[]"],
    ["null"],
    [""],
    ['{"sandboxes":[{"id":"sb_1"}'],
    ['{"sandboxes":[{"id":"sb_1"}]}x'],
    ['{"sandboxes":{}}'],
  ])("refuses %j and stays as it was", (text) => {
    const decoder = new IndexDecoder();
    const first = decode(decoder, body([row("sb_1", "ns/1")]));
    expect(() => decode(decoder, Buffer.from(text))).toThrow();
    expect(decode(decoder, body([row("sb_1", "ns/1")]))).toBe(first);
  });

  it("refuses a reply cut at any byte", () => {
    const whole = body([row("sb_1", tricky, { metadata: { id: tricky } }), row("sb_2", "ns/2")]);
    const decoder = new IndexDecoder();
    decode(decoder, whole);
    for (let cut = 0; cut < whole.length; cut += 1) {
      expect(() => decode(decoder, whole.subarray(0, cut))).toThrow();
    }
  });
});

function asText(value: unknown): string {
  return JSON.stringify(value);
}
