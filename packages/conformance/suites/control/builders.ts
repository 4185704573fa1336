import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { type LogEntry, Template } from "e2b-2.51";

import { launcherFor } from "../../src/clients.ts";
import type { Front } from "../../src/front.ts";
import { waitFor } from "../../src/polling.ts";
import type { ManagedProcess, ProcessSet } from "../../src/processes.ts";
import { cleanEnv } from "../../src/programs.ts";
import { IMAGE } from "../../src/rig.ts";
import { createCli } from "../cli-runner.ts";
import { sdkOptions } from "../faults/context.ts";

/** A build that a client waits for. */
export interface ClientBuild {
  /** What the client has shown of the build so far. */
  readonly shown: () => string;
  /** How it ended: `built`, or the class and message of the client's error. */
  readonly ended: Promise<string>;
  /** Makes the client go away, as a user does who ends it. */
  readonly leave: () => void;
}

/** A client that can build. */
export interface Builder {
  readonly name: "js" | "python" | "cli";
  /** Builds a template of the usual image out of shell commands. */
  readonly build: (front: Front, name: string, commands: readonly string[]) => Promise<ClientBuild>;
}

const PYTHON = `
import json, os
from e2b import Template
job = json.loads(os.environ["JOB"])
template = Template().from_image(job["image"])
for command in job["commands"]:
    template = template.run_cmd(command)
try:
    Template.build(template, job["name"], cpu_count=1, memory_mb=512,
                   on_build_logs=lambda line: print(line.message, flush=True), **job["options"])
    print("ENDED built", flush=True)
except Exception as error:
    print("ENDED", type(error).__name__ + ":", error, flush=True)
`;

/** How a client process ended, by its last word or by its status. */
async function endOf(child: ManagedProcess): Promise<string> {
  const { code } = await child.ended;
  const word = /^ENDED (.*)$/ms.exec(child.stdout())?.[1]?.trim();
  return word ?? (code === 0 ? "built" : `exit ${code}: ${child.stdout()}${child.stderr()}`);
}

/** The JavaScript and Python SDKs and the CLI. What the CLI builds from lies in a folder until `close`. */
export function createBuilders(set: ProcessSet): {
  readonly builders: readonly Builder[];
  readonly close: () => Promise<void>;
} {
  const folders: string[] = [];
  const closes: (() => PromiseLike<void>)[] = [];

  const js: Builder = {
    name: "js",
    build: async (front, name, commands) => {
      const lines: string[] = [];
      const leave = new AbortController();
      const template = commands.reduce((so, command) => so.runCmd(command), Template().fromImage(IMAGE));
      const ended = Template.build(template, name, {
        ...sdkOptions(front),
        signal: leave.signal,
        onBuildLogs: ({ message }: LogEntry) => void lines.push(message),
      }).then(
        () => "built",
        (error: unknown) => (error instanceof Error ? `${error.constructor.name}: ${error.message}` : String(error)),
      );
      return { shown: () => lines.join("\n"), ended, leave: () => leave.abort() };
    },
  };

  const ofChild = (child: ManagedProcess): ClientBuild => ({
    shown: () => child.stdout() + child.stderr(),
    ended: endOf(child),
    leave: () => child.signal("SIGKILL", true),
  });

  const python: Builder = {
    name: "python",
    build: async (front, name, commands) => {
      const launcher = await launcherFor(set, "py-2.51");
      assert.ok(launcher.kind === "ready", launcher.kind === "absent" ? launcher.reason : "");
      const { apiKey, apiUrl, domain, sandboxUrl } = sdkOptions(front);
      const options = { api_key: apiKey, api_url: apiUrl, domain, sandbox_url: sandboxUrl };
      const child = await set.start({
        name: `python build ${name}`,
        command: launcher.command,
        args: ["-B", "-c", PYTHON],
        env: cleanEnv({ JOB: JSON.stringify({ image: IMAGE, name, commands, options }) }),
      });
      return ofChild(child);
    },
  };

  const cli: Builder = {
    name: "cli",
    build: async (front, name, commands) => {
      const dir = await mkdtemp(join(tmpdir(), "conformance-build-"));
      folders.push(dir);
      await writeFile(
        join(dir, "Dockerfile"),
        [`FROM ${IMAGE}`, ...commands.map((command) => `RUN ${command}`), ""].join("\n"),
      );
      const runner = createCli(set, front.facts);
      closes.push(() => runner[Symbol.asyncDispose]());
      const size = ["--cpu-count", "1", "--memory-mb", "512"];
      return ofChild(await runner.start(["template", "create", name, "-p", dir, ...size]));
    },
  };

  return {
    builders: [js, python, cli],
    close: async () => {
      await Promise.all(closes.map((close) => close()));
      await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true })));
    },
  };
}

/** Waits until a client has shown a line of its build. */
export async function shows(build: ClientBuild, line: RegExp): Promise<void> {
  await waitFor(
    `${line} in the log of the build`,
    async () => {
      if (line.test(build.shown())) {
        return true;
      }
      const early = await Promise.race([build.ended, Promise.resolve(undefined)]);
      assert.equal(early, undefined, `the build ended before ${line}`);
      return false;
    },
    60_000,
  );
}
