/** Everything a reviewer would otherwise have to look for: format, lint, types, import rules, package checks. */
import { spawn } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { styleText } from "node:util";

const root = new URL("..", import.meta.url).pathname;

interface Step {
  readonly name: string;
  readonly command: readonly string[];
  readonly cwd?: string;
  readonly fix: string;
}

interface Outcome {
  readonly code: number;
  readonly output: string;
}

function run(command: readonly string[], cwd: string): Promise<Outcome> {
  return new Promise((resolve) => {
    const [program = "", ...args] = command;
    const child = spawn(program, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    const add = (chunk: Buffer): void => {
      output += chunk.toString();
    };
    child.stdout.on("data", add);
    child.stderr.on("data", add);
    child.on("error", (error) => resolve({ code: 127, output: `${program}: ${error.message}` }));
    child.on("close", (code) => resolve({ code: code ?? 1, output }));
  });
}

/** The published packages: what someone else will install must be complete and typed. */
async function packageSteps(): Promise<Step[]> {
  const steps: Step[] = [];
  for (const group of ["packages", "apps"]) {
    for (const name of await readdir(join(root, group))) {
      const folder = join(root, group, name);
      const manifest = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as {
        private?: boolean;
        exports?: object;
      };
      if (manifest.private === true) continue;
      steps.push({
        name: `publint ${name}`,
        command: ["publint", "--strict", "--pack", "pnpm"],
        cwd: folder,
        fix: "mend package.json",
      });
      if (manifest.exports !== undefined) {
        steps.push({
          name: `attw ${name}`,
          command: ["attw", "--pack", ".", "--profile", "esm-only", "--format", "ascii"],
          cwd: folder,
          fix: "mend the exports map",
        });
      }
    }
  }
  return steps;
}

const steps: Step[] = [
  {
    name: "lockfile",
    command: ["pnpm", "install", "--frozen-lockfile", "--ignore-scripts", "--prefer-offline"],
    fix: "pnpm install, and commit pnpm-lock.yaml",
  },
  { name: "format", command: ["oxfmt", "--check"], fix: "pnpm format" },
  { name: "lint", command: ["oxlint", "--type-aware", "--deny-warnings"], fix: "pnpm lint" },
  { name: "types", command: ["tsc", "-b"], fix: "pnpm types" },
  { name: "types of scripts", command: ["tsc", "-p", "scripts"], fix: "tsc -p scripts" },
  {
    name: "import rules",
    command: ["depcruise", "packages", "apps", "--config", ".dependency-cruiser.cjs"],
    fix: "pnpm cruise",
  },
  { name: "unused and undeclared", command: ["knip"], fix: "remove what nothing uses, declare what is imported" },
  {
    name: "compatibility page",
    command: ["node", "--conditions=@org/source", "scripts/compatibility.ts"],
    fix: "run what the lines name with --write-results, then scripts/compatibility.ts --write",
  },
  ...(await packageSteps()),
];

let passed = 0;
let failed = 0;

async function perform(step: Step): Promise<void> {
  const started = performance.now();
  const { code, output } = await run(step.command, step.cwd ?? root);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  if (code === 0) {
    passed += 1;
    console.log(`${styleText("green", "ok")}   ${step.name} (${seconds} s)`);
  } else {
    failed += 1;
    console.log(
      `${styleText("red", "FAIL")} ${step.name} (${seconds} s) - to mend it: ${step.fix}\n${output.trim()}\n`,
    );
  }
}

// The lockfile comes first: everything else needs what it installs. The rest runs side by side.
const [lockfile, ...others] = steps;
if (lockfile !== undefined) await perform(lockfile);
const waiting = others.values();
await Promise.all(
  Array.from({ length: availableParallelism() }, async () => {
    for (const step of waiting) await perform(step);
  }),
);
console.log(`checks: ${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
