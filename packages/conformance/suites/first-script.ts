import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { type Launcher, launcherFor } from "../src/clients.ts";
import { type HarnessRow, SkipRow } from "../src/harness-rows.ts";
import type { ManagedProcess, ProcessSet } from "../src/processes.ts";
import { cleanEnv, type Programs } from "../src/programs.ts";

/** What `dev` prints for a newcomer: an environment and two scripts. */
interface Banner {
  readonly env: Readonly<Record<string, string>>;
  readonly javascript: string;
  readonly python: string;
}

/** Takes the banner apart as a reader with copy and paste would. Throws when a part is missing. */
function readBanner(text: string): Banner {
  const env: Record<string, string> = {};
  for (const [, name = "", value = ""] of text.matchAll(/^export (\w+)='([^']*)'$/gm)) {
    env[name] = value;
  }
  const javascript = blockBehind(text, /^.*JavaScript: .*$/m);
  const python = blockBehind(text, /^.*Python: .*$/m);
  assert.ok(env["E2B_API_KEY"] !== undefined && javascript !== "" && python !== "", `the banner is complete\n${text}`);
  return { env, javascript, python };
}

/** The lines behind a heading, up to the next empty one. */
function blockBehind(text: string, heading: RegExp): string {
  const found = heading.exec(text);
  const behind = found === null ? "" : text.slice(found.index + found[0].length).trimStart();
  return behind.split("\n\n")[0] ?? "";
}

/** A newcomer's first minute: `dev` without any flag but a folder, then the two scripts as printed. */
export function firstScriptRows(
  set: ProcessSet,
  programs: Programs,
): { readonly rows: readonly HarnessRow[]; readonly close: () => Promise<void> } {
  let dir = "";
  let dev: ManagedProcess | undefined;
  let banner: Banner | undefined;

  const started = async (): Promise<Banner> => {
    if (banner === undefined) {
      dir = await mkdtemp(join(tmpdir(), "conformance-first-"));
      dev = await set.start({
        name: "sandbox-e2b dev",
        command: process.execPath,
        args: ["--", programs.sandboxE2b, "dev", `--state-dir=${join(dir, "state")}`],
        env: cleanEnv(),
      });
      await dev.waitForOutput(/Stop: Ctrl-C/, 60_000);
      banner = readBanner(dev.stdout());
    }
    return banner;
  };

  const output = async (command: string, script: string, env: Banner["env"]): Promise<string> => {
    const child = await set.start({ name: script, command, args: [script], cwd: dir, env: { ...cleanEnv(), ...env } });
    const end = await child.ended;
    assert.equal(end.code, 0, child.tail());
    return child.stdout().trim();
  };

  const hello = `hello from ${process.platform === "darwin" ? "Darwin" : "Linux"}`;
  return {
    rows: [
      {
        id: "N1",
        title: "the printed JavaScript prints its sandbox's output",
        run: async () => {
          const { env, javascript } = await started();
          await mkdir(join(dir, "node_modules"), { recursive: true });
          const sdk = dirname(dirname(fileURLToPath(import.meta.resolve("e2b-2.51"))));
          await symlink(sdk, join(dir, "node_modules/e2b"));
          await writeFile(join(dir, "first.mjs"), javascript);
          assert.equal(await output(process.execPath, "first.mjs", env), hello);
        },
      },
      {
        id: "N2",
        title: "the printed Python prints its sandbox's output",
        run: async () => {
          const launcher: Launcher = await launcherFor(set, "py-2.51");
          if (launcher.kind === "absent") {
            throw new SkipRow(launcher.reason);
          }
          const { env, python } = await started();
          await writeFile(join(dir, "first.py"), python);
          assert.equal(await output(launcher.command, "first.py", env), hello);
        },
      },
    ],
    close: async () => {
      await dev?.stop();
      if (dir !== "") {
        await rm(dir, { recursive: true, force: true });
      }
    },
  };
}
