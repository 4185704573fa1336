import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Sandbox } from "./domain.ts";
import { fnv1a64, hasSameContent, resourceVersionOf, versionedContent } from "./resource-version.ts";

function plainFnv1a64(text: string): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(text)) {
    hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & 0xffffffffffffffffn;
  }
  return hash.toString();
}

const bare: Sandbox = { namespace: "n", name: "x", node: "a", id: "", phase: "Running", paused: false };
const full: Sandbox = {
  ...bare,
  id: "sb_1",
  claimRef: "n/x",
  addr: "10.0.0.1:80",
  template: "rt:24.04",
  deadline: new Date("2030-01-02T03:04:05.678Z"),
  claimedAt: new Date("2030-01-01T00:00:00.999Z"),
};

describe("the hash", () => {
  it.each([
    ["", "14695981039346656037"],
    ["a", "12638187200555641996"],
    ["foobar", "9625390261332436968"],
  ])("of %j is the published one", (text, hash) => {
    expect(fnv1a64(text)).toBe(hash);
  });

  it("agrees with arithmetic on big integers, for any text", () => {
    const anyText = fc.oneof(
      fc.string(),
      fc.string({ unit: "binary", maxLength: 200 }),
      fc.string({ unit: "grapheme" }),
    );
    fc.assert(
      fc.property(anyText, (text) => fnv1a64(text) === plainFnv1a64(text)),
      { numRuns: 2000 },
    );
  });
});

describe("the version of a sandbox", () => {
  it("speaks for the parts that clients watch", () => {
    expect(versionedContent(full)).toBe("n/x|sb_1|Running|n/x|10.0.0.1:80|rt:24.04|2030-01-02T03:04:05Z|1893456000");
    expect(versionedContent(bare)).toBe("n/x||Running|||||");
    expect(resourceVersionOf(full)).toBe(plainFnv1a64(versionedContent(full)));
  });

  it.each<[string, Partial<Sandbox>]>([
    ["R14: a deadline", { deadline: new Date(5000) }],
    ["R14: a claim time", { claimedAt: new Date(5000) }],
    ["the epoch as claim time", { claimedAt: new Date(0) }],
    ["an id", { id: "sb_1" }],
    ["a phase", { phase: "Hibernated" }],
    ["a claim reference", { claimRef: "n/x" }],
    ["an address", { addr: "10.0.0.1" }],
    ["a template", { template: "rt" }],
    ["another name", { name: "y" }],
    ["another namespace", { namespace: "m" }],
  ])("changes with %s", (_case, change) => {
    expect(resourceVersionOf({ ...bare, ...change })).not.toBe(resourceVersionOf(bare));
  });

  it.each<[string, Partial<Sandbox>]>([
    ["its node", { node: "b" }],
    ["metadata", { metadata: { k: "v" } }],
    ["sizes", { cpuCount: 2, memoryBytes: 1024 }],
    ["less than a second", { deadline: new Date("2030-01-02T03:04:05.001Z") }],
  ])("is the same for %s", (_case, change) => {
    expect(resourceVersionOf({ ...full, ...change })).toBe(resourceVersionOf(full));
  });

  it("takes a time that no calendar has for none", () => {
    const never = new Date(Number.NaN);
    expect(resourceVersionOf({ ...bare, deadline: never, claimedAt: never })).toBe(resourceVersionOf(bare));
  });

  it("is the same exactly when the content is", () => {
    const text = fc.constantFrom("", "a", "b");
    const time = fc.constantFrom(undefined, 0, 999, 1000, Number.NaN);
    const parts = fc.record({ namespace: text, name: text, id: text, phase: text }, { noNullPrototype: true });
    const rest = fc.record(
      { claimRef: text, addr: text, template: text, node: text },
      { noNullPrototype: true, requiredKeys: [] },
    );
    const sandbox = fc.tuple(parts, rest, time, time).map(([needed, more, deadline, claimedAt]): Sandbox => {
      const dateOf = (ms: number | undefined): Date | undefined => (ms === undefined ? undefined : new Date(ms));
      return { ...bare, ...needed, ...more, deadline: dateOf(deadline), claimedAt: dateOf(claimedAt) };
    });
    fc.assert(
      fc.property(sandbox, sandbox, fc.boolean(), (one, other, alike) => {
        const second = alike ? { ...one, node: other.node, deadline: other.deadline } : other;
        return hasSameContent(one, second) === (resourceVersionOf(one) === resourceVersionOf(second));
      }),
      { numRuns: 1000 },
    );
  });
});
