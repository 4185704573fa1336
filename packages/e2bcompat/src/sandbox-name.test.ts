import { expect, it } from "vitest";
import { createSandboxNames } from "./sandbox-name.ts";

it("makes names of five unambiguous characters that hardly ever repeat", () => {
  const name = createSandboxNames();
  const names = Array.from({ length: 2000 }, name);
  expect(names.every((made) => /^e2b-[bcdfghjklmnpqrstvwxz2456789]{5}$/.test(made))).toBe(true);
  expect(new Set(names).size).toBeGreaterThan(1990);
});

it("gives every character the same share of the random bytes", () => {
  let next = 0;
  const name = createSandboxNames((pool) => pool.forEach((_byte, index) => (pool[index] = next++ % 256)));
  const counts = new Map<string, number>();
  // 5 × 243 × 27 characters use every byte value that is not thrown away equally often.
  for (let made = 0; made < 243 * 27; made += 1) {
    for (const character of name().slice(4)) {
      counts.set(character, (counts.get(character) ?? 0) + 1);
    }
  }
  expect(new Set(counts.values()).size).toBe(1);
  expect(counts.size).toBe(27);
});
