import { initGuest, putBootDocument, putGuestFile, runGuestCommand } from "@org/envd-client";
import type { BootDocument, CommandEnd, DialGuest, InitBody, LogLevel } from "@org/envd-client";
import { createOutputLines } from "./output-lines.ts";

/** Who a command runs as, and where. */
export interface RunAs {
  readonly user: string;
  readonly workdir: string;
  /** Values are secrets. */
  readonly environment: Readonly<Record<string, string>>;
}

/** The sandbox that a template is built in. Every call rejects with an `EnvdClientError`. */
export interface BuildGuest {
  /** Runs a shell text and hands over its output line by line. `onStart` is called once it runs. */
  shell(text: string, as: RunAs, run?: ShellRun): Promise<CommandEnd>;
  /** Runs a script of ours as root, with arguments, and gives what it printed. */
  script(text: string, args: readonly string[], onLine: OnLine): Promise<CommandEnd & { readonly output: string }>;
  /** What a shell of this user finds in its environment. */
  environment(as: RunAs): Promise<Readonly<Record<string, string>>>;
  putFile(path: string, content: AsyncIterable<Uint8Array>): Promise<void>;
  init(body: InitBody): Promise<void>;
  /** Resolves `false` when the guest's node copies memory, so that no document is needed. */
  putBoot(boot: BootDocument): Promise<boolean>;
}

/** Takes one line of output. */
export type OnLine = (level: LogLevel, line: string) => void;

/** Companions of one shell text. */
export interface ShellRun {
  readonly onLine?: OnLine | undefined;
  readonly onStart?: (() => void) | undefined;
  /** Ends the wait, not the command. */
  readonly signal?: AbortSignal | undefined;
}

const CALL_TIMEOUT_MS = 15_000;
/** A gigabyte over a slow line; the build's own time ends it sooner. */
const UPLOAD_TIMEOUT_MS = 3_600_000;
/** Our own scripts print a name and a folder, or an environment. */
const MAX_OUTPUT_BYTES = 1024 * 1024;

const ROOT: RunAs = { user: "root", workdir: "/", environment: {} };

/** Makes it over raw connections to the daemon. The signal ends every call. */
export function createBuildGuest(dial: DialGuest, signal: AbortSignal, now: () => number): BuildGuest {
  const bash = (args: readonly string[], { user, workdir, environment }: RunAs) => ({
    cmd: "/bin/bash",
    args: ["-l", "-c", ...args],
    user,
    cwd: workdir,
    envs: environment,
  });

  /** Runs and keeps the standard output. */
  const capture = async (
    args: readonly string[],
    as: RunAs,
    onLine?: OnLine,
  ): Promise<CommandEnd & { readonly output: string }> => {
    const chunks: Uint8Array[] = [];
    let size = 0;
    const errors = createOutputLines((line) => onLine?.("warn", line));
    const end = await runGuestCommand(dial, bash(args, as), {
      signal,
      onOutput: (stream, bytes) => {
        if (stream === "stderr") {
          errors.write(bytes);
        } else if (size + bytes.length <= MAX_OUTPUT_BYTES) {
          chunks.push(bytes);
          size += bytes.length;
        }
      },
    });
    errors.end();
    return { ...end, output: Buffer.concat(chunks).toString("utf8") };
  };

  return {
    async shell(text, as, { onLine, onStart, signal: own = signal } = {}) {
      const out = createOutputLines((line) => onLine?.("info", line));
      const err = createOutputLines((line) => onLine?.("warn", line));
      const end = await runGuestCommand(dial, bash([text], as), {
        signal: own,
        onStart: () => onStart?.(),
        onOutput: (stream, bytes) => (stream === "stdout" ? out : err).write(bytes),
      });
      out.end();
      err.end();
      return end;
    },
    script: (text, args, onLine) => capture([text, "build", ...args], ROOT, onLine),
    async environment(as) {
      const { output } = await capture(["env -0"], as);
      return Object.fromEntries(
        output.split("\0").flatMap((entry) => {
          const equals = entry.indexOf("=");
          return equals > 0 ? [[entry.slice(0, equals), entry.slice(equals + 1)] as const] : [];
        }),
      );
    },
    putFile: (path, content) =>
      putGuestFile(dial, { path, user: "root", content }, { signal, timeoutMs: UPLOAD_TIMEOUT_MS }),
    async init(body) {
      const timestamp = new Date(now()).toISOString();
      await initGuest(dial, { ...body, timestamp }, { signal, timeoutMs: CALL_TIMEOUT_MS });
    },
    putBoot: (boot) => putBootDocument(dial, boot, { signal, timeoutMs: CALL_TIMEOUT_MS }),
  };
}
