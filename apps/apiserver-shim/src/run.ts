import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { runProgram } from "@org/command-line";
import { refuse, SERVICE_ACCOUNT } from "./compose.ts";
import { programSpec, shimConfig } from "./flags.ts";

/** Runs the program and resolves with the exit status. */
export function run(argv: readonly string[], env: Readonly<Record<string, string | undefined>>): Promise<number> {
  const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
    version: string;
  };
  // A reader that went away (`| head`) is no reason to end.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
  const io = {
    argv,
    env,
    stdout: (text: string) => void process.stdout.write(text),
    stderr: (text: string) => void process.stderr.write(text),
  };
  return runProgram(programSpec(version), io, ({ values }) => {
    shimConfig(values);
    return async () => refuse({ env, home: homedir(), serviceAccount: SERVICE_ACCOUNT });
  });
}
