import { describe, expect, it } from "vitest";

import { readArgs } from "./args.ts";

describe("the command line", () => {
  it("runs the quick suites with all of their clients unless told otherwise", () => {
    expect(readArgs([])).toEqual({
      suite: "quick",
      client: undefined,
      row: undefined,
      list: false,
      isolation: undefined,
      help: false,
      writeResults: false,
    });
  });

  it("takes a suite, a client and a row", () => {
    expect(readArgs(["--suite=files", "--client", "py-2.51", "--row", "FL3"])).toMatchObject({
      suite: "files",
      client: "py-2.51",
      row: "FL3",
    });
  });

  it("refuses clients and flags it does not know", () => {
    expect(() => readArgs(["--client=ruby"])).toThrow("js-2.51");
    expect(() => readArgs(["--sweet"])).toThrow();
  });
});
