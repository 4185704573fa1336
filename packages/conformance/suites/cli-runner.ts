import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import type { ManagedProcess, ProcessSet } from "../src/processes.ts";
import { cleanEnv } from "../src/programs.ts";
import type { RigFacts } from "../src/rig.ts";

/** How a command of the CLI ended. */
export interface CliDone {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** The E2B CLI as a user runs it: its program, the documented variables, an empty home. */
export interface Cli extends AsyncDisposable {
  readonly start: (args: readonly string[], input?: string | Uint8Array, key?: string) => Promise<ManagedProcess>;
  readonly run: (args: readonly string[], input?: string | Uint8Array, key?: string) => Promise<CliDone>;
  /** The output of a command that must end with 0. */
  readonly ok: (args: readonly string[], input?: string | Uint8Array) => Promise<string>;
  readonly json: (args: readonly string[]) => Promise<unknown>;
}

const RUNNER = fileURLToPath(new URL("../node_modules/@e2b/cli/dist/index.js", import.meta.url));
const LIMIT_MS = 60_000;

/** Makes it; its home is made with the first command. */
export function createCli(set: ProcessSet, rig: RigFacts): Cli {
  let home: Promise<string> | undefined;

  const start = async (args: readonly string[], input?: string | Uint8Array, key?: string): Promise<ManagedProcess> => {
    home ??= mkdtemp(join(tmpdir(), "conformance-cli-"));
    return set.start({
      name: `e2b ${args.slice(0, 2).join(" ")}`,
      command: process.execPath,
      args: [RUNNER, ...args],
      env: {
        ...cleanEnv(),
        HOME: await home,
        NO_COLOR: "1",
        FORCE_COLOR: "0",
        NO_UPDATE_NOTIFIER: "1",
        E2B_API_KEY: key ?? rig.keys.one,
        E2B_API_URL: rig.apiUrl,
        E2B_DOMAIN: rig.domain,
        E2B_SANDBOX_URL: rig.proxyUrl,
      },
      ...(input === undefined ? {} : { input }),
    });
  };
  const run = async (args: readonly string[], input?: string | Uint8Array, key?: string): Promise<CliDone> => {
    const child = await start(args, input, key);
    const timer = setTimeout(() => child.signal("SIGKILL", true), LIMIT_MS);
    const { code } = await child.ended;
    clearTimeout(timer);
    return { code, out: child.stdout(), err: child.stderr() };
  };
  const ok = async (args: readonly string[], input?: string | Uint8Array): Promise<string> => {
    const done = await run(args, input);
    assert.equal(done.code, 0, `e2b ${args.join(" ")}: ${done.err.slice(-400) || done.out.slice(-400)}`);
    return done.out;
  };
  const json = async (args: readonly string[]): Promise<unknown> => {
    const out = await ok(args);
    return JSON.parse(out.slice(out.search(/[[{]/)));
  };
  return {
    start,
    run,
    ok,
    json,
    async [Symbol.asyncDispose]() {
      if (home !== undefined) {
        await rm(await home, { recursive: true, force: true });
      }
    },
  };
}
