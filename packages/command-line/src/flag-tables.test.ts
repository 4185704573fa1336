import { expect, test } from "vitest";
import type { ProgramSpec } from "./command-line.ts";
import { withFlagTables } from "./flag-tables.ts";

const program: ProgramSpec = {
  name: "probe",
  version: "1.0.0",
  envPrefix: "PROBE_",
  commands: {
    $0: {
      describe: "Serve",
      options: {
        listen: { type: "string", default: ":80", group: "G:", describe: "Where | <x>" },
        old: { type: "string", hidden: true, group: "G:", describe: "Former name" },
      },
    },
    dev: {
      describe: "Develop",
      options: {
        listen: { type: "string", default: ":81", group: "G:", describe: "Where" },
        nodes: { type: "number", default: 1, alias: "count", group: "G:", describe: "How many" },
      },
    },
  },
};

const MAIN = [
  "| flag       | environment    | default | meaning         |",
  "| ---------- | -------------- | ------- | --------------- |",
  "| `--listen` | `PROBE_LISTEN` | `:80`   | Where \\| &lt;x> |",
].join("\n");
const DEV = [
  "| flag                 | environment   | default | meaning  |",
  "| -------------------- | ------------- | ------- | -------- |",
  "| `--nodes`, `--count` | `PROBE_NODES` | `1`     | How many |",
].join("\n");

test("sections are filled, what is around them stays, and a second time changes nothing", () => {
  const readme =
    "# Probe\n\n<!-- flags:start $0 -->\nold\n<!-- flags:end -->\n\n<!-- flags:start dev -->\n<!-- flags:end -->\nend\n";
  const filled = withFlagTables(readme, program);
  expect(filled).toBe(
    `# Probe\n\n<!-- flags:start $0 -->\n\n${MAIN}\n\n<!-- flags:end -->\n\n<!-- flags:start dev -->\n\n${DEV}\n\n<!-- flags:end -->\nend\n`,
  );
  expect(withFlagTables(filled, program)).toBe(filled);
});

test.each(["# no section\n", "<!-- flags:start nope -->\n<!-- flags:end -->\n"])("%j is refused", (readme) => {
  expect(() => withFlagTables(readme, program)).toThrow(TypeError);
});
