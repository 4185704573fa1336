import { spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";

import { messagesOf, outcomeOf, startInterpreter, type TestInterpreter } from "../testing/interpreter.ts";

/** Begins a cell, waits for its first output, and goes away. */
async function abandon(interpreter: TestInterpreter, code: string, language: string): Promise<void> {
  const leave = new AbortController();
  const reply = await interpreter.fetch("POST", "/execute", { code, language }, { signal: leave.signal });
  const reader = reply.body?.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; !text.includes("up");) {
    const part = await reader?.read();
    if (part === undefined || part.done) throw new Error(`the cell ended: ${text}`);
    text += part.value;
  }
  leave.abort();
  await reader?.closed.catch(() => undefined);
}

test.each([
  ["python", "kept = 1", "print('up')\nwhile True: pass", "kept"],
  ["python", "kept = 1", "import time\nprint('up')\ntime.sleep(600)", "kept"],
  ["python", "kept = 1", "import os\nprint('up')\nos.system('sleep 600')", "kept"],
  ["python", "kept = 1", "import asyncio\nprint('up')\nawait asyncio.sleep(600)", "kept"],
  ["javascript", "const kept = 1", "console.log('up'); for (;;) {}", "kept"],
  ["javascript", "const kept = 1", "await 1; console.log('up'); for (;;) {}", "kept"],
  ["javascript", "const kept = 1", "console.log('up'); await new Promise(() => {})", "kept"],
  ["javascript", "const kept = 1", "console.log('up'); require('child_process').execSync('sleep 600')", "kept"],
])("a %s cell whose client goes away stops, and %s stays: %j", async (language, set, endless, get) => {
  await using interpreter = await startInterpreter();
  await interpreter.run(set, { language });
  await abandon(interpreter, endless, language);
  expect(outcomeOf(await interpreter.run(get, { language }))).toEqual({ text: "1" });
});

test.each([
  ["python", "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('up')\ntime.sleep(600)", "1"],
  ["javascript", `require('child_process').execSync("trap '' INT; echo up; sleep 600", { stdio: "inherit" })`, "1"],
])("a %s cell that does not stop takes its kernel along", async (language, stubborn, code) => {
  await using interpreter = await startInterpreter({ interruptWaitMs: 200 });
  await abandon(interpreter, stubborn, language);
  const [count, ...rest] = await interpreter.run(code, { language });
  expect(count).toMatchObject({ execution_count: 1 });
  expect(outcomeOf(rest)).toEqual({ text: "1" });
});

test("a cell whose client left while it waited for its turn never runs", async () => {
  await using interpreter = await startInterpreter();
  await interpreter.run("ran = []");
  const running = interpreter.run("import time\ntime.sleep(0.5)");
  const leave = new AbortController();
  const queued = interpreter.fetch("POST", "/execute", { code: "ran.append(1)" }, { signal: leave.signal });
  await queued.then(() => leave.abort());
  await running;
  expect(outcomeOf(await interpreter.run("ran"))).toEqual({ text: "[]" });
});

test.each([
  ["python", "import os; os._exit(3)", "it exited with status 3"],
  ["python", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "it was ended by SIGKILL"],
  ["javascript", "process.exit(4)", "it exited with status 4"],
])("a %s kernel that ends says how, and the next cell has a new one", async (language, code, how) => {
  await using interpreter = await startInterpreter();
  await interpreter.run("1", { language });
  const { error } = outcomeOf(await interpreter.run(code, { language }));
  expect(error).toBe(`KernelDied: the ${language} kernel ended: ${how}. What it held is lost`);
  expect(await interpreter.run("2", { language })).toMatchObject([{ execution_count: 1 }, { text: "2" }, {}]);
});

test("a restart and a removal end the cell that runs, and what waits behind a removal", async () => {
  await using interpreter = await startInterpreter();
  const made = (await (await interpreter.fetch("POST", "/contexts", {})).json()) as { id: string };
  const own = { context_id: made.id };
  for (const [method, path, error] of [
    ["POST", `/contexts/${made.id}/restart`, "KernelStopped: the context was restarted"],
    ["DELETE", `/contexts/${made.id}`, "KernelStopped: the context was removed"],
  ] as const) {
    const reply = await interpreter.fetch("POST", "/execute", { code: "import time\ntime.sleep(600)", ...own });
    const waiting = method === "DELETE" ? interpreter.run("1", own) : undefined;
    // The second one has been accepted once a third request was answered.
    await interpreter.fetch("GET", "/contexts");
    expect(await (await interpreter.fetch(method, path)).json()).toBeNull();
    expect(await reply.text()).toContain(error.split(": ")[1]);
    if (waiting !== undefined) expect(outcomeOf(await waiting).error).toMatch(/ContextRemoved|KernelStopped/);
  }
});

test("what a cell has started in the background ends with its kernel", async () => {
  await using interpreter = await startInterpreter();
  const folder = await mkdtemp(join(tmpdir(), "code-interpreter-"));
  try {
    const file = join(folder, "pid");
    await interpreter.run(
      `import subprocess\np = subprocess.Popen(['sleep', '600'])\nopen('${file}', 'w').write(str(p.pid))`,
    );
    const pid = Number(await readFile(file, "utf8"));
    expect(isRunning(pid)).toBe(true);
    await interpreter.run("import os; os._exit(0)");
    await expect.poll(() => isRunning(pid)).toBe(false);
  } finally {
    await rm(folder, { recursive: true });
  }
});

/** One that nobody has asked for its end counts as ended. */
function isRunning(pid: number): boolean {
  const { stdout } = spawnSync("ps", ["-o", "stat=", "-p", String(pid)], { encoding: "utf8" });
  return stdout.trim() !== "" && !stdout.startsWith("Z");
}

test("a slow reader loses nothing", async () => {
  await using interpreter = await startInterpreter();
  const reply = await interpreter.fetch("POST", "/execute", { code: "for i in range(200000): print(i)" });
  // Meanwhile every buffer on the way fills. A machine that needs longer for it makes the test weaker, never wrong.
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const { stdout } = outcomeOf(messagesOf(await reply.text()));
  expect(stdout?.length).toBe(Array.from({ length: 200_000 }, (_, i) => `${i}\n`).join("").length);
});
