import { spawn } from "node:child_process";
import { expect, test, vi } from "vitest";
import { superviseChild, type GuestProcess } from "./guest-process.ts";
import { processStart } from "./proc.ts";

function supervise(command: string): GuestProcess {
  const child = spawn("/bin/sh", ["-c", command], {
    detached: true,
    stdio: ["pipe", "ignore", "pipe", "ignore", "pipe"],
  });
  return superviseChild(child, { notePids: () => Promise.resolve() }, "sb_0123456789abcdef", undefined, "unshare");
}

test("a guest that ended by itself has no members, and its end signals nobody who has its id now", async () => {
  const guest = supervise("exit 0");
  await guest.ended;
  expect(guest.members()).toEqual([]);
  const kill = vi.spyOn(process, "kill");
  try {
    await guest.kill();
    expect(kill).not.toHaveBeenCalled();
  } finally {
    kill.mockRestore();
  }
});

test("the end of a guest takes its whole tree and session along", async () => {
  const guest = supervise("sleep 100 & sleep 100");
  await expect.poll(() => guest.members().length).toBe(3);
  const pids = guest.members();
  await guest.kill();
  expect(pids.map(processStart)).toEqual([undefined, undefined, undefined]);
  await expect(guest.ended).resolves.toBe("signal SIGKILL");
});
