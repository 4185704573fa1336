import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, test } from "vitest";
import { processState, processTree } from "./proc.ts";
import { createSignalFreezer } from "./signal-freeze.ts";

/** A process tree that says `on` once it is there. */
async function tree(script: string) {
  const child = spawn("/bin/sh", ["-c", `${script}\necho on; wait; sleep 1000`], {
    stdio: ["ignore", "pipe", "ignore"],
    detached: true,
  });
  const exited = once(child, "exit");
  await once(child.stdout, "data");
  const pid = child.pid ?? 0;
  return {
    members: () => processTree(pid),
    [Symbol.asyncDispose]: async () => {
      for (const one of processTree(pid)) {
        try {
          process.kill(one, "SIGKILL");
        } catch {
          // Gone.
        }
      }
      await exited;
    },
  };
}

describe.skipIf(process.platform !== "linux")("stopping by signals", () => {
  test.each([
    ["sleepers", "sleep 1000 & sleep 1000 &"],
    ["a dead child that nobody buried", "sh -c 'true & exec sleep 1000' &"],
    ["one that was stopped before", "sleep 1000 & kill -STOP $!"],
    ["one that starts others all the time", "sh -c 'while :; do /bin/true; done' &"],
    ["one that wakes the others", 'sleep 1000 & victim=$!; sh -c "while :; do kill -CONT $victim; done" &'],
  ])("ends soon and with nothing that runs: %s", async (_, script) => {
    await using at = await tree(script);
    await new Promise((resolve) => setTimeout(resolve, 50));
    let looks = 0;
    const freezer = createSignalFreezer(() => {
      looks += 1;
      return at.members();
    });
    const before = at.members().filter((pid) => processState(pid) === "T");
    await freezer.freeze();
    const states = (): string[] => at.members().map((pid) => processState(pid) ?? "gone");
    expect(states().filter((state) => !/^[TZD]$/.test(state))).toEqual([]);
    expect(looks).toBeLessThan(100);
    await freezer.thaw();
    await expect.poll(() => at.members().filter((pid) => processState(pid) === "T")).toEqual(before);
  });

  test("is refused by what cannot be stopped, and leaves the rest running", async () => {
    await using at = await tree("sleep 1000 &");
    // This process stands for one that no signal stops: it runs, and is not of the tree.
    const other = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
    const exited = once(other, "exit");
    const insists = setInterval(() => other.kill("SIGCONT"), 0);
    const spinning = (): number[] => {
      other.kill("SIGCONT");
      return [...at.members(), other.pid ?? 0];
    };
    await expect(createSignalFreezer(spinning).freeze()).rejects.toThrow("faster than");
    clearInterval(insists);
    expect(at.members().filter((pid) => processState(pid) === "T")).toEqual([]);
    other.kill("SIGKILL");
    await exited;
  }, 20_000);
});
