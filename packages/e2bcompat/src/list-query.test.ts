import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeCursor, encodeCursor, parseMetadataFilter, parseTime } from "./list-query.ts";

/** What a client makes of metadata, before the query's own encoding. */
function encodeMetadata(pairs: readonly (readonly [string, string])[], keepSlash: boolean): string {
  const first = (text: string): string => {
    const encoded = encodeURIComponent(text);
    return keepSlash ? encoded.replaceAll("%2F", "/") : encoded;
  };
  const form = new URLSearchParams();
  for (const [key, value] of pairs) {
    form.append(first(key), first(value));
  }
  return form.toString();
}

describe("parseMetadataFilter", () => {
  it.each([false, true])("reads back what the clients encode (slashes kept: %s)", (keepSlash) => {
    const text = fc.string({ unit: "grapheme" }).filter((value) => value.isWellFormed());
    const key = text.filter((value) => value !== "");
    fc.assert(
      fc.property(fc.uniqueArray(fc.tuple(key, text), { selector: ([name]) => name, minLength: 1 }), (pairs) => {
        expect(parseMetadataFilter(encodeMetadata(pairs, keepSlash))).toStrictEqual(pairs);
      }),
    );
  });

  it("either reads any text or refuses it", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        try {
          parseMetadataFilter(text);
        } catch (error) {
          expect(error).toMatchObject({ code: "bad_request" });
        }
      }),
    );
  });
});

describe("page tokens", () => {
  const position = fc.record(
    {
      startedMs: fc.integer({ min: -62_135_596_800_000, max: 253_402_300_799_999 }),
      id: fc.stringMatching(/^sb_[0-9a-f]{1,32}$/),
    },
    { noNullPrototype: true },
  );

  it("name their position under their order, and nothing under the other", () => {
    fc.assert(
      fc.property(position, fc.boolean(), (place, newestFirst) => {
        const token = encodeCursor(place, newestFirst);
        expect(token).toMatch(/^[A-Za-z0-9_-]+$/);
        expect(decodeCursor(token, newestFirst)).toStrictEqual(place);
        expect(decodeCursor(token, !newestFirst)).toBeUndefined();
      }),
    );
  });

  it("are never any other text", () => {
    fc.assert(
      fc.property(fc.string(), fc.boolean(), (text, newestFirst) => {
        const place = decodeCursor(text, newestFirst);
        expect(place === undefined || encodeCursor(place, newestFirst) === text).toBe(true);
      }),
    );
  });

  it.each(["not-a-token", "ZA", "====", "ZCAxIHNiXzE=", "d 1 sb_1", "ZCAwMSBzYl8x"])("%j is none", (token) => {
    expect(decodeCursor(token, true)).toBeUndefined();
  });
});

describe("parseTime", () => {
  it.each([
    ["2026-09-27T13:57:51Z", 1_790_517_471],
    ["2026-09-27T13:57:51.999999Z", 1_790_517_471],
    ["2026-09-27T15:57:51+02:00", 1_790_517_471],
    ["2026-09-27t13:57:51z", 1_790_517_471],
    ["1969-12-31T23:59:59.5Z", -1],
  ])("reads %s", (text, seconds) => {
    expect(parseTime(text)).toBe(seconds);
  });

  it.each([
    "",
    "yesterday",
    "2026",
    "2026-09-27",
    "2026-09-27T13:57:51",
    "2026-09-27 13:57:51Z",
    "2026-02-30T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-09-27T25:00:00Z",
    "2026-09-27T13:57:51+0200",
    "+002026-09-27T13:57:51Z",
    "Sun, 27 Sep 2026 13:57:51 GMT",
    "1790517471",
  ])("refuses %j", (text) => {
    expect(parseTime(text)).toBeUndefined();
  });
});
