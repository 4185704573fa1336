import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { describeStep, parseSteps } from "./build-steps.ts";
import type { BuildStep, RawStep } from "./build-steps.ts";

const HASH = "0123456789abcdef".repeat(4);

describe("parseSteps", () => {
  it.each<[RawStep, BuildStep]>([
    [
      { type: "RUN", args: ["true"] },
      { kind: "RUN", command: "true", user: undefined },
    ],
    [
      { type: "RUN", args: ["true", ""] },
      { kind: "RUN", command: "true", user: undefined },
    ],
    [
      { type: "RUN", args: ["a && b", "root"] },
      { kind: "RUN", command: "a && b", user: "root" },
    ],
    [
      { type: "ENV", args: ["A", "1", "B_2", ""] },
      {
        kind: "ENV",
        variables: [
          ["A", "1"],
          ["B_2", ""],
        ],
      },
    ],
    [
      { type: "WORKDIR", args: ["/app dir"] },
      { kind: "WORKDIR", directory: "/app dir" },
    ],
    [
      { type: "USER", args: ["app-1"] },
      { kind: "USER", user: "app-1" },
    ],
    [
      { type: "USER", args: ["1000:1000"] },
      { kind: "USER", user: "1000:1000" },
    ],
    [
      { type: "COPY", args: ["a", "/b", "", ""], filesHash: HASH },
      { kind: "COPY", source: "a", destination: "/b", owner: undefined, mode: undefined, hash: HASH },
    ],
    [
      { type: "COPY", args: ["a", "/b", "u:g", "0755"], filesHash: HASH },
      { kind: "COPY", source: "a", destination: "/b", owner: "u:g", mode: "0755", hash: HASH },
    ],
  ])("reads %j", (raw, step) => {
    expect(parseSteps([raw])).toStrictEqual([step]);
  });

  it.each<[string, RawStep]>([
    ["no arguments", { type: "RUN" }],
    ["null for arguments", { type: "RUN", args: null }],
    ["an empty command", { type: "RUN", args: [""] }],
    ["a third argument of RUN", { type: "RUN", args: ["a", "b", "c"] }],
    ["a user that is an option", { type: "RUN", args: ["a", "-rf"] }],
    ["a name without a value", { type: "ENV", args: ["A"] }],
    ["no variables", { type: "ENV", args: [] }],
    ["an equals sign in a name", { type: "ENV", args: ["A=B", "1"] }],
    ["an empty name", { type: "ENV", args: ["", "1"] }],
    ["a NUL character", { type: "ENV", args: ["A", "\0"] }],
    ["two folders", { type: "WORKDIR", args: ["/a", "/b"] }],
    ["an empty folder", { type: "WORKDIR", args: [""] }],
    ["no user", { type: "USER", args: [] }],
    ["a user with a blank", { type: "USER", args: ["a b"] }],
    ["a source alone", { type: "COPY", args: ["a"], filesHash: HASH }],
    ["a COPY without hash", { type: "COPY", args: ["a", "b", "", ""] }],
    ["a hash in upper case", { type: "COPY", args: ["a", "b"], filesHash: HASH.toUpperCase() }],
    ["a hash with a path", { type: "COPY", args: ["a", "b"], filesHash: `../${HASH}` }],
    ["a mode in words", { type: "COPY", args: ["a", "b", "", "u+x"], filesHash: HASH }],
    ["an owner that is an option", { type: "COPY", args: ["a", "b", "--reference=x", ""], filesHash: HASH }],
    ["five arguments of COPY", { type: "COPY", args: ["a", "b", "", "", ""], filesHash: HASH }],
    ["another instruction", { type: "ADD", args: ["a", "b"], filesHash: HASH }],
    ["an instruction in lower case", { type: "run", args: ["true"] }],
  ])("refuses %s and names the step", (_what, raw) => {
    const read = (): unknown => parseSteps([{ type: "USER", args: ["root"] }, raw]);
    expect(read).toThrow(expect.objectContaining({ code: "bad_request" }));
    expect(read).toThrow("step 2");
  });

  it("reads or refuses every text, and never throws anything else", () => {
    const raw = fc.record({
      type: fc.constantFrom("RUN", "ENV", "WORKDIR", "USER", "COPY", "X"),
      args: fc.array(fc.string({ unit: "binary" })),
      filesHash: fc.option(fc.string(), { nil: undefined }),
    });
    fc.assert(
      fc.property(fc.array(raw), (steps) => {
        try {
          return parseSteps(steps).length === steps.length;
        } catch (error) {
          return (error as { code?: string }).code === "bad_request";
        }
      }),
    );
  });
});

it("shows steps without the values of variables", () => {
  const steps = parseSteps([
    { type: "ENV", args: ["PASSWORD", "hunter2", "B", "x"] },
    { type: "RUN", args: ["echo hi", "root"] },
    { type: "COPY", args: ["a", "/b"], filesHash: HASH },
    { type: "WORKDIR", args: ["/w"] },
    { type: "USER", args: ["u"] },
  ]);
  expect(steps.map(describeStep)).toStrictEqual(["ENV PASSWORD B", "RUN echo hi", "COPY a /b", "WORKDIR /w", "USER u"]);
});
