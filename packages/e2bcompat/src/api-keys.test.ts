import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createKeyCheck, parseKeyFile } from "./api-keys.ts";
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

describe("createKeyCheck", () => {
  it("finds the namespace of every key, and of nothing else", () => {
    const check = createKeyCheck(
      [
        { key: "a", namespace: "one" },
        { key: "ab", namespace: "two" },
      ],
      undefined,
    );
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
    const check = createKeyCheck([{ key, namespace: "one" }], undefined);
    const others = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.string({ unit: "binary" }).map((more) => key + more),
      // The same low bytes in other characters.
      fc.constant([...key].map((letter) => String.fromCharCode(letter.charCodeAt(0) + 0x100)).join("")),
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
    expect(createKeyCheck([], undefined)("anything")).toBeUndefined();
    expect(createKeyCheck([], "shared")(undefined)).toBe("shared");
    expect(createKeyCheck([{ key: "a", namespace: "one" }], "shared")(undefined)).toBeUndefined();
  });

  it.each([
    { key: "", namespace: "a" },
    { key: "a b", namespace: "a" },
    { key: "a", namespace: "" },
    { key: "a", namespace: "a/b" },
  ])("refuses %j at construction", (key) => {
    expect(() => createKeyCheck([key], undefined)).toThrow(expect.objectContaining({ code: "invalid_options" }));
  });
});
