import { execFile, spawn, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, expect, test } from "vitest";
import { CLEANUP_SCRIPT } from "./keeper-script.ts";
import { processStart } from "./proc.ts";

const GUEST = "sb_0123456789abcdef";
const started: ChildProcess[] = [];

afterEach(() => {
  for (const child of started.splice(0)) {
    child.kill("SIGKILL");
  }
});

async function sleeper(env: Readonly<Record<string, string>> = {}): Promise<number> {
  const child = spawn("sleep", ["100"], {
    detached: true,
    stdio: "ignore",
    env: { PATH: process.env["PATH"], ...env },
  });
  started.push(child);
  const pid = child.pid ?? 0;
  await expect.poll(() => processStart(pid)).toBeDefined();
  return pid;
}

test.runIf(process.platform === "linux")(
  "the cleaning of a run ends what is its own, and nothing that has an id of its own by now",
  async () => {
    const run = await mkdtemp(join(tmpdir(), "run-"));
    try {
      await mkdir(join(run, "guests", GUEST), { recursive: true });
      await writeFile(join(run, "shared"), "");
      const own = await sleeper();
      const stray = await sleeper({ E2B_SANDBOX_ID: GUEST });
      const later = await sleeper();
      const other = await sleeper({ E2B_SANDBOX_ID: "sb_fedcba9876543210" });
      await writeFile(
        join(run, "guests", GUEST, "pids"),
        `${own} ${processStart(own) ?? ""}\n${later} ${Number(processStart(later)) - 1}\n`,
      );
      await promisify(execFile)("/bin/sh", ["-c", `${CLEANUP_SCRIPT}\ncleanup "$@"`, "clean", run]);
      expect([own, stray].map(processStart)).toEqual([undefined, undefined]);
      expect([later, other].map((pid) => processStart(pid) !== undefined)).toEqual([true, true]);
      expect(existsSync(run)).toBe(false);
    } finally {
      await rm(run, { recursive: true, force: true });
    }
  },
);
