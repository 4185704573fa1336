import * as fc from "fast-check";
import { expect, test } from "vitest";
import { sandboxUid } from "./sandbox-uid.ts";

test("a uid is the same for the same sandbox, in every process", () => {
  expect(sandboxUid("node-1", "sb_0123456789abcdef")).toBe(sandboxUid("node-1", "sb_0123456789abcdef"));
  expect(sandboxUid("node-1", "sb_0123456789abcdef")).toBe("4923c9bf-a146-5d4d-af86-45381f2257a1");
  expect(sandboxUid("node-1", "")).toBeUndefined();
});

test("a uid is a version 5 UUID and tells sandboxes apart, also where node and id run together", () => {
  expect(sandboxUid("a", "bc")).not.toBe(sandboxUid("ab", "c"));
  fc.assert(
    fc.property(fc.string(), fc.string({ minLength: 1 }), (node, id) => {
      expect(sandboxUid(node, id)).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    }),
  );
});
