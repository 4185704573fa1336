import { describe, expect, it } from "vitest";
import { readListQuery, readWatchQuery } from "./list-query.ts";

const query = (text: string): URLSearchParams => new URLSearchParams(text);

describe("the query of a list", () => {
  it.each([
    ["nothing", "", 0],
    ["a limit", "limit=500", 500],
    ["an empty limit", "limit=", 0],
    ["a limit below zero", "limit=-1", 0],
    ["any version", "resourceVersion=abc", 0],
    ["an exact version", "resourceVersion=7&resourceVersionMatch=Exact", 0],
    ["a version that is no older", "resourceVersion=0&resourceVersionMatch=NotOlderThan", 0],
  ])("takes %s", (_case, text, limit) => {
    expect(readListQuery(query(text))).toStrictEqual({ limit, after: undefined });
  });

  it.each([
    ["a limit that is no number", "limit=many", 400, "limit"],
    ["a limit with a fraction", "limit=1.5", 400, "limit"],
    ["a bad token", "continue=x!", 400, "continue"],
    ["a version beside a token", "continue=W10&resourceVersion=5", 400, "resource version"],
    ["a match without a version", "resourceVersionMatch=Exact", 422, "unless resourceVersion is provided"],
    ["a match of another kind", "resourceVersion=1&resourceVersionMatch=Best", 422, "Unsupported value"],
    ["exactly any version", "resourceVersion=0&resourceVersionMatch=Exact", 422, "Exact"],
    ["a match beside a token", "resourceVersion=0&resourceVersionMatch=Exact&continue=W10", 422, "continue"],
    ["initial events", "sendInitialEvents=true", 422, "forbidden for list"],
  ])("refuses %s", (_case, text, code, words) => {
    expect(() => readListQuery(query(text))).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(words) as string }),
    );
  });
});

describe("the query of a watch", () => {
  it.each([
    ["nothing", "watch=true", { resourceVersion: "", initialEvents: undefined, bookmarks: false, timeoutSeconds: 0 }],
    [
      "everything",
      "resourceVersion=7&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1&timeoutSeconds=30",
      { resourceVersion: "7", initialEvents: true, bookmarks: true, timeoutSeconds: 30 },
    ],
    [
      "no initial events",
      "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=false",
      { resourceVersion: "", initialEvents: false, bookmarks: false, timeoutSeconds: 0 },
    ],
  ])("takes %s", (_case, text, read) => {
    expect(readWatchQuery(query(text))).toStrictEqual(read);
  });

  it.each([
    ["initial events without a match", "sendInitialEvents=true&allowWatchBookmarks=true", "FieldValueForbidden"],
    ["none of them without a match", "sendInitialEvents=false", "FieldValueForbidden"],
    ["initial events of an exact version", "sendInitialEvents=true&resourceVersionMatch=Exact", "FieldValueForbidden"],
    [
      "initial events with a match of another kind",
      "sendInitialEvents=1&resourceVersionMatch=x",
      "FieldValueNotSupported",
    ],
    ["a match without initial events", "resourceVersionMatch=NotOlderThan", "FieldValueForbidden"],
  ])("refuses %s", (_case, text, reason) => {
    expect(() => readWatchQuery(query(text))).toThrow(
      expect.objectContaining({
        code: 422,
        details: expect.objectContaining({
          causes: [expect.objectContaining({ reason, field: "resourceVersionMatch" })],
        }) as object,
      }),
    );
  });

  it("refuses a time-out that is no number", () => {
    expect(() => readWatchQuery(query("timeoutSeconds=soon"))).toThrow(expect.objectContaining({ code: 400 }));
  });
});
