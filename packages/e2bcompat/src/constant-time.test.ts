import type * as crypto from "node:crypto";
import { timingSafeEqual } from "node:crypto";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { createKeyRing } from "./api-keys.ts";
import { mayUpload, signUpload, uploadQuery } from "./builds/upload-signature.ts";

vi.mock("node:crypto", async (importOriginal) => {
  const original = await importOriginal<typeof crypto>();
  return { ...original, timingSafeEqual: vi.fn<typeof timingSafeEqual>(original.timingSafeEqual) };
});

const compare = vi.mocked(timingSafeEqual);

/** Lengths of what was compared. */
const lengths = (): readonly number[] => compare.mock.calls.flatMap(([a, b]) => [a.byteLength, b.byteLength]);

beforeEach(() => {
  compare.mockClear();
});

describe("what a comparison of secrets takes", () => {
  const keys = ["e2b_1", "e2b_22222222", "x".repeat(64)].map((key) => ({ key, namespace: "ns" }));

  it.each([
    undefined,
    "",
    "e2b_1",
    "e2b_2",
    "e2b_22222222",
    "e2b_11",
    "x".repeat(64),
    "x".repeat(65),
    "y".repeat(9000),
    "ü",
  ])("is the same for the API key %#, whichever it is like and however long", (presented) => {
    createKeyRing(keys, undefined).check(presented);
    expect(compare).toHaveBeenCalledTimes(keys.length);
    expect(new Set(lengths()).size).toBe(1);
  });

  const upload = { namespace: "ns1", template: "mine", hash: "ab".repeat(32) };

  it.each(["right", "wrong", "of another archive"])("is the same for an upload's signature that is %s", (which) => {
    const query = signUpload("secret", which === "of another archive" ? { ...upload, template: "other" } : upload, 100);
    if (which === "wrong") {
      query.set("sig", "0".repeat(64));
    }
    expect(mayUpload("secret", upload, uploadQuery.read(query), 50)).toBe(which === "right");
    expect(lengths()).toStrictEqual([32, 32]);
  });

  it.each([
    ["is over", "99.5", 100],
    ["is over since long", "0", 100],
    ["is no number", "never", 100],
    ["is negative", "-1", 100],
    ["is missing", undefined, 100],
    ["is empty", "", 100],
    ["has a fraction", "200.5", 100],
    ["has more digits than time", "9".repeat(16), 100],
  ])("allows no upload whose end %s", (_what, expires, now) => {
    const query = signUpload("secret", upload, Number(expires ?? 0));
    if (expires === undefined) {
      query.delete("expires");
    } else {
      query.set("expires", expires);
    }
    expect(mayUpload("secret", upload, uploadQuery.read(query), now)).toBe(false);
  });

  it.each(["", "0", "ab", "ab".repeat(31), "ab".repeat(33), "zz".repeat(32), "AB".repeat(32)])(
    "is none for what is no signature (%#)",
    (sig) => {
      const query = signUpload("secret", upload, 100);
      query.set("sig", sig);
      expect(mayUpload("secret", upload, uploadQuery.read(query), 50)).toBe(false);
      expect(compare).not.toHaveBeenCalled();
    },
  );

  it.each([
    ["at its end", 100, true],
    ["just behind it", 100.001, false],
  ])("allows an upload %s: %s", (_when, now, allowed) => {
    expect(mayUpload("secret", upload, uploadQuery.read(signUpload("secret", upload, 100)), now)).toBe(allowed);
  });
});
