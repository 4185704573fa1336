import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NameHolders } from "./name-holders.ts";

describe("the holders of names", () => {
  it("are counted as a plain list of claims is", () => {
    const name = fc.constantFrom("x", "y");
    const node = fc.constantFrom("a", "b", "c");
    const step = fc.tuple(fc.boolean(), name, node);
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const holders = new NameHolders();
        const claims: { readonly name: string; readonly node: string }[] = [];
        for (const [adds, asked, holder] of steps) {
          const at = claims.findIndex((claim) => claim.name === asked && claim.node === holder);
          if (adds) {
            claims.push({ name: asked, node: holder });
            holders.add(asked, holder);
          } else {
            holders.remove(asked, holder);
            claims.splice(at, at === -1 ? 0 : 1);
          }
          for (const one of ["x", "y"]) {
            const nodes = claims.filter((claim) => claim.name === one).map((claim) => claim.node);
            expect(holders.count(one)).toBe(nodes.length);
            expect(new Set(holders.nodes(one))).toStrictEqual(new Set(nodes));
          }
        }
      }),
    );
  });
});
