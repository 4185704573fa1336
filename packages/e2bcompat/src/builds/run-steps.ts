import { posix } from "node:path";
import { E2bError } from "../errors.ts";
import type { BuildGuest, OnLine, RunAs } from "./build-guest.ts";
import { describeStep } from "./build-steps.ts";
import type { BuildStep } from "./build-steps.ts";
import { expandVariables } from "./expand-variables.ts";
import { COPY_SCRIPT, USER_SCRIPT, WORKDIR_SCRIPT } from "./step-scripts.ts";

/** What steps of a build work with. */
export interface StepContext {
  readonly guest: BuildGuest;
  /** The content of an upload. Throws `guest_failed` when it is gone. */
  readonly openUpload: (hash: string) => Promise<AsyncIterable<Uint8Array>>;
  readonly onLine: OnLine;
}

/** Where a build starts out. */
export const FIRST_STATE: RunAs = { user: "user", workdir: "/home/user", environment: {} };

const MAX_SHOWN_CHARS = 200;

function failed(message: string): E2bError {
  return new E2bError("guest_failed", message);
}

/** A command in messages. */
function shown(command: string): string {
  return JSON.stringify(command.length > MAX_SHOWN_CHARS ? `${command.slice(0, MAX_SHOWN_CHARS)}…` : command);
}

/** How a command failed, for messages; `undefined` when it did not. */
export function failureOf(
  command: string,
  { exitCode, status }: { readonly exitCode: number; readonly status: string },
): string | undefined {
  if (exitCode === 0) {
    return undefined;
  }
  return `${shown(command)} ${exitCode === -1 ? `was ended: ${status}` : `exited with code ${exitCode}`}`;
}

/** Carries out one step and gives the state that the next one finds. Throws `guest_failed`, `bad_request` and what guests throw. */
export async function runStep(context: StepContext, step: BuildStep, state: RunAs): Promise<RunAs> {
  const { guest, onLine } = context;
  const script = async (text: string, args: readonly string[]): Promise<string> => {
    let lastLine = "";
    const { exitCode, status, output } = await guest.script(text, args, (level, line) => {
      lastLine = line;
      onLine(level, line);
    });
    if (exitCode !== 0) {
      throw failed(lastLine === "" ? (failureOf(describeStep(step), { exitCode, status }) ?? "") : lastLine);
    }
    return output;
  };
  switch (step.kind) {
    case "RUN": {
      const as = { ...state, user: step.user ?? state.user };
      const end = await guest.shell(step.command, as, { onLine });
      const failure = failureOf(step.command, end);
      if (failure !== undefined) {
        throw failed(failure);
      }
      return state;
    }
    case "ENV": {
      const known = await knownVariables(
        guest,
        state,
        step.variables.map(([, value]) => value),
      );
      // As in a Dockerfile, one step does not see what it sets itself.
      const added = step.variables.map(([name, value]) => [name, expandVariables(value, known)] as const);
      return { ...state, environment: { ...state.environment, ...Object.fromEntries(added) } };
    }
    case "WORKDIR": {
      const workdir = await folderOf(guest, state, step.directory);
      await script(WORKDIR_SCRIPT, [workdir, state.user]);
      return { ...state, workdir };
    }
    case "USER": {
      const [name = "", group = ""] = step.user.split(":");
      const [user = ""] = (await script(USER_SCRIPT, [name, group])).split("\n");
      if (user === "") {
        throw failed(`there is no user ${JSON.stringify(name)}`);
      }
      return { ...state, user };
    }
    case "COPY":
    default: {
      const archive = `/tmp/${step.hash}.tar`;
      await guest.putFile(archive, await context.openUpload(step.hash));
      const target = await folderOf(guest, state, step.destination);
      const slash = /\/\.?$/.test(step.destination) || step.destination === "." ? "/" : "";
      const { source, kind } = sourcePattern(step.source);
      const owner = step.owner ?? state.user;
      const place = target === "/" ? target : target + slash;
      await script(COPY_SCRIPT, [archive, source, kind, place, owner, step.mode ?? ""]);
      return state;
    }
  }
}

/** The environment that texts are expanded with; asked for only when one of them can need it. */
async function knownVariables(
  guest: BuildGuest,
  state: RunAs,
  texts: readonly string[],
): Promise<Readonly<Record<string, string>>> {
  return texts.some((text) => text.includes("$")) ? guest.environment(state) : {};
}

/** A folder of a step as an absolute path without a slash at its end. */
async function folderOf(guest: BuildGuest, state: RunAs, text: string): Promise<string> {
  const path = expandVariables(text, await knownVariables(guest, state, [text]));
  const absolute = posix.resolve(state.workdir, path);
  if (absolute.includes("\0")) {
    throw failed("a path must not contain a NUL character");
  }
  return absolute;
}

/** A source as it is named in its archive. Braces are written as the shell's own patterns know them. */
function sourcePattern(source: string): { readonly source: string; readonly kind: "glob" | "plain" } {
  const plain = posix.normalize(source).replace(/^\/+|\/+$/g, "") || ".";
  if (!/[*?[{]/.test(plain)) {
    return { source: plain, kind: "plain" };
  }
  const braces = (_: string, words: string): string => `@(${words.replaceAll(",", "|")})`;
  return { source: plain.replaceAll(/\{([^{}]*)\}/g, braces), kind: "glob" };
}
