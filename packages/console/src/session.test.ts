import { describe, expect, it } from "vitest";
import { Sessions } from "./session.ts";

const CREDENTIAL = "a-credential-of-the-console";
const HOUR = 3_600_000;

function sessions(credential = CREDENTIAL): { sessions: Sessions; pass: (ms: number) => void } {
  let now = 1_800_000_000_000;
  return { sessions: new Sessions(credential, () => now), pass: (ms) => void (now += ms) };
}

describe("a credential", () => {
  it("lets in who knows it, and nobody else", () => {
    const { sessions: some } = sessions();
    expect(["", "a", `${CREDENTIAL} `, CREDENTIAL.toUpperCase()].map((text) => some.try(text))).toEqual(
      Array.from({ length: 4 }, () => "wrong"),
    );
    expect(some.try(CREDENTIAL)).toBe("welcome");
  });

  it("can be wrong twenty times a minute, after which the right one is not judged either", () => {
    const { sessions: some, pass } = sessions();
    const tries = Array.from({ length: 21 }, () => some.try("guess"));
    expect(tries.filter((outcome) => outcome === "wrong")).toHaveLength(20);
    expect(some.try(CREDENTIAL)).toBe("busy");
    pass(60_000);
    expect(some.try(CREDENTIAL)).toBe("welcome");
  });

  it("can be right as often as a program asks", () => {
    const { sessions: some } = sessions();
    const tries = Array.from({ length: 100 }, () => some.try(CREDENTIAL));
    expect(new Set(tries)).toEqual(new Set(["welcome"]));
  });

  it("must not be short", () => {
    expect(() => sessions("fifteen-letters")).toThrow(/less than 16 characters/);
  });
});

describe("a cookie", () => {
  it("holds for twelve hours", () => {
    const { sessions: some, pass } = sessions();
    const { value, maxAgeSeconds } = some.open();
    expect(maxAgeSeconds).toBe(12 * 3600);
    pass(12 * HOUR - 1);
    expect(some.holds(value)).toBe(true);
    pass(1);
    expect(some.holds(value)).toBe(false);
  });

  it.each([
    ["nothing", () => ""],
    ["a later end", (value: string) => value.replace(/^\d/, "9")],
    ["no signature", (value: string) => value.split(".")[0] ?? ""],
    ["another signature", (value: string) => `${value.slice(0, -1)}${value.endsWith("0") ? "1" : "0"}`],
    ["an end that is no number", (value: string) => value.replace(/^\d+/, "Infinity")],
    ["one of another credential", () => sessions("another-credential-of-it").sessions.open().value],
  ])("does not hold with %s", (_name, forge) => {
    const { sessions: some } = sessions();
    expect(some.holds(forge(some.open().value))).toBe(false);
  });
});
