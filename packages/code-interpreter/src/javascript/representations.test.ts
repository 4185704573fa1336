import { expect, test } from "vitest";

import { formsOf } from "./representations.ts";

const display = Symbol.for("Jupyter.display");

test.each([
  ["a string", "text", { text: "text" }],
  ["a number", -0, { text: "-0" }],
  ["null", null, { text: "null" }],
  ["an object", { a: [1] }, { text: "{ a: [ 1 ] }" }],
  ["a symbol", Symbol("s"), { text: "Symbol(s)" }],
])("%s", (_name, value, forms) => {
  expect(formsOf(value)).toEqual(forms);
});

test("the display method gives forms by media type, bytes as base64, and no member of the protocol", () => {
  const value = {
    [display]: () => ({
      "text/plain": "plain",
      "text/html": "<b>",
      "image/png": new Uint8Array([1, 2]),
      "application/json": { a: 1 },
      "application/x-own": "own",
      "text/markdown": null,
      is_main_result: false,
      type: "error",
    }),
  };
  expect(formsOf(value)).toEqual({
    text: "plain",
    html: "<b>",
    png: "AQI=",
    json: { a: 1 },
    "application/x-own": "own",
  });
});

test("a value that cannot be inspected has a text all the same", () => {
  const value = new Proxy(
    {},
    {
      getPrototypeOf: () => {
        throw new Error("no");
      },
    },
  );
  expect(typeof formsOf(value)["text"]).toBe("string");
});
