import { expect, test } from "vitest";

import { languageOf, unsupported } from "./languages.ts";

test.each([
  [undefined, "python"],
  ["", "python"],
  ["python", "python"],
  ["python3", "python"],
  [" Python ", "python"],
  ["javascript", "javascript"],
  ["js", "javascript"],
  ["JS", "javascript"],
  ["typescript", "typescript"],
  ["ts", "typescript"],
  ["r", undefined],
  ["java", undefined],
  ["bash", undefined],
  ["constructor", undefined],
  ["__proto__", undefined],
])("%j is %s", (name, language) => {
  expect(languageOf(name)).toBe(language);
});

test("a refusal names the language, but not at any length", () => {
  expect(unsupported("r")).toContain('"r" is not supported');
  expect(unsupported("x".repeat(10_000)).length).toBeLessThan(200);
});
