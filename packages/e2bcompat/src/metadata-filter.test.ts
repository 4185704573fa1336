import * as fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { parseMetadataFilter } from "./list-query.ts";
import { createFleet, IMAGE } from "./testing/fleet.ts";
import type { Fleet } from "./testing/fleet.ts";
import { asJavaScriptClient, asPythonClient, CAPTURED } from "./testing/metadata-encodings.ts";
import type { Pairs } from "./testing/metadata-encodings.ts";

const CLIENTS = [
  ["JavaScript", asJavaScriptClient],
  ["Python", asPythonClient],
] as const;

/** What encodings stumble over, and texts that one decoding too many makes out of each other. */
const AWKWARD = ["&", "=", "+", "%", "/", "%2F", "%252F", "%zz", "+%2B", " ", "a=b&c=d", "\0", "\r\n", "é", "e\u0301"];
const MORE = [
  "__proto__",
  "constructor",
  "🙂",
  "\u{10ffff}",
  "\ufeff",
  "\ufffd",
  "1",
  "01",
  "A",
  "a",
  "x".repeat(2000),
];

const anyText = fc.oneof(
  fc.constantFrom(...AWKWARD, ...MORE),
  fc.string({ unit: fc.constantFrom("&", "=", "+", "%", "/", " ", "2", "F", "a", "5", "é") }),
  fc.string({ unit: "binary" }).filter((text) => text.isWellFormed()),
);
const anyKey = anyText.filter((text) => text !== "");
const anyPairs = fc.uniqueArray(fc.tuple(anyKey, fc.oneof(anyText, fc.constant(""))), {
  selector: ([key]) => key,
  maxLength: 4,
});
/** Some sandboxes' metadata, and a filter that is likely to fit one of them, or nearly. */
const scene = fc.array(anyPairs, { minLength: 1, maxLength: 5 }).chain((owned) =>
  fc.record({
    owned: fc.constant(owned),
    filter: fc.oneof(
      fc.constantFrom(...owned),
      fc.constantFrom(...owned).chain((pairs) => fc.subarray([...pairs])),
      fc.constantFrom(...owned).map((pairs) => pairs.map(([key, value]): [string, string] => [key, `${value} `])),
      anyPairs,
    ),
  }),
);

/** Without `Object.fromEntries` in the way of `__proto__`, as JSON has it. */
function metadataOf(pairs: Pairs): Record<string, string> {
  return JSON.parse(`{${pairs.map((pair) => pair.map((text) => JSON.stringify(text)).join(":")).join(",")}}`);
}

function publish({ node, publish: poll }: Fleet, owned: readonly Pairs[]): void {
  for (const { entry } of node.sandboxes) {
    node.lose(entry.id);
  }
  for (const [index, pairs] of owned.entries()) {
    const id = `sb_${index}`;
    const entry = { id, name: `ns1/e2b-${index}`, phase: "Running", template: IMAGE, metadata: metadataOf(pairs) };
    node.hold({ archived: false, token: "t", entry: { ...entry, phase: "Running" } });
  }
  poll();
}

describe.each(CLIENTS)("the metadata filter of the %s client", (name, encode) => {
  let fleet: Fleet;
  beforeAll(() => {
    fleet = createFleet();
  });

  it.each(CAPTURED)("is written here as it is on the wire (capture %#)", ({ pairs, javaScript, python }) => {
    // Integer-like keys come first in a JavaScript object, whatever was written first.
    const ordered = Object.entries(metadataOf(pairs));
    expect(encode(ordered)).toBe(name === "Python" ? python : javaScript);
  });

  it("finds exactly the sandboxes that have every pair of it, whatever the texts", async () => {
    await fc.assert(
      fc.asyncProperty(scene, async ({ owned, filter }) => {
        publish(fleet, owned);
        const reply = await fleet.send("GET", `/v2/sandboxes?order=asc&metadata=${encode(filter)}`);
        const found = (reply.body as { sandboxID: string }[]).map(({ sandboxID }) => sandboxID);
        const expected = owned.flatMap((pairs, index) => {
          const has = new Map(pairs);
          return filter.every(([key, value]) => has.get(key) === value) ? [`sb-${index}`] : [];
        });
        expect([reply.status, found]).toStrictEqual([200, expected]);
      }),
    );
  });

  it("with an empty key is a 400, since the filter has no word for one", async () => {
    const reply = await fleet.send("GET", `/v2/sandboxes?metadata=${encode([["", "x"]])}`);
    expect([reply.status, reply.body.code]).toStrictEqual([400, 400]);
    expect(reply.body.message).toContain("metadata");
  });
});

describe("a filter that is written by hand", () => {
  it.each([
    ["a plus sign is a space in the form", "a+b=c+d", [["a b", "c d"]]],
    ["and a plus sign once it is encoded twice", "a%252Bb=c%252Bd", [["a+b", "c+d"]]],
    [
      "texts that need no encoding are themselves",
      "a=b&c=",
      [
        ["a", "b"],
        ["c", ""],
      ],
    ],
    ["a value may have equals signs", "a=b=c", [["a", "b=c"]]],
    ["nothing is no filter", "", []],
  ])("%s", (_what, filter, pairs) => {
    expect(parseMetadataFilter(filter)).toStrictEqual(pairs);
  });
});

describe("text that is no Unicode", () => {
  const halves = ["\ud800", "\udc00", "a\ud83d", "\udfff\ud800"];

  it.each(halves)("%j is encoded by no client", (half) => {
    for (const [, encode] of CLIENTS) {
      expect(() => encode([[half, "x"]])).toThrow(URIError);
    }
  });

  // As bytes it is not UTF-8, at whichever layer it is decoded.
  it.each(["a%3D%25ED%25A0%2580", "a%3D%2525ED%2525A0%252580", "%25ED%25BF%25BF%3Dx", "a%3D%25C0%25AF"])(
    "is refused in a filter: %s",
    async (filter) => {
      const reply = await createFleet().send("GET", `/v2/sandboxes?metadata=${filter}`);
      expect([reply.status, reply.body.code]).toStrictEqual([400, 400]);
    },
  );

  it.each(["metadata", "envVars"])("is refused at create in %s, since no node keeps it as it is", async (field) => {
    const fleet = createFleet({ envdSecret: "secret" });
    for (const half of halves) {
      for (const value of [{ [half]: "x" }, { x: half }]) {
        const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: "base", [field]: value });
        expect([reply.status, reply.body.code]).toStrictEqual([400, 400]);
        expect(reply.body.message).toMatch(new RegExp(`^${field}: `));
      }
    }
    expect(fleet.calls("claim")).toHaveLength(0);
  });
});
