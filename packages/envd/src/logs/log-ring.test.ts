import type { LogEntry, LogQuery } from "@org/envd-client";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createLogRing, type LogRing, type LogRingOptions, MAX_FRAME_BYTES } from "./log-ring.ts";

const MARK = " … [cut]";

/** A ring with a clock that stands still until it is moved. */
function testRing(options: Partial<LogRingOptions> = {}): LogRing & { ms: number } {
  const ring = createLogRing({
    maxBytes: 1024 * 1024,
    maxLines: 10_000,
    maxLineBytes: 64,
    now: () => made.ms,
    ...options,
  });
  const made = { ...ring, ms: 1000 };
  return made;
}

function print(ring: LogRing, text: string | Buffer, pid = 1, stream: "stdout" | "stderr" = "stdout"): void {
  const writer = ring.open(pid, stream);
  writer.write(Buffer.from(text));
  writer.end();
}

function messages(ring: LogRing, query: LogQuery = {}): string[] {
  return ring.read(query).map(({ message }) => message);
}

/** What the lines of one stream are, told in the simplest way. */
function linesOf(bytes: Buffer, maxLineBytes: number): string[] {
  const lines: string[] = [];
  let from = 0;
  while (from < bytes.length) {
    const found = bytes.indexOf(10, from);
    const end = found === -1 ? bytes.length : found;
    const line = bytes.subarray(from, end);
    if (line.length > maxLineBytes) {
      let cut = maxLineBytes;
      while (cut > maxLineBytes - 4 && ((line[cut] ?? 0) & 0xc0) === 0x80) cut -= 1;
      lines.push(line.subarray(0, cut).toString("utf8") + MARK);
    } else lines.push(line.subarray(0, line.at(-1) === 13 ? -1 : line.length).toString("utf8"));
    from = end + 1;
  }
  return lines;
}

/** Bytes with many line ends, long lines and characters of every length. */
const output: fc.Arbitrary<Buffer> = fc
  .array(
    fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom("\n", "\r\n", "\n\n", "a", "ä", "€", "𝄞", "\r") },
      { weight: 2, arbitrary: fc.string({ unit: "grapheme", maxLength: 90 }) },
      { weight: 1, arbitrary: fc.nat({ max: 300 }).map((length) => "x".repeat(length)) },
    ),
    { maxLength: 60 },
  )
  .chain((parts) =>
    fc.oneof(
      fc.constant(Buffer.from(parts.join(""))),
      fc.uint8Array({ maxLength: 400 }).map((raw) => Buffer.from(raw)),
    ),
  );

const sizes = fc.array(fc.oneof(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 200 })), {
  minLength: 1,
  maxLength: 30,
});

/** The bytes in pieces of these sizes, again and again. */
function* chunked(bytes: Buffer, lengths: readonly number[]): Generator<Buffer> {
  for (let at = 0, index = 0; at < bytes.length; index += 1) {
    const length = lengths[index % lengths.length] ?? 1;
    yield bytes.subarray(at, at + length);
    at += length;
  }
}

describe("lines of a log", () => {
  it("are the same however the output is cut into pieces", () => {
    fc.assert(
      fc.property(output, sizes, (bytes, lengths) => {
        const ring = testRing();
        const writer = ring.open(7, "stdout");
        for (const piece of chunked(bytes, lengths)) {
          ring.ms += piece.length % 2;
          writer.write(Buffer.from(piece));
        }
        writer.end();
        expect(messages(ring)).toStrictEqual(linesOf(bytes, 64));
      }),
    );
  });

  it("of several streams that write in turns stay whole, and each stream keeps its order", () => {
    const streams = fc.array(fc.record({ bytes: output, lengths: sizes }), { minLength: 2, maxLength: 4 });
    fc.assert(
      fc.property(streams, fc.infiniteStream(fc.nat({ max: 3 })), (parts, turns) => {
        const ring = testRing();
        const sources = parts.map(({ bytes, lengths }, index) => ({
          writer: ring.open(index + 1, index % 2 === 0 ? "stdout" : "stderr"),
          left: [...chunked(bytes, lengths)],
        }));
        for (const turn of turns) {
          const waiting = sources.filter(({ left }) => left.length > 0);
          const source = waiting[turn % Math.max(1, waiting.length)];
          if (source === undefined) break;
          source.writer.write(source.left.shift() ?? Buffer.alloc(0));
        }
        for (const { writer } of sources) writer.end();
        const entries = ring.read({});
        for (const [index, { bytes }] of parts.entries()) {
          const own = entries.filter(({ pid }) => pid === index + 1);
          expect(own.map(({ message }) => message)).toStrictEqual(linesOf(bytes, 64));
          expect(own.every(({ level }) => level === (index % 2 === 0 ? "info" : "error"))).toBe(true);
        }
      }),
    );
  });

  it("that are left when the ring is too small are the newest, unbroken, and keep their numbers", () => {
    const lengths = fc.array(fc.integer({ min: 40, max: 300 }), { minLength: 1, maxLength: 10 });
    const pieces = fc.array(fc.integer({ min: 40, max: 6000 }), { minLength: 1, maxLength: 10 });
    fc.assert(
      fc.property(lengths, pieces, fc.nat({ max: 2 }), (cycle, sizesOfPieces, pace) => {
        const ring = testRing({ maxBytes: 4 * MAX_FRAME_BYTES, maxLines: 1e6, maxLineBytes: 1000 });
        const writer = ring.open(1, "stdout");
        const other = ring.open(2, "stderr");
        let text = "";
        for (let index = 0; text.length < 300_000; index += 1) {
          text += `${index}:${"y".repeat(cycle[index % cycle.length] ?? 0)}\n`;
        }
        const numbers = new Map<string, number>();
        const changed: string[] = [];
        for (const [index, piece] of [...chunked(Buffer.from(text), sizesOfPieces)].entries()) {
          writer.write(piece);
          ring.ms += pace;
          if (index % 3 === 0) other.write(Buffer.from("not"));
          if (index % 100 > 0) continue;
          for (const { seq, message } of ring.read({})) {
            if ((numbers.get(message) ?? seq) !== seq) changed.push(message);
            numbers.set(message, seq);
          }
        }
        expect(changed).toStrictEqual([]);
        const all = linesOf(Buffer.from(text), 1000);
        const left = messages(ring, { level: "debug" }).filter((message) => !message.startsWith("not"));
        expect(left).toStrictEqual(all.slice(all.length - left.length));
        // Frames are given up as a whole, and short pieces bring a header each.
        const shown = left.reduce((sum, line) => sum + line.length + 1, 0);
        const small = sizesOfPieces.every((size) => size < 400) && pace > 0;
        expect(shown).toBeGreaterThan(small ? 0 : 2 * MAX_FRAME_BYTES);
      }),
      { numRuns: 15 },
    );
  });

  it("of one moment make room for each other little by little, not all at once", () => {
    const ring = testRing({ maxBytes: 4 * MAX_FRAME_BYTES, maxLines: 1e6 });
    const writer = ring.open(1, "stdout");
    for (let index = 0; index < 20_000; index += 1) {
      writer.write(Buffer.from(`${index} of many lines\n`));
      if (index % 997 > 0 || index < 10_000) continue;
      expect(messages(ring).join("\n").length).toBeGreaterThan(3 * MAX_FRAME_BYTES);
    }
  });

  it("appear when they are complete: at their newline, or at the end of the command", () => {
    const ring = testRing();
    const writer = ring.open(3, "stdout");
    writer.write(Buffer.from("one\ntw"));
    expect(messages(ring)).toStrictEqual(["one"]);
    writer.write(Buffer.from("o"));
    expect(messages(ring)).toStrictEqual(["one"]);
    writer.end();
    expect(messages(ring)).toStrictEqual(["one", "two"]);
    writer.end();
    expect(messages(ring)).toStrictEqual(["one", "two"]);
  });

  it("carry their stream, pid and a number that grows", () => {
    const ring = testRing();
    print(ring, "out\n", 5);
    print(ring, "err\n", 6, "stderr");
    const [out, err] = ring.read({});
    expect(out).toMatchObject({ level: "info", logger: "process.stdout", pid: 5, message: "out", timestampMs: 1000 });
    expect(err).toMatchObject({ level: "error", logger: "process.stderr", pid: 6, message: "err", timestampMs: 1000 });
    expect(err?.seq).toBeGreaterThan(out?.seq ?? Infinity);
  });

  it("without an end do not fill the memory: what is beyond the limit is not kept", () => {
    const ring = testRing();
    print(ring, "before\n");
    const writer = ring.open(2, "stdout");
    for (let count = 0; count < 1000; count += 1) writer.write(Buffer.alloc(MAX_FRAME_BYTES, "z"));
    writer.write(Buffer.from("z\nafter\n"));
    expect(messages(ring)).toStrictEqual(["before", "z".repeat(64) + MARK, "after"]);
  });

  it("are limited in number, however short they are", () => {
    const ring = testRing({ maxLines: 100 });
    for (let count = 0; count < 50; count += 1) print(ring, `${"\n".repeat(998)}${count}\n`);
    const left = messages(ring);
    expect(left).toHaveLength(100);
    expect(left.at(-1)).toBe("49");
  });
});

describe("memory of a log", () => {
  it("does not depend on the number of commands or of pieces", () => {
    const ring = testRing({ maxBytes: 4 * MAX_FRAME_BYTES });
    for (let count = 0; count < 20_000; count += 1) {
      ring.ms += 1;
      print(ring, `${count}\n`, count);
    }
    const left = messages(ring);
    expect(left.at(-1)).toBe("19999");
    expect(left.length).toBeGreaterThan(2000);
    expect(left).toStrictEqual(Array.from(left, (_, index) => String(20_000 - left.length + index)));
  });
});

describe("a page of a log", () => {
  const filled = (): LogRing & { ms: number } => {
    const ring = testRing();
    for (let index = 0; index < 10; index += 1) {
      ring.ms = 1000 + index * 10;
      print(ring, `line ${index}\n`, 1, index % 3 === 0 ? "stderr" : "stdout");
    }
    return ring;
  };

  it.each([
    ["everything without a limit", {}, "0123456789"],
    ["the oldest first", { limit: 3 }, "012"],
    ["the newest first when it goes backward", { limit: 3, direction: "backward" }, "987"],
    ["from a moment on, that moment included", { cursorMs: 1070 }, "789"],
    ["from between two moments on", { cursorMs: 1071 }, "89"],
    ["back from a moment, that moment included", { cursorMs: 1020, direction: "backward" }, "210"],
    ["nothing after the last moment", { cursorMs: 1091 }, ""],
    ["nothing before the first moment", { cursorMs: 999, direction: "backward" }, ""],
    ["errors alone", { level: "error" }, "0369"],
    ["what is at least a warning", { level: "warn" }, "0369"],
    ["information and errors", { level: "info" }, "0123456789"],
    ["lines with a text", { search: "ne 4" }, "4"],
    ["no lines with the text in another case", { search: "LINE" }, ""],
    ["everything for an empty text", { search: "" }, "0123456789"],
    ["as many of the wanted ones as asked for", { level: "error", limit: 2 }, "03"],
    ["nothing for a limit of none", { limit: 0 }, ""],
  ] as const)("has %s", (_what, query, indexes) => {
    expect(
      messages(filled(), query)
        .map((message) => message.slice(5))
        .join(""),
    ).toBe(indexes);
  });

  it("ends with a whole millisecond, so that the next one neither repeats nor skips", () => {
    const ring = testRing();
    print(ring, "a\nb\nc\n");
    ring.ms += 1;
    print(ring, "d\n");
    expect(messages(ring, { limit: 1 })).toStrictEqual(["a", "b", "c"]);
    expect(messages(ring, { limit: 2, direction: "backward" })).toStrictEqual(["d", "c", "b", "a"]);
  });

  it("that was shown stays complete: later lines get a later time, even when the clock stands or goes back", () => {
    const ring = testRing();
    print(ring, "a\n");
    expect(ring.read({}).at(-1)?.timestampMs).toBe(1000);
    print(ring, "b\n");
    ring.ms = 10;
    print(ring, "c\n");
    expect(ring.read({ cursorMs: 1001 }).map(({ message, timestampMs }) => [message, timestampMs])).toStrictEqual([
      ["b", 1001],
      ["c", 1001],
    ]);
    expect(ring.read({ cursorMs: 1002 })).toStrictEqual([]);
    print(ring, "d\n");
    expect(messages(ring, { cursorMs: 1002 })).toStrictEqual(["d"]);
  });

  type Step =
    | { readonly kind: "print"; readonly text: string }
    | { readonly kind: "read"; readonly limit: number }
    | { readonly kind: "wait"; readonly ms: number };
  const steps: fc.Arbitrary<Step[]> = fc.array(
    fc.oneof(
      fc.record({ kind: fc.constant("print" as const), text: fc.stringMatching(/^[ab\n]{1,12}$/) }),
      fc.record({ kind: fc.constant("read" as const), limit: fc.integer({ min: 1, max: 8 }) }),
      fc.record({ kind: fc.constant("wait" as const), ms: fc.integer({ min: -3, max: 3 }) }),
    ),
    { maxLength: 80 },
  );

  it("follows the one before while new lines come: read forward by times, every line is seen once", () => {
    fc.assert(
      fc.property(steps, (script) => {
        const ring = testRing();
        const writers = [ring.open(1, "stdout"), ring.open(2, "stderr")];
        const seen: LogEntry[] = [];
        let cursorMs = 0;
        const readOn = (limit: number): number => {
          const page = ring.read({ cursorMs, limit });
          seen.push(...page);
          cursorMs = (page.at(-1)?.timestampMs ?? cursorMs - 1) + 1;
          return page.length;
        };
        for (const [index, step] of script.entries()) {
          if (step.kind === "print") writers[index % 2]?.write(Buffer.from(step.text));
          else if (step.kind === "wait") ring.ms += step.ms;
          else readOn(step.limit);
        }
        while (readOn(3) > 0);
        expect(seen).toStrictEqual(ring.read({}));
      }),
    );
  });

  it("follows the one before when read backward by times, whatever comes in between", () => {
    fc.assert(
      fc.property(steps, (script) => {
        const ring = testRing();
        const writer = ring.open(1, "stdout");
        for (const step of script) {
          if (step.kind === "print") writer.write(Buffer.from(step.text));
          else if (step.kind === "wait") ring.ms += step.ms;
        }
        const all = ring.read({});
        const seen: LogEntry[] = [];
        for (let cursorMs: number | undefined; ;) {
          const page = ring.read({ limit: 4, direction: "backward", cursorMs });
          const last = page.at(-1);
          if (last === undefined) break;
          seen.push(...page);
          cursorMs = last.timestampMs - 1;
          writer.write(Buffer.from("later\n"));
        }
        expect(seen.toReversed()).toStrictEqual(all);
      }),
    );
  });
});
