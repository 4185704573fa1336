import { X509Certificate } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TestAuthority } from "../testing/test-authority.ts";
import { readCertificate, type Certificate } from "./certificate.ts";
import { readValues } from "./der-reader.ts";
import { allValues, firstValue, headerLines, stripHeaders, valuesByKey, secretHeaders } from "./request-headers.ts";
import { readTrustBundle } from "./trust-bundle.ts";
import { verifyClientChain } from "./verify-chain.ts";

const root = TestAuthority.root("root", { maySign: true, pathLength: 1 });
const middle = root.below("middle", { pathLength: 0 });
const leaf = middle.issue({ commonName: "alice", organizations: ["a"], alternativeNames: true });
const trust = readTrustBundle("root", root.cert);

const bytesOf = (pem: string): Buffer => new X509Certificate(pem).raw;

function read(bytes: Buffer): Certificate | undefined {
  try {
    return readCertificate(new X509Certificate(bytes));
  } catch {
    return undefined;
  }
}

describe("a certificate in which something was changed", () => {
  it.each([
    ["that of the client", bytesOf(leaf.cert), (one: Certificate) => [one, read(bytesOf(middle.cert))]],
    ["the one in between", bytesOf(middle.cert), (one: Certificate) => [read(bytesOf(leaf.cert)), one]],
  ])("never holds: %s", (_which, good, chain) => {
    const whole = read(good);
    expect(
      whole &&
        verifyClientChain(
          chain(whole).filter((one) => one !== undefined),
          trust,
          Date.now(),
        ),
    ).toBeDefined();
    fc.assert(
      fc.property(fc.nat(good.length - 1), fc.integer({ min: 1, max: 255 }), (place, change) => {
        const bytes = Buffer.from(good);
        bytes.writeUInt8(bytes.readUInt8(place) ^ change, place);
        const changed = read(bytes);
        if (changed !== undefined) {
          const presented = chain(changed).filter((one) => one !== undefined);
          expect(verifyClientChain(presented, trust, Date.now())).toBeUndefined();
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("bytes that are no DER", () => {
  it("are refused, never read beyond their end or for ever", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        let values: readonly { readonly content: Buffer }[] = [];
        try {
          values = readValues(Buffer.from(bytes));
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError);
        }
        expect(values.reduce((sum, { content }) => sum + content.length, 0)).toBeLessThanOrEqual(bytes.length);
      }),
    );
  });
});

describe("header lines", () => {
  const name = fc.constantFrom(
    "X-Remote-User",
    "x-remote-group",
    "X-REMOTE-GROUP",
    "X-Remote-Extra-A",
    "x-other",
    "authorization",
  );
  const lines = fc.array(fc.tuple(name, fc.string({ unit: fc.constantFrom("a", ",", " ", "é", "例", "%") })), {
    maxLength: 20,
  });
  const raw = (pairs: readonly (readonly [string, string])[]): string[] =>
    pairs.flatMap(([key, value]) => [key, Buffer.from(value).toString("latin1")]);

  it("keep every value by itself, as it was sent", () => {
    fc.assert(
      fc.property(lines, (pairs) => {
        const sent = (wanted: string): string[] =>
          pairs.filter(([key]) => key.toLowerCase() === wanted).map(([, value]) => value);
        const found = headerLines({ rawHeaders: raw(pairs) });
        expect(allValues(found, ["X-Remote-Group"])).toEqual(sent("x-remote-group").filter((value) => value !== ""));
        expect(firstValue(found, ["x-Remote-user"])).toBe(sent("x-remote-user")[0] || undefined);
        expect(valuesByKey(found, ["X-Remote-Extra-"])["a"] ?? []).toEqual(sent("x-remote-extra-a"));
      }),
    );
  });

  it("are left alone when they are no secret, and gone when they are", () => {
    fc.assert(
      fc.property(lines, (pairs) => {
        const rawHeaders = raw(pairs);
        stripHeaders({ rawHeaders, headers: {} } as never, secretHeaders());
        expect(rawHeaders).toEqual(raw(pairs.filter(([key]) => key === "x-other")));
      }),
    );
  });

  it("may have keys that objects treat in their own way", () => {
    const found = valuesByKey(
      [
        ["x-remote-extra-__proto__", "a"],
        ["x-remote-extra-", "b"],
      ],
      ["X-Remote-Extra-"],
    );
    expect(JSON.stringify(found)).toBe('{"__proto__":["a"],"":["b"]}');
  });
});
