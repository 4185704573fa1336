import { afterAll, beforeAll, expect, test } from "vitest";
import { apiFixture, sandboxNamed, SANDBOXES } from "./testing/api-fixture.ts";
import type { ApiFixture } from "./testing/api-fixture.ts";

let fixture: ApiFixture;
beforeAll(async () => {
  fixture = await apiFixture();
  await fixture.call("POST", SANDBOXES, { body: sandboxNamed("box") });
});
afterAll(() => fixture[Symbol.asyncDispose]());

const MERGE = { "content-type": "application/merge-patch+json" };
const LONG = "x".repeat(1_000_000);
const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`member${at}`, at]));

test.each<[what: string, method: string, name: string, body: object, status: number]>([
  ["a patch of many members", "PATCH", "/box", many, 422],
  ["a patch of a long member", "PATCH", "/box", { [LONG]: 1 }, 422],
  ["a patch to a long mode", "PATCH", "/box", { spec: { operatingMode: LONG } }, 422],
  ["a patch of a long kind", "PATCH", "/box", { kind: LONG }, 400],
  ["a long name", "POST", "", sandboxNamed(LONG), 422],
  ["a long beginning of a name", "POST", "", { ...sandboxNamed(""), metadata: { generateName: `_${LONG}` } }, 422],
  ["a long namespace", "POST", "", { ...sandboxNamed("x"), metadata: { name: "x", namespace: LONG } }, 400],
  ["a long mode", "POST", "", { ...sandboxNamed("x"), spec: { operatingMode: LONG } }, 422],
  ["a long policy", "DELETE", "/box", { propagationPolicy: LONG }, 422],
  ["a long uid", "DELETE", "/box", { preconditions: { uid: LONG } }, 409],
  ["many members of another type", "POST", "", { metadata: { annotations: many } }, 400],
  ["long members that are unknown", "POST", "?fieldValidation=Strict", { ...sandboxNamed("x"), [LONG]: 1 }, 400],
])("a refusal stays small, whatever it is about: %s", async (_what, method, path, body, status) => {
  const headers = method === "PATCH" ? MERGE : {};
  const answer = await fixture.call(method, `${SANDBOXES}${path}`, { body, headers });
  expect(answer.json).toMatchObject({ kind: "Status", code: status });
  expect(answer.text.length).toBeLessThan(64 * 1024);
});

test("a refusal says how many causes it leaves out", async () => {
  const answer = await fixture.call("PATCH", `${SANDBOXES}/box`, { body: many, headers: MERGE });
  expect(answer.json["message"]).toMatch(/member49: .*, and 19950 more\]$/);
  expect((answer.json["details"] as { causes: unknown }).causes).toHaveLength(50);
});
