import { existsSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { PYTHON_INTERPRETER } from "./client-facts.ts";
import { describeEnd, type ProcessSet } from "./processes.ts";
import { cleanEnv } from "./programs.ts";

/** An interpreter with the SDK installed, or why there is none and what to do about it. */
export type PythonEnv =
  | { readonly kind: "ready"; readonly python: string; readonly version: string }
  | { readonly kind: "absent"; readonly reason: string };

const INSTALL_LIMIT_MS = 600_000;

/** What is taken in whatever version the package index has. */
const FLOATING: readonly string[] = ["newest", "schemathesis"];

/** The code interpreter's client, with the SDK that it was released for. */
const CODE_INTERPRETER: readonly string[] = [
  `e2b-code-interpreter==${PYTHON_INTERPRETER.client}`,
  `e2b==${PYTHON_INTERPRETER.sdk}`,
];

/**
 * Makes (once) a virtual environment with a version of the Python SDK, with the client of the code interpreter, or with
 * `schemathesis`.
 * `newest` is whatever the package index has; it is looked up again when the environment is older than a day.
 */
export async function pythonEnv(set: ProcessSet, wanted: string): Promise<PythonEnv> {
  const dir = fileURLToPath(new URL(`../.venv-e2b-${wanted}`, import.meta.url));
  const python = join(dir, "bin", "python");
  const marker = join(dir, ".installed");
  const known = await installedVersion(marker);
  if (known !== undefined && existsSync(python)) {
    return { kind: "ready", python, version: known };
  }
  const base = process.env["CONFORMANCE_PYTHON"] ?? "python3";
  const run = async (command: string, args: readonly string[]): Promise<{ failed?: string; stdout: string }> => {
    try {
      const child = await set.start({ name: `${command} ${args[0]}`, command, args, env: pipEnv() });
      const timer = setTimeout(() => child.signal("SIGKILL", true), INSTALL_LIMIT_MS);
      const end = await child.ended;
      clearTimeout(timer);
      return end.code === 0
        ? { stdout: child.stdout() }
        : { failed: `${describeEnd(end)}: ${child.tail()}`, stdout: "" };
    } catch (error) {
      return { failed: error instanceof Error ? error.message : String(error), stdout: "" };
    }
  };
  const absent = (reason: string): PythonEnv => ({ kind: "absent", reason });

  const found = await run(base, ["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]);
  if (found.failed !== undefined) {
    return absent(`there is no ${base}: install Python 3.11 or newer with its venv module`);
  }
  const [major = 0, minor = 0] = found.stdout.trim().split(".").map(Number);
  const needed = wanted === "newest" || wanted === "code-interpreter" ? 11 : 10;
  const main = wanted === "schemathesis" ? wanted : "e2b";
  if (major !== 3 || minor < needed) {
    return absent(`${base} is ${found.stdout.trim()}: e2b ${wanted} needs Python 3.${needed} or newer`);
  }
  await rm(dir, { recursive: true, force: true });
  const made = await run(base, ["-m", "venv", dir]);
  if (made.failed !== undefined) {
    return absent(`${base} cannot make a virtual environment (install python3-venv): ${made.failed.slice(-200)}`);
  }
  const requirements =
    wanted === "code-interpreter" ? CODE_INTERPRETER : [FLOATING.includes(wanted) ? main : `e2b==${wanted}`];
  const pip = await run(python, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...requirements]);
  if (pip.failed !== undefined) {
    return absent(
      `pip cannot install ${requirements.join(", ")} (is a package index reachable?): ${pip.failed.slice(-200)}`,
    );
  }
  const version = await run(python, ["-c", `from importlib.metadata import version; print(version('${main}'))`]);
  if (version.failed !== undefined) {
    return absent(`e2b ${wanted} was installed but cannot be read: ${version.failed.slice(-200)}`);
  }
  await mkdir(dir, { recursive: true });
  await writeFile(
    marker,
    JSON.stringify({ version: version.stdout.trim(), at: Date.now(), pinned: !FLOATING.includes(wanted) }),
  );
  return { kind: "ready", python, version: version.stdout.trim() };
}

async function installedVersion(marker: string): Promise<string | undefined> {
  try {
    const note = JSON.parse(await readFile(marker, "utf8")) as { version: string; at: number; pinned: boolean };
    return note.pinned || Date.now() - note.at < 86_400_000 ? note.version : undefined;
  } catch {
    return undefined;
  }
}

/** pip finds its index and its certificates through the user's own variables. */
function pipEnv(): Record<string, string> {
  const env = cleanEnv();
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && /^(PIP_|(HTTPS?|NO|ALL)_PROXY$|SSL_|REQUESTS_)/i.test(name)) {
      env[name] = value;
    }
  }
  return env;
}
