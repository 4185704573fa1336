import type { Sandbox } from "@org/scale";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { selectPage } from "./list-page.ts";
import { decodeCursor } from "./list-query.ts";
import type { ListQuery } from "./list-query.ts";

const EVERYTHING: ListQuery = {
  states: { running: true, paused: true },
  metadata: [],
  template: undefined,
  startedAfter: undefined,
  newestFirst: true,
  limit: undefined,
  after: undefined,
};

function sandbox(id: string, startedMs: number | undefined): Sandbox {
  const claimedAt = startedMs === undefined ? undefined : new Date(startedMs);
  return { namespace: "ns1", name: id, node: "n", id, phase: "Running", paused: false, claimedAt };
}

const fleets = fc
  .uniqueArray(fc.tuple(fc.integer({ min: 0, max: 60 }), fc.option(fc.integer({ min: 0, max: 5 }))), {
    selector: ([id]) => id,
    maxLength: 40,
  })
  .map((rows) => rows.map(([id, started]) => sandbox(`sb_${id}`, started === null ? undefined : started * 400)));

function walk(pages: (page: number) => readonly Sandbox[], limit: number, newestFirst: boolean): readonly string[] {
  const seen: string[] = [];
  let after: ListQuery["after"];
  for (let page = 0; ; page += 1) {
    const { items, nextToken } = selectPage(pages(page), { ...EVERYTHING, newestFirst, limit, after }, []);
    expect(items.length).toBeLessThanOrEqual(limit);
    seen.push(...items.map((item) => item.id));
    if (nextToken === undefined) {
      return seen;
    }
    after = decodeCursor(nextToken, newestFirst);
    expect(after).toBeDefined();
  }
}

it("pages of any size are the whole listing cut up", () => {
  fc.assert(
    fc.property(fleets, fc.integer({ min: 1, max: 7 }), fc.boolean(), (fleet, limit, newestFirst) => {
      const whole = selectPage(fleet, { ...EVERYTHING, newestFirst }, []).items.map((item) => item.id);
      expect(whole).toHaveLength(fleet.length);
      expect(walk(() => fleet, limit, newestFirst)).toStrictEqual(whole);
      expect(walk(() => fleet.toReversed(), limit, newestFirst)).toStrictEqual(whole);
      expect(walk(() => fleet, limit, !newestFirst)).toStrictEqual(whole.toReversed());
    }),
  );
});

it("sandboxes that stay are met once, whatever comes and goes between pages", () => {
  const churn = fc.array(fc.uniqueArray(fc.integer({ min: 0, max: 60 })), { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(fleets, churn, fc.integer({ min: 1, max: 5 }), fc.boolean(), (fleet, gone, limit, newestFirst) => {
      const leaving = gone.map((ids) => new Set(ids.map((id) => `sb_${id}`)));
      const away = new Set(leaving.flatMap((ids) => [...ids]));
      const stays = fleet.filter(({ id }) => !away.has(id)).map(({ id }) => id);
      const at = (page: number): readonly Sandbox[] =>
        fleet.filter(({ id }) => !(leaving[page % leaving.length]?.has(id) ?? false));
      const seen = walk(at, limit, newestFirst);
      expect(new Set(seen).size).toBe(seen.length);
      expect(stays.filter((id) => !seen.includes(id))).toStrictEqual([]);
    }),
  );
});

it("leaves out what cannot be addressed", () => {
  expect(selectPage([sandbox("", 1)], EVERYTHING, []).items).toStrictEqual([]);
});
