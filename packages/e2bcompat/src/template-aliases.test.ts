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
