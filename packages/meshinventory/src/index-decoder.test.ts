import { entryFromRow } from "@org/scale/sandboxd";
import { readIndex } from "@org/sandboxd-client/wire";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { IndexDecoder } from "./index-decoder.ts";
import { row } from "./testing/fake-mesh.ts";

function body(rows: readonly object[] | null): Buffer {
  return Buffer.from(JSON.stringify({ sandboxes: rows }));
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
          const entries = decoder.decode(reply);
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
    const first = decoder.decode(body(rows));
    expect(decoder.decode(body(rows))).toBe(first);
    expect(decoder.decode(Buffer.concat([body(rows), Buffer.from("\n")]))).toBe(first);
    expect(decoder.decode(body(rows.toReversed()))).toBe(first);
    const changed = decoder.decode(body([row("sb_9", "ns/9"), ...rows.slice(1), row("sb_4", "ns/4")]));
    expect(changed).not.toBe(first);
    expect(changed.map((entry) => entry.id)).toEqual(["sb_9", "sb_2", "sb_3", "sb_4"]);
    expect(changed[1]).toBe(first[1]);
    expect(changed[2]).toBe(first[2]);
  });

  it("tells a row listed twice from two rows", () => {
    const decoder = new IndexDecoder();
    const [one, two] = [row("sb_1", "ns/1"), row("sb_2", "ns/2")];
    decoder.decode(body([one, two]));
    expect(decoder.decode(body([one, one])).map((entry) => entry.id)).toEqual(["sb_1", "sb_1"]);
    expect(decoder.decode(body([two, one])).map((entry) => entry.id)).toEqual(["sb_2", "sb_1"]);
  });

  it("reads null, absent and empty lists alike, and keeps the empty array", () => {
    const decoder = new IndexDecoder();
    const first = decoder.decode(body(null));
    expect(first).toEqual([]);
    expect(decoder.decode(body([]))).toBe(first);
    expect(decoder.decode(Buffer.from("{}"))).toBe(first);
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
    const first = decoder.decode(body([row("sb_1", "ns/1")]));
    expect(() => decoder.decode(Buffer.from(text))).toThrow();
    expect(decoder.decode(body([row("sb_1", "ns/1")]))).toBe(first);
  });

  it("refuses a reply cut at any byte", () => {
    const whole = body([row("sb_1", tricky, { metadata: { id: tricky } }), row("sb_2", "ns/2")]);
    const decoder = new IndexDecoder();
    decoder.decode(whole);
    for (let cut = 0; cut < whole.length; cut += 1) {
      expect(() => decoder.decode(whole.subarray(0, cut))).toThrow();
    }
  });
});

function asText(value: unknown): string {
  return JSON.stringify(value);
}
