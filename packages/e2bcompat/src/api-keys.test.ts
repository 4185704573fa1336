import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createKeyRing, parseKeyFile } from "./api-keys.ts";
import type { ApiKey } from "./api-keys.ts";
import { E2bError } from "./errors.ts";

describe("parseKeyFile", () => {
  it("reads keys with and without a namespace", () => {
    const text = "# operators\r\n\r\n  e2b_1 \r\ne2b_2\tteam-b\r\n\t# not a key\r\ne2b_3   team.c   \n#e2b_4";
    expect(parseKeyFile(text, "default", "keys")).toStrictEqual([
      { key: "e2b_1", namespace: "default" },
      { key: "e2b_2", namespace: "team-b" },
      { key: "e2b_3", namespace: "team.c" },
    ]);
  });

  it("keeps the last line of a key", () => {
    expect(parseKeyFile("k a\nk b", "default", "keys")).toStrictEqual([{ key: "k", namespace: "b" }]);
  });

  it.each(["", "\n\n", "# only a comment\n"])("reads nothing from %j", (text) => {
    expect(parseKeyFile(text, "default", "keys")).toStrictEqual([]);
  });

  it.each([
    ["hunter2 a b", "three fields"],
    ["hunter2 a # why", "a comment behind a key"],
    ["hunter2 a/b", "a slash in the namespace"],
    ["hunter2 -a", "a namespace that begins with a hyphen"],
    ["hunter2 ä", "letters that node names cannot have"],
    [`hunter2 ${"a".repeat(64)}`, "a long namespace"],
    ["hünter2", "a key that no header carries"],
    ["hunter2\u0007", "a control character"],
  ])("refuses %j (%s) with its line and without its text", (line) => {
    const read = (): unknown => parseKeyFile(`# one\nfine\n${line}\n`, "default", "the file");
    expect(read).toThrow(E2bError);
    expect(read).toThrow(/key file "the file", line 3: /);
    expect(read).not.toThrow(/h[uü]nter2/);
  });

  it.each([
    ["k ns max_sandboxes=20", { maxSandboxes: 20 }],
    ["k ns create_per_minute=60", { createPerMinute: 60 }],
    ["k\tns create_per_minute=1  max_sandboxes=100000 \r", { createPerMinute: 1, maxSandboxes: 100_000 }],
  ])("reads the limits of %j", (line, limits) => {
    expect(parseKeyFile(line, "default", "keys")).toStrictEqual([{ key: "k", namespace: "ns", limits }]);
  });

  it.each([
    ["hunter2 ns max_sandboxes=0", "max_sandboxes"],
    ["hunter2 ns max_sandboxes=100001", "max_sandboxes"],
    ["hunter2 ns max_sandboxes=", "max_sandboxes"],
    ["hunter2 ns max_sandboxes=-1", "max_sandboxes"],
    ["hunter2 ns max_sandboxes=1.0", "max_sandboxes"],
    ["hunter2 ns max_sandboxes=0x10", "max_sandboxes"],
    ["hunter2 ns create_per_minute=many", "create_per_minute"],
    ["hunter2 ns max_sandboxes=1 max_sandboxes=1", "max_sandboxes is given twice"],
    ["hunter2 ns max_sandboxes=1 hunter2", "field 4"],
    ["hunter2 ns hunter2=1", "field 3"],
    ["hunter2 ns toString=1", "field 3"],
    ["hunter2 ns max_sandboxes", "field 3"],
    ["hunter2 ns MAX_SANDBOXES=1", "field 3"],
    ["hunter2 ns =1", "field 3"],
    ["hunter2 max_sandboxes=1", "second field"],
  ])("refuses %j, naming the line and %j but never the key", (line, named) => {
    const read = (): unknown => parseKeyFile(`# one\nfine\n${line}\n`, "default", "the file");
    expect(read).toThrow(expect.objectContaining({ code: "invalid_file" }));
    expect(read).toThrow(/key file "the file", line 3: /);
    expect(read).toThrow(named);
    expect(read).not.toThrow(/hunter2/);
  });

  it("reads back what it is given", () => {
    const word = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,20}$/);
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.record({ key: word, namespace: word }, { noNullPrototype: true }), {
          selector: (row) => row.key,
        }),
        (rows) => {
          const text = rows.map((row) => `${row.key} ${row.namespace}`).join("\n");
          expect(parseKeyFile(text, "default", "keys")).toStrictEqual(rows);
        },
      ),
    );
  });
});

describe("a key file of any text", () => {
  const word = fc.stringMatching(/^[A-Za-z0-9_!~=#/.-]{1,12}$/);
  const space = fc.constantFrom(" ", "\t", "  ", "\u00a0");
  const line = fc.oneof(
    fc
      .tuple(word, fc.array(fc.tuple(space, word), { maxLength: 4 }))
      .map(([first, rest]) => first + rest.flat().join("")),
    fc.constantFrom("", " ", "# a comment", "\t#", "k ns max_sandboxes=3", "k ns create_per_minute=0"),
    fc.string({ unit: "binary", maxLength: 20 }),
  );
  const file = fc
    .array(line, { maxLength: 8 })
    .chain((lines) => fc.constantFrom("\n", "\r\n").map((end) => lines.join(end)));

  it("has keys that work, each once, in namespaces that can be, or is refused by a line's number and nothing of it", () => {
    fc.assert(
      fc.property(file, (text) => {
        let keys: readonly ApiKey[];
        try {
          keys = parseKeyFile(text, "default", "f");
        } catch (error) {
          expect(error).toMatchObject({ code: "invalid_file" });
          const [, number = "0", rest = ""] = /^key file "f", line (\d+): (.*)$/.exec((error as Error).message) ?? [];
          // What is said of a line is one of our own sentences.
          expect(rest.replace(/field \d+/, "field")).toMatch(
            /^(a key consists of .*|the second field .*|field is no limit: .*|(max_sandboxes|create_per_minute)(:| is given) .*)$/,
          );
          // The lines before are fine.
          const before = text
            .split("\n")
            .slice(0, Number(number) - 1)
            .join("\n");
          expect(() => parseKeyFile(before, "default", "f")).not.toThrow();
          return;
        }
        expect(new Set(keys.map(({ key }) => key)).size).toBe(keys.length);
        const { check } = createKeyRing(keys, undefined);
        expect(keys.map(({ key }) => check(key)?.namespace)).toStrictEqual(keys.map(({ namespace }) => namespace));
        // Comments, blank lines and white space around lines are nothing, and the order of other keys neither.
        const noisy = text
          .split("\n")
          .map((one) => `\n# ${one.replaceAll("\r", "")}\n \t${one}\t`)
          .join("\n");
        expect(parseKeyFile(noisy, "default", "f")).toStrictEqual(keys);
      }),
      { numRuns: 200 },
    );
  });
});

/** The namespace that a key opens. */
function checkOf(keys: readonly ApiKey[], anonymous?: string): (presented: string | undefined) => string | undefined {
  const { check } = createKeyRing(keys, anonymous);
  return (presented) => check(presented)?.namespace;
}

describe("createKeyRing", () => {
  it("gives each key its own limits, also when keys share a namespace", () => {
    const keys = [
      { key: "a", namespace: "one", limits: { maxSandboxes: 2 } },
      { key: "b", namespace: "one", limits: { createPerMinute: 3 } },
      { key: "c", namespace: "one" },
    ];
    const { check, accesses } = createKeyRing(keys, undefined);
    const found = keys.map(({ key }) => check(key));
    expect(found).toStrictEqual(accesses);
    expect(found.map((access) => access?.limits)).toStrictEqual([
      { maxSandboxes: 2 },
      { createPerMinute: 3 },
      undefined,
    ]);
    expect(new Set(found).size).toBe(3);
    expect(JSON.stringify(accesses)).not.toContain("key");
  });

  it("finds the namespace of every key, and of nothing else", () => {
    const check = checkOf([
      { key: "a", namespace: "one" },
      { key: "ab", namespace: "two" },
    ]);
    expect([check("a"), check("ab"), check("b"), check("abc"), check(""), check(undefined)]).toStrictEqual([
      "one",
      "two",
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });

  it("takes nothing for a key that only begins, ends or is written like it", () => {
    const key = "e2b_key";
    const check = checkOf([{ key, namespace: "one" }]);
    const others = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.string({ unit: "binary" }).map((more) => key + more),
      // The same low bytes in other characters.
      fc.constant(Array.from(key, (letter) => String.fromCharCode(letter.charCodeAt(0) + 0x100)).join("")),
      fc.nat(key.length).map((length) => key.slice(0, length).padEnd(key.length, "\0")),
      fc.nat(3).map((count) => key + "\0".repeat(count)),
    );
    fc.assert(
      fc.property(others, (presented) => {
        expect(check(presented)).toBe(presented === key ? "one" : undefined);
      }),
    );
  });

  it("refuses everybody without keys unless anonymous use has a namespace", () => {
    expect(checkOf([])("anything")).toBeUndefined();
    expect(checkOf([], "shared")(undefined)).toBe("shared");
    expect(checkOf([{ key: "a", namespace: "one" }], "shared")(undefined)).toBeUndefined();
  });

  it.each([
    { key: "", namespace: "a" },
    { key: "a b", namespace: "a" },
    { key: "a", namespace: "" },
    { key: "a", namespace: "a/b" },
    { key: "a", namespace: "a", limits: { maxSandboxes: 0 } },
    { key: "a", namespace: "a", limits: { createPerMinute: 1.5 } },
    { key: "a", namespace: "a", limits: { maxSandboxes: Number.NaN } },
  ])("refuses %j at construction", (key) => {
    expect(() => createKeyRing([key], undefined)).toThrow(expect.objectContaining({ code: "invalid_options" }));
  });
});
