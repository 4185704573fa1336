import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { Sandbox } from "e2b-2.51";
import { startDev } from "../dev-service.ts";
import type { DevService } from "../dev-service.ts";
import { median, quantile } from "../statistics.ts";
import type { Bench, Suite } from "../suite.ts";

/** Time for the pool to be full again: what is measured is a warm guest. */
const REFILL_MS = 1500;

/** The least that starts a process in the same isolation. */
const BARE: Readonly<Record<string, readonly [string, ...string[]]>> = {
  bubblewrap: ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "echo", "hello"],
  unshare: ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "echo", "hello"],
  process: ["echo", "hello"],
};

/** From nothing to the output of a first command, through the published SDK. */
export const firstCommandSuite: Suite = {
  name: "first-command",
  what: "`Sandbox.create()` of the SDK to the output of the first command, in `sandbox-e2b dev`",
  realGuests: true,
  async run(bench: Bench) {
    await using dev = await startDev(2);
    const bare = BARE[dev.isolation] ?? BARE["process"];
    const first: number[] = [];
    const spawned: number[] = [];
    const created: number[] = [];
    const rounds = bench.quick ? 2 : 22;
    for (let round = 0; round < rounds; round += 1) {
      spawned.push(await spawnMs(bare ?? ["echo", "hello"]));
      const times = await firstCommandMs(dev);
      created.push(times.created);
      first.push(times.output);
      await sleep(bench.quick ? 100 : REFILL_MS);
    }
    // The first round of each loads code.
    for (const list of [first, spawned, created]) {
      list.shift();
    }
    const fleet = dev.isolation;
    bench.report({
      name: "first-command.p50",
      fleet,
      unit: "ms",
      value: median(first),
      baseline: median(spawned),
      ratio: median(first.map((value, at) => value / (spawned[at] ?? Number.NaN))),
      against: "a bare process in the same isolation",
      bar: { limit: 60, on: "value", side: "at most" },
    });
    bench.report({ name: "first-command.create-p50", fleet, unit: "ms", value: median(created) });
    bench.report({ name: "first-command.p95", fleet, unit: "ms", value: quantile(first, 0.95) });
  },
};

async function firstCommandMs({
  apiUrl,
  apiKey,
  sandboxUrl,
}: DevService): Promise<{ created: number; output: number }> {
  const began = performance.now();
  const sandbox = await Sandbox.create({ apiUrl, apiKey, sandboxUrl, timeoutMs: 60_000 });
  const created = performance.now() - began;
  let output: number | undefined;
  await sandbox.commands.run("echo hello", {
    onStdout: () => {
      output ??= performance.now() - began;
    },
  });
  await sandbox.kill();
  if (output === undefined) {
    throw new Error("the first command said nothing");
  }
  return { created, output };
}

function spawnMs([command, ...args]: readonly [string, ...string[]]): Promise<number> {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
    child.stdout.once("data", () => resolve(performance.now() - began));
    child.once("error", reject);
    child.once("exit", (code) => {
      if (code !== 0) {
        reject(new Error(`${command} ended with ${code}`));
      }
    });
  });
}
