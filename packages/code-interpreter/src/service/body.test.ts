import { expect, test } from "vitest";

import { bodyOf } from "./body.ts";
import { Refusal } from "./errors.ts";

test("absent and null members are the same, and an empty body has none", () => {
  for (const text of ["", " ", "{}", '{"code":null,"env_vars":null}']) {
    const body = bodyOf(text);
    expect([body.text("code"), body.texts("env_vars")]).toEqual([undefined, {}]);
  }
});

test("members are read", () => {
  const body = bodyOf('{"code":"1","env_vars":{"A":"1","B":""}}');
  expect([body.text("code"), body.texts("env_vars")]).toEqual(["1", { A: "1", B: "" }]);
});

test.each(["[]", "1", '"text"', "null", "{", "{'a':1}"])("%s is no body", (text) => {
  expect(() => bodyOf(text)).toThrow(Refusal);
});

test.each([
  ["a number for a text", '{"m":1}'],
  ["an object for a text", '{"m":{}}'],
])("%s is refused", (_name, text) => {
  expect(() => bodyOf(text).text("m")).toThrow(/m must be a text/);
});

test.each([
  ["a list", '{"m":[]}'],
  ["a text", '{"m":"A=1"}'],
  ["a number as a value", '{"m":{"A":1}}'],
  ["null as a value", '{"m":{"A":null}}'],
  ["an empty name", '{"m":{"":"1"}}'],
  ["a name with an equals sign", '{"m":{"A=B":"1"}}'],
  ["a value that ends early", '{"m":{"A":"1\\u00002"}}'],
])("%s for variables is refused", (_name, text) => {
  expect(() => bodyOf(text).texts("m")).toThrow(/m must be an object of texts/);
});
