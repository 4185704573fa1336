/** What `npm test` runs: build, checks, unit tests, and the quick conformance suites. Ends with one plain total. */
import { spawn } from "node:child_process";

const root = new URL("..", import.meta.url).pathname;

interface Stage {
  readonly name: string;
  readonly command: readonly string[];
  /** Reads the stage's own total out of what it printed, as groups `passed`, `failed` and `skipped`. */
  readonly count?: RegExp;
}

const stages: readonly Stage[] = [
  { name: "build", command: ["turbo", "run", "build", "--output-logs=errors-only"] },
  {
    name: "check",
    command: ["node", "scripts/check.ts"],
    count: /checks: (?<passed>\d+) passed, (?<failed>\d+) failed/,
  },
  {
    name: "unit tests",
    command: ["vitest", "run", "--reporter=dot"],
    count: /Tests\s+(?:(?<failed>\d+) failed \| )?(?<passed>\d+) passed(?: \| (?<skipped>\d+) skipped)?/,
  },
  {
    name: "conformance",
    command: ["node", "packages/conformance/src/main.ts", "--suite", "quick"],
    count: /^(?<passed>\d+) passed, (?<failed>\d+) failed/m,
  },
];

function run(stage: Stage): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    const [program = "", ...args] = stage.command;
    const child = spawn(program, args, {
      cwd: root,
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, NO_COLOR: "1", FORCE_COLOR: undefined, TURBO_TELEMETRY_DISABLED: "1" },
    });
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      process.stdout.write(chunk);
    });
    child.on("error", (error) => resolve({ code: 127, output: `${program}: ${error.message}` }));
    child.on("close", (code) => resolve({ code: code ?? 1, output }));
  });
}

let passed = 0;
let failed = 0;
for (const stage of stages) {
  console.log(`\n== ${stage.name}`);
  const started = Date.now();
  const { code, output } = await run(stage);
  const match = stage.count?.exec(output);
  // Continuous integration installs what tests need: one that was skipped there has proven nothing.
  const skipped = process.env["CI"] === "true" ? Number(match?.groups?.["skipped"] ?? 0) : 0;
  if (skipped > 0) console.log(`== ${stage.name}: ${skipped} skipped, which counts as failed with CI=true`);
  const stageFailed = Number(match?.groups?.["failed"] ?? 0) + skipped;
  passed += Number(match?.groups?.["passed"] ?? 0);
  // A stage that fails without counting a failure (it crashed, or was cut short) is a failure of its own.
  failed += stageFailed > 0 ? stageFailed : code === 0 ? 0 : 1;
  console.log(
    `== ${stage.name}: ${code === 0 ? "ok" : `failed (exit ${code})`}, ${Math.round((Date.now() - started) / 1000)} s`,
  );
  if (code !== 0 && stage.name === "build") break;
}
console.log(`\n${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
