import { expect, test } from "vitest";

import { translateImports } from "./imports.ts";

test.each([
  ["import a from 'm'", 'const { default: a } = await __importModule("m");'],
  ["import * as a from 'm';", 'const a = await __importModule("m");'],
  ["import d, * as a from 'm';", 'const a = await __importModule("m"); const { default: d } = a;'],
  ["import { a, b as c, default as d } from 'm';", 'const { a: a, b: c, default: d } = await __importModule("m");'],
  ['import { "x-y" as z } from "m";', 'const { "x-y": z } = await __importModule("m");'],
  ["import 'm';", 'await __importModule("m");'],
  [
    "import d from './d.json' with { type: 'json' };",
    'const { default: d } = await __importModule("./d.json", { with: { type: "json" } });',
  ],
  ["const a = await import('m'); a", "const a = await __importModule('m'); a"],
  ["f(() => import(`m${1}`))", "f(() => __importModule(`m${1}`))"],
  ["import {\n  a,\n} from 'm'; a", 'const { a: a } = await __importModule("m");\n\n a'],
])("%j", (code, translated) => {
  expect(translateImports(code)).toBe(translated);
});

test.each([
  "1 + 1",
  "'import a from \"m\"'",
  "// import('m')\n1",
  "`import('m')`",
  "/import('m')/.source",
  "x.import('m')",
  "import a from",
  "with (o) { important }",
])("%j stays as it is", (code) => {
  expect(translateImports(code)).toBe(code);
});

test("code that only works outside of modules is translated as well", () => {
  expect(translateImports("with (o) { a = import('m') }")).toBe("with (o) { a = __importModule('m') }");
});
