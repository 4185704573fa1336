import { describe, expect, test } from "vitest";
import { environmentVariable, parseCommandLine, printableConfig, UsageError, wantsConfig } from "./command-line.ts";
import type { FlagValues, ProgramSpec } from "./command-line.ts";

const program: ProgramSpec = {
  name: "probe",
  version: "1.2.3",
  envPrefix: "PROBE_",
  commands: {
    $0: {
      describe: "Serve",
      options: {
        seeds: { type: "string", repeatable: true, group: "Mesh:", describe: "Addresses of the nodes" },
        "bind-address": { type: "string", default: ":8080", group: "Listener:", describe: "Where to listen" },
        token: { type: "string", default: "", secret: true, group: "Mesh:", describe: "Fleet token" },
        "alias-file": { type: "string", alias: "aliases", group: "Listener:", describe: "Alias | file" },
        open: { type: "boolean", default: false, group: "Listener:", describe: "Serve everybody" },
        limit: { type: "number", default: 2, group: "Listener:", describe: "At most this many" },
        old: { type: "string", hidden: true, group: "Listener:", describe: "Former name" },
      },
      examples: [["probe --seeds=a:1", "One seed"]],
    },
    dev: {
      describe: "Develop",
      options: { nodes: { type: "number", default: 1, group: "Development:", describe: "How many nodes" } },
    },
  },
};

function run(argv: readonly string[], env: Readonly<Record<string, string>> = {}): FlagValues & { command: string } {
  const parsed = parseCommandLine(program, argv, env);
  if (parsed.kind !== "run") throw new Error("expected a run");
  return { ...parsed.values, command: parsed.command };
}

describe("values", () => {
  test.each<[string, readonly string[], Readonly<Record<string, string>>, Readonly<Record<string, unknown>>]>([
    ["nothing given", [], {}, { seeds: [], "bind-address": ":8080", open: false, limit: 2, "alias-file": undefined }],
    ["an equals sign", ["--bind-address=:1"], {}, { "bind-address": ":1" }],
    ["a separate value", ["--bind-address", ":1"], {}, { "bind-address": ":1" }],
    ["the last of two", ["--bind-address=:1", "--bind-address=:2"], {}, { "bind-address": ":2" }],
    ["every value of a repeatable flag", ["--seeds=a", "--seeds", "b"], {}, { seeds: ["a", "b"] }],
    ["an empty value", ["--token="], {}, { token: "" }],
    ["an alias", ["--aliases=f"], {}, { "alias-file": "f" }],
    ["a bare switch", ["--open"], {}, { open: true }],
    ["a switch turned off", ["--open=false"], {}, { open: false }],
    ["digits that are text", ["--token=0123"], {}, { token: "0123" }],
    ["a value that looks like a flag", ["--token=--x"], {}, { token: "--x" }],
    ["a number", ["--limit=7"], {}, { limit: 7 }],
    ["a number below zero", ["--limit=-7"], {}, { limit: -7 }],
    [
      "the environment",
      [],
      { PROBE_BIND_ADDRESS: ":9", PROBE_OPEN: "true", PROBE_LIMIT: "3" },
      { "bind-address": ":9", open: true, limit: 3 },
    ],
    ["a repeatable flag in the environment", [], { PROBE_SEEDS: " a  b\nc " }, { seeds: ["a", "b", "c"] }],
    ["the variable of an alias", [], { PROBE_ALIASES: "f" }, { "alias-file": "f" }],
    ["an empty variable", [], { PROBE_BIND_ADDRESS: "", PROBE_OPEN: "" }, { "bind-address": ":8080", open: false }],
    ["a flag over its variable", ["--bind-address=:1"], { PROBE_BIND_ADDRESS: ":9" }, { "bind-address": ":1" }],
    ["an empty flag over its variable", ["--token="], { PROBE_TOKEN: "t" }, { token: "" }],
    [
      "foreign variables with the prefix",
      [],
      { PROBE_PORT: "tcp://10.0.0.1:80", PROBE_SERVICE_HOST: "10.0.0.1" },
      { "bind-address": ":8080" },
    ],
    ["a command", ["dev", "--nodes=3"], {}, { command: "dev", nodes: 3 }],
    ["a command's variable", ["dev"], { PROBE_NODES: "4" }, { command: "dev", nodes: 4 }],
    ["a flag before its command", ["--nodes=3", "dev"], {}, { command: "dev", nodes: 3 }],
  ])("%s is understood", (_name, argv, env, expected) => {
    expect(run(argv, env)).toMatchObject(expected);
  });

  test.each<[readonly string[], Readonly<Record<string, string>>, RegExp]>([
    [["--bind-adress=:1"], {}, /^unknown flag --bind-adress; did you mean --bind-address\?$/],
    [["--entirely-different=1"], {}, /^unknown flag --entirely-different$/],
    [["--nodes=2"], {}, /^unknown flag --nodes/],
    [["dev", "--open"], {}, /^unknown flag --open/],
    [["--no-open"], {}, /^unknown flag --no-open/],
    [["--open=maybe"], {}, /^invalid value "maybe" for --open: want true or false$/],
    [["--open="], {}, /^invalid value "" for --open/],
    [["--limit=many"], {}, /^invalid value "many" for --limit: want a whole number$/],
    [["--limit="], {}, /^invalid value "" for --limit/],
    [["--limit=1e3"], {}, /^invalid value "1e3" for --limit/],
    [["--limit=99999999999999999999"], {}, /for --limit/],
    [["--token"], {}, /token/],
    [["--token", "--open"], {}, /token/],
    [["deb"], {}, /^unknown argument "deb" \(commands: dev\)$/],
    [["dev", "more"], {}, /more/],
    [["-x"], {}, /^unknown argument -x: flags are written --name=value$/],
    [["--"], {}, /^unknown argument --/],
    [["toString"], {}, /^unknown argument "toString"/],
    [[], { PROBE_OPEN: "yes" }, /^invalid value "yes" for PROBE_OPEN: want true or false$/],
    [[], { PROBE_LIMIT: "x" }, /^invalid value "x" for PROBE_LIMIT/],
  ])("%j with %j is a usage error", (argv, env, message) => {
    expect(() => run(argv, env)).toThrow(UsageError);
    expect(() => run(argv, env)).toThrow(message);
  });
});

describe("texts", () => {
  test("--version prints the version", () => {
    expect(parseCommandLine(program, ["--version"], {})).toEqual({ kind: "text", text: "1.2.3" });
  });

  test("--help names flags by group, commands, examples and the environment", () => {
    const help = parseCommandLine(program, ["--help"], {});
    if (help.kind !== "text") throw new Error("expected a text");
    for (const part of [
      "Mesh:",
      "Listener:",
      "--bind-address",
      ":8080",
      "probe dev",
      "One seed",
      "PROBE_SEEDS",
      "OPERATOR_LOG_LEVEL",
    ]) {
      expect(help.text).toContain(part);
    }
    expect(help.text).not.toContain("--old");
    expect(help.text).not.toContain("--nodes");
  });

  test("the help of a command names that command's flags", () => {
    const help = parseCommandLine(program, ["dev", "--help"], {});
    if (help.kind !== "text") throw new Error("expected a text");
    expect(help.text).toContain("--nodes");
    expect(help.text).not.toContain("--bind-address");
  });

  test("the printed configuration masks secrets and says where values come from", () => {
    const argv = ["--print-config", "--token=s3cret", "--seeds=https://user:pw@a:1", "--open"];
    const parsed = parseCommandLine(program, argv, { PROBE_LIMIT: "3" });
    if (parsed.kind !== "run") throw new Error("expected a run");
    expect(wantsConfig(parsed.values)).toBe(true);
    const text = printableConfig(program, parsed.command, parsed.values, parsed.sources);
    expect(text).not.toMatch(/s3cret|pw/);
    expect(JSON.parse(text)).toMatchObject({
      command: "probe",
      flags: {
        token: { value: "***", from: "flag" },
        seeds: { value: ["https://***@a:1"] },
        limit: { value: 3, from: "environment" },
        "bind-address": { value: ":8080", from: "default" },
        "alias-file": { value: null },
      },
    });
  });

  test("the variable of a flag is its name in capitals", () => {
    expect(environmentVariable("SANDBOX_E2B_", "e2b-bind-address")).toBe("SANDBOX_E2B_E2B_BIND_ADDRESS");
  });
});
