import { describe, expect, it } from "vitest";

import { claimCounts, totalClaims } from "./node-admin.ts";

describe("a node's claim counters", () => {
  it("are read by tier, and a missing tier is 0", () => {
    const text = [
      "# TYPE sandboxd_claims_total counter",
      'sandboxd_claims_total{tier="warm"} 12',
      'sandboxd_claims_total{tier="cold"} 3',
      "sandboxd_claimed 4",
    ].join("\n");
    expect(claimCounts(text)).toEqual({ warm: 12, clone: 0, cold: 3 });
    expect(totalClaims(claimCounts(text))).toBe(15);
  });
});
