import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { claimIdFromPublic, matchesSandboxId, publicSandboxId } from "./sandbox-id.ts";

const anyText = fc.string({ unit: "binary" });
const claimIds = fc.stringMatching(/^sb_[0-9a-f]{1,32}$/);

describe("sandbox ids", () => {
  it.each([
    ["sb_0123abcd", "sb-0123abcd", "the underscore is illegal in a host name"],
    ["sb-0123abcd", "sb-0123abcd", "a safe id stays"],
    ["SB_Ab", "sb-ab", "upper case is lowered"],
    ["a😀b", "a-b", "one character becomes one hyphen, whatever its width"],
    ["\u212a", "-", "only ASCII letters are lowered"],
    ["", "", "empty stays empty"],
  ])("publishes %j as %j: %s", (claimId, published) => {
    expect(publicSandboxId(claimId)).toBe(published);
  });

  it("publishes only characters of a DNS label, and publishing twice changes nothing", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const published = publicSandboxId(text);
        expect(published).toMatch(/^[a-z0-9-]*$/);
        expect(publicSandboxId(published)).toBe(published);
      }),
    );
  });

  it("turns the published spelling of a claim id back into it", () => {
    fc.assert(fc.property(claimIds, (id) => claimIdFromPublic(publicSandboxId(id)) === id));
    expect(claimIdFromPublic("other-id")).toBe("other-id");
    expect(claimIdFromPublic("")).toBe("");
  });

  it("matches exactly the raw id and the published spelling", () => {
    const near = anyText.chain((id) =>
      fc.tuple(
        fc.constant(id),
        fc.oneof(anyText, fc.constant(id), fc.constant(publicSandboxId(id)), fc.constant(`${id}-`)),
      ),
    );
    fc.assert(
      fc.property(near, ([claimId, asked]) => {
        const expected = claimId !== "" && asked !== "" && (asked === claimId || asked === publicSandboxId(claimId));
        expect(matchesSandboxId(claimId, asked)).toBe(expected);
      }),
    );
  });

  it.each([
    ["sb_abc", "SB-ABC", "a request in upper case does not match"],
    ["sb_abc", "sb-ab", "a prefix does not match"],
    ["sb_abc", "sb-abcd", "a longer id does not match"],
    ["", "", "empty never matches"],
  ])("does not take %j for %j: %s", (claimId, asked) => {
    expect(matchesSandboxId(claimId, asked)).toBe(false);
  });
});
