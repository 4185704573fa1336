import type { SdkEnvironment } from "./environment.ts";

/** What the greeting tells. */
export interface BannerFacts {
  readonly variables: SdkEnvironment;
  readonly nodes: number;
  readonly isolation: string;
  readonly templates: readonly string[];
  readonly stateDir: string;
  readonly envFile: string;
  /** Certificate of the authority behind `--tls`, when it was made here. */
  readonly caFile: string | undefined;
  /** The console, and the file with what people log in with. */
  readonly consolePage: { readonly url: string; readonly credentialFile: string } | undefined;
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
    ...(facts.consolePage === undefined
      ? []
      : [`Console: ${facts.consolePage.url} (log in with what is in ${facts.consolePage.credentialFile})`]),
    ...(facts.envFile === "" ? [] : [`Environment file: ${facts.envFile}`]),
    ...(facts.caFile === undefined ? [] : trustLines(facts.caFile)),
    `State and secrets: ${facts.stateDir}`,
    "Stop: Ctrl-C (sandboxes end with it)",
    "",
  ];
  return `${lines.join("\n")}\n`;
}

/** Who reads the variables trusts it already; everybody else is told how. */
function trustLines(caFile: string): string[] {
  return [
    `Certificate authority: ${caFile}`,
    "trusted by Node (exported before it starts, not by node --env-file) and Python through the variables above;",
    "curl --cacert does it for one call;",
    "Chromium on Linux: certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n sandbox-e2b -i <that file>",
  ];
}
