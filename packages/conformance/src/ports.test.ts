import { expect, test } from "vitest";

import { freePorts } from "./ports.ts";

test("ports are given out once, to however many ask at the same time", async () => {
  const asked = await Promise.all(Array.from({ length: 100 }, () => freePorts(4)));
  const all = asked.flat();
  expect(all).toHaveLength(400);
  expect(new Set(all).size).toBe(400);
  expect(all.every((port) => port >= 20_000 && port < 32_000)).toBe(true);
});
