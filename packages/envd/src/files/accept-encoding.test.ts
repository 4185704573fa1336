import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { negotiateEncoding } from "./accept-encoding.ts";

describe("negotiateEncoding", () => {
  it.each([
    [undefined, "identity"],
    ["", "identity"],
    ["gzip", "gzip"],
    ["GZIP", "gzip"],
    ["gzip, deflate", "gzip"],
    ["deflate, br", "identity"],
    ["gzip;q=0.5, identity", "identity"],
    ["gzip;q=0.5, identity;q=0.4", "gzip"],
    ["br;q=1, gzip;q=0.8, *;q=0.1", "gzip"],
    ["*", "identity"],
    ["*;q=0.5, gzip;q=0.1", "identity"],
    ["*, identity;q=0", "gzip"],
    ["gzip;q=0", "identity"],
    ["gzip;q=0, identity;q=0", undefined],
    ["identity;q=0", undefined],
    ["*;q=0", undefined],
    ["gzip, *;q=0", "gzip"],
    ["br, *;q=0", undefined],
    ["identity, *;q=0", "identity"],
    ["gzip;q=x", "identity"],
    ["gzip;q=", "identity"],
    [" gzip ; q=1.0 ", "gzip"],
    ["gzip;q=5", "gzip"],
    [",,", "identity"],
  ])("of %j is %s", (header, expected) => {
    expect(negotiateEncoding(header)).toBe(expected);
  });

  it("never gives what is not allowed", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom("gzip", "identity", "*", "br", ";q=", "0", "1", ",", " ") }),
        (header) => {
          expect(negotiateEncoding(header, ["identity"])).not.toBe("gzip");
        },
      ),
    );
  });
});
