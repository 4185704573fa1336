import type { SdkEnvironment } from "./environment.ts";

/** What the greeting tells. */
export interface BannerFacts {
  readonly variables: SdkEnvironment;
  readonly nodes: number;
  readonly isolation: string;
  readonly templates: readonly string[];
  readonly stateDir: string;
  readonly envFile: string;
  /** Things that differ from what was asked for or expected. */
  readonly notes: readonly string[];
}

const JAVASCRIPT = `import { Sandbox } from "e2b";
const sandbox = await Sandbox.create();
console.log((await sandbox.commands.run("echo hello from $(uname -s)")).stdout);
await sandbox.kill();`;

const PYTHON = `from e2b import Sandbox
sandbox = Sandbox.create()
print(sandbox.commands.run("echo hello from $(uname -s)").stdout)
sandbox.kill()`;

/**
 * The greeting of `dev`: environment, a first script in two languages, where things are. What is meant to be copied starts
 * at the margin, since Python would stumble over an indentation.
 */
export function banner(facts: BannerFacts): string {
  const exports = Object.entries(facts.variables).map(([name, value]) => `export ${name}='${value}'`);
  const nodes = facts.nodes === 1 ? "1 node" : `${facts.nodes} nodes`;
  const lines = [
    "",
    `Sandboxes are ready: ${nodes}, isolation ${facts.isolation}, templates ${facts.templates.join(", ") || "of your pools"}.`,
    ...facts.notes.map((note) => `Note: ${note}`),
    "",
    "1. In another shell:",
    "",
    ...exports,
    "",
    "2. JavaScript: npm install e2b, save as first.mjs, run node first.mjs",
    "",
    JAVASCRIPT,
    "",
    "3. Or Python: pip install e2b, save as first.py, run python first.py",
    "",
    PYTHON,
    "",
    ...(facts.envFile === "" ? [] : [`Environment file: ${facts.envFile}`]),
    `State and secrets: ${facts.stateDir}`,
    "Stop: Ctrl-C (sandboxes end with it)",
    "",
  ];
  return `${lines.join("\n")}\n`;
}
