import { describe, expect, test } from "vitest";
import { DEFAULT_STALE_AFTER_MS, freshNodes } from "./staleness.ts";

const NOON = Date.UTC(2026, 0, 1, 12);

/** A node that published this many seconds before noon; without a number it never did. */
function node(name: string, secondsAgo?: number): { name: string; publishedAt?: Date } {
  return secondsAgo === undefined ? { name } : { name, publishedAt: new Date(NOON - secondsAgo * 1000) };
}

function fresh(fleet: readonly ReturnType<typeof node>[], now = NOON, staleAfterMs?: number): string[] {
  return freshNodes(fleet, now, staleAfterMs).map(({ name }) => name);
}

describe("a node's inventory", () => {
  test("counts at exactly the window and not past it", () => {
    expect(fresh([node("new", 0), node("edge", 90)])).toEqual(["new", "edge"]);
    expect(fresh([node("new", 0), node("old", 91)])).toEqual(["new"]);
  });

  test("counts however old it is while nobody publishes", () => {
    const fleet = [node("a", 600), node("b", 610)];
    expect(fresh(fleet)).toEqual(["a", "b"]);
  });

  test("counts for ever in a fleet of one", () => {
    expect(fresh([node("a", 86_400)])).toEqual(["a"]);
  });

  test("is not evicted by a node whose clock runs ahead", () => {
    expect(fresh([node("ahead", -3600), node("a", 30)])).toEqual(["ahead", "a"]);
  });

  test("without a stamp is stale as soon as any other node has one", () => {
    expect(fresh([node("a", 0), node("unstamped")])).toEqual(["a"]);
    expect(fresh([node("a"), node("b")])).toEqual(["a", "b"]);
  });

  test("is judged by the window given, where zero stands for the default", () => {
    const fleet = [node("new", 0), node("a", 20)];
    expect(fresh(fleet, NOON, 10_000)).toEqual(["new"]);
    expect(fresh(fleet, NOON, 0)).toEqual(["new", "a"]);
    expect(DEFAULT_STALE_AFTER_MS).toBe(90_000);
  });
});

test("an empty fleet has no fresh nodes", () => {
  expect(fresh([])).toEqual([]);
});
