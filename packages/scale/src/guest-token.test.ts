import { expect, test } from "vitest";
import { guestAccessToken, sameSecret } from "./guest-token.ts";

test("without a secret the claim token is the access token", () => {
  expect(guestAccessToken("0123", undefined)).toBe("0123");
});

test("with a secret the access token is the hex HMAC-SHA256 of the claim token", () => {
  expect(guestAccessToken("token", "key")).toBe("646b8eac0c4ae4178299c9bd924e2bf073dfb07e024901a8c864f65b9462bf0d");
  expect(guestAccessToken("token", "other")).not.toBe(guestAccessToken("token", "key"));
});

test.each([
  ["equal", "abc", "abc", true],
  ["same length", "abc", "abd", false],
  ["different lengths", "abc", "abcd", false],
  ["one empty", "", "a", false],
])("sameSecret compares %s values", (_case, a, b, same) => {
  expect(sameSecret(a, b)).toBe(same);
});
