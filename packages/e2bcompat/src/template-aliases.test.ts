import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createAliasTable, parseAliasFile } from "./template-aliases.ts";

describe("parseAliasFile", () => {
  it("reads aliases with and without a size", () => {
    const text = "# names\r\nbase e2b-rt:24.04\r\n\r\n  code-interpreter-v1\treg.example/ci:1   large  \n";
    expect(parseAliasFile(text, "aliases")).toStrictEqual([
      { alias: "base", image: "e2b-rt:24.04", size: "small" },
      { alias: "code-interpreter-v1", image: "reg.example/ci:1", size: "large" },
    ]);
  });

  it.each([
    ["base", "want"],
    ["base image small extra", "want"],
    ["base image # comment", "want"],
    ["base image xlarge", 'unknown size "xlarge"'],
    ["base image Small", 'unknown size "Small"'],
    ["twice image", 'alias "twice" is listed twice'],
  ])("refuses %j", (line, reason) => {
    const read = (): unknown => parseAliasFile(`twice other\n${line}`, "the file");
    expect(read).toThrow(expect.objectContaining({ code: "invalid_file" }));
    expect(read).toThrow(/template alias file "the file", line 2: /);
    expect(read).toThrow(reason);
  });
});

describe("an alias file of any text", () => {
  const word = fc.stringMatching(/^[A-Za-z0-9:/.@#-]{1,12}$/);
  const size = fc.constantFrom("small", "medium", "large");
  const row = fc.tuple(fc.stringMatching(/^[a-z0-9/:.-]{1,8}$/), word, fc.option(size, { nil: undefined }));
  const rows = fc.uniqueArray(row, { selector: ([alias]) => alias, maxLength: 6 });

  it("gives back what was written, whatever stands around it", () => {
    const noise = fc.constantFrom("", "\n", "\r\n# a b c d\r\n", "  \n\t\n");
    const space = fc.constantFrom(" ", "\t", "  \t ");
    fc.assert(
      fc.property(rows, noise, space, (written, around, between) => {
        const text = written.map((fields) => around + between + fields.filter(Boolean).join(between)).join("\n");
        const read = parseAliasFile(text + around, "f");
        const expected = written.map(([alias, image, tier]) => ({ alias, image, size: tier ?? "small" }));
        expect(read).toStrictEqual(expected);
        const table = createAliasTable(read);
        for (const { alias, image } of expected) {
          expect(table.byAlias.get(alias)?.image).toBe(image);
          expect(table.of(image)).toContain(alias);
        }
      }),
    );
  });

  it("is read or refused by a line's number", () => {
    const line = fc.oneof(
      fc.array(word, { maxLength: 4 }).map((words) => words.join(" ")),
      fc.string({ unit: "binary", maxLength: 20 }),
    );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 6 }), (lines) => {
        try {
          createAliasTable(parseAliasFile(lines.join("\n"), "f"));
        } catch (error) {
          expect(error).toMatchObject({ code: "invalid_file" });
          expect((error as Error).message).toMatch(/^template alias file "f", line [1-9]\d*: /);
        }
      }),
    );
  });

  it("shows no line that is no alias: it may be of the key file", () => {
    for (const line of ["e2b_hunter2", "e2b_hunter2 ns max_sandboxes=1 create_per_minute=1"]) {
      expect(() => parseAliasFile(line, "f")).toThrow(/line 1: want "alias image \[small\|medium\|large\]"$/);
    }
  });
});

describe("createAliasTable", () => {
  it("lists an image's aliases in sort order", () => {
    const table = createAliasTable([
      { alias: "b", image: "i", size: "small" },
      { alias: "B", image: "i", size: "large" },
      { alias: "a", image: "i", size: "small" },
      { alias: "z", image: "j", size: "small" },
    ]);
    expect(table.of("i")).toStrictEqual(["B", "a", "b"]);
    expect(table.of("k")).toStrictEqual([]);
    expect(table.byAlias.get("z")?.image).toBe("j");
  });

  it("refuses an alias twice", () => {
    const entry = { alias: "a", image: "i", size: "small" } as const;
    expect(() => createAliasTable([entry, entry])).toThrow(expect.objectContaining({ code: "invalid_options" }));
  });
});
