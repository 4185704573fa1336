import { once } from "node:events";
import { createServer } from "node:net";
import { describe, expect, test } from "vitest";
import type { ProgramSpec } from "./command-line.ts";
import { UsageError } from "./command-line.ts";
import { runProgram } from "./run-program.ts";
import type { CommandCall } from "./run-program.ts";

const program: ProgramSpec = {
  name: "probe",
  version: "1.2.3",
  envPrefix: "PROBE_",
  commands: {
    $0: {
      describe: "Serve",
      options: { listen: { type: "string", default: ":80", group: "Listener:", describe: "Where to listen" } },
    },
    dev: { describe: "Develop", options: {} },
  },
};

async function run(
  argv: readonly string[],
  check: (call: CommandCall) => () => Promise<void>,
): Promise<{ status: number; stdout: string; stderr: string }> {
  let stdout = "";
  let stderr = "";
  const status = await runProgram(
    program,
    { argv, env: {}, stdout: (text) => void (stdout += text), stderr: (text) => void (stderr += text) },
    check,
  );
  return { status, stdout, stderr };
}

const failing = (reason: unknown) => () => () => Promise.reject(reason);

describe("the exit status", () => {
  test("is 0 when the command ends, and the command got its values", async () => {
    let seen: CommandCall | undefined;
    const outcome = await run(["--listen=:1"], (call) => async () => void (seen = call));
    expect(outcome).toEqual({ status: 0, stdout: "", stderr: "" });
    expect(seen).toMatchObject({ command: "$0", values: { listen: ":1" }, sources: { listen: "flag" } });
  });

  test("is 1 after a failure, which is one line", async () => {
    expect(await run([], failing(new Error("no nodes\n  at all\n")))).toEqual({
      status: 1,
      stdout: "",
      stderr: "probe: no nodes; at all\n",
    });
    expect(await run([], failing("odd"))).toMatchObject({ status: 1, stderr: "probe: odd\n" });
  });

  test.each([new UsageError("--listen is odd"), Object.assign(new Error("--listen is odd"), { code: "invalid_flag" })])(
    "is 2 after a usage error, with a hint: %s",
    async (error) => {
      const usage = "usage: probe [dev] [--flag=value …]; `probe --help` lists the flags\n";
      const check = (): never => {
        throw error;
      };
      expect(await run([], check)).toEqual({ status: 2, stdout: "", stderr: `probe: --listen is odd\n${usage}` });
      expect(await run(["--print-config"], check)).toMatchObject({ status: 2, stdout: "" });
    },
  );
});

test("what the system said is told once", async () => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
  const second = createServer();
  const failed = once(second, "error");
  second.listen(taken.address());
  const [cause] = (await failed) as [Error];
  taken.close();
  const { stderr } = await run([], failing(new Error("cannot listen", { cause })));
  expect(stderr).toBe(`probe: cannot listen: ${cause.message}\n`);
  expect(await run([], failing(new Error(`cannot listen: ${cause.message}`, { cause })))).toMatchObject({ stderr });
  expect(await run([], failing(new Error("cannot listen", { cause: new Error("s3cret") })))).toMatchObject({
    stderr: "probe: cannot listen\n",
  });
});

test("texts and the configuration go to stdout and run nothing", async () => {
  const never = (): (() => Promise<void>) => () => Promise.reject(new Error("ran"));
  expect(await run(["--version"], never)).toEqual({ status: 0, stdout: "1.2.3\n", stderr: "" });
  expect(await run(["--help"], never)).toMatchObject({ status: 0, stdout: expect.stringContaining("--listen") });
  expect(await run(["--print-config"], never)).toMatchObject({ status: 0, stdout: expect.stringContaining('":80"') });
});
