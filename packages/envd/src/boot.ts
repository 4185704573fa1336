import { randomBytes } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { create } from "@bufbuild/protobuf";
import { type BootDocument, MAX_BOOT_BYTES, ProcessConfigSchema } from "@org/envd-client";

import { EnvdError, errnoOf } from "./errors.ts";
import type { Guest } from "./guest/guest.ts";
import type { GuestUser } from "./guest/users.ts";
import { parseObject, readText, textField, variablesField } from "./http/json-body.ts";
import type { EnvdLogger } from "./options.ts";
import type { OwnCommand, ProcessService } from "./process/service.ts";

/** How long a guest may take to get of use before it is handed out all the same. */
const READY_LIMIT_MS = 5000;
const READY_PAUSE_MS = 100;

/** What {@link createBoot} works with. */
export interface BootParts {
  readonly file: string;
  readonly guest: Guest;
  readonly processes: Pick<ProcessService, "start">;
  readonly logger: EnvdLogger;
}

/** The boot document of a guest. It is among the guest's own files, so it can do what the guest's root can, and no more. */
export interface Boot {
  /** Takes the document of a request in place of the one before, but for a start command it has none of. @throws EnvdError */
  save(req: IncomingMessage): Promise<void>;
  /** Carries out the document that the guest's files brought along. Never rejects: a broken one is logged. */
  run(signal: AbortSignal): Promise<void>;
}

/** Makes it; nothing is read before `run`. */
export function createBoot({ file, guest, processes, logger }: BootParts): Boot {
  /** Waits for a command that runs again and again until it ends with 0, or for what makes that pointless. */
  const untilReady = async (
    start: (command: string) => Promise<OwnCommand>,
    readyCommand: string,
    service: OwnCommand | undefined,
    signal: AbortSignal,
  ): Promise<void> => {
    const stop = new AbortController();
    const onAbort = (): void => stop.abort();
    const timer = setTimeout(onAbort, READY_LIMIT_MS);
    signal.addEventListener("abort", onAbort, { once: true });
    let failed = false;
    const watch = async (): Promise<void> => {
      const end = await service?.ended(stop.signal);
      failed = end !== undefined && end.exitCode !== 0;
      if (failed) stop.abort();
    };
    void watch();
    try {
      while (!stop.signal.aborted) {
        const probe = await start(readyCommand);
        const end = await probe.ended(stop.signal);
        if (end === undefined) probe.kill();
        if (end?.exitCode === 0) return;
        await sleep(READY_PAUSE_MS, undefined, { signal: stop.signal }).catch(() => undefined);
      }
      const how = failed ? "failed" : "was not ready in time";
      if (!signal.aborted) logger.warn({}, `the start command of the template ${how}`);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      stop.abort();
    }
  };

  const carryOut = async (boot: BootDocument, user: GuestUser, signal: AbortSignal): Promise<void> => {
    const start = (command: string): Promise<OwnCommand> => {
      const config = create(ProcessConfigSchema, { cmd: "/bin/bash", args: ["-l", "-c", command], cwd: boot.workdir });
      return processes.start(config, user);
    };
    const { startCommand, readyCommand } = boot;
    const service = startCommand === undefined ? undefined : await start(startCommand);
    if (readyCommand !== undefined) await untilReady(start, readyCommand, service, signal);
  };

  /** A template that starts nothing of its own goes on starting what the one below it starts. */
  const inheriting = async (boot: BootDocument): Promise<BootDocument> => {
    if (boot.startCommand !== undefined) return boot;
    try {
      const { startUser, startCommand, readyCommand } = parseBoot(await readFile(file, "utf8"));
      return { ...boot, startUser, startCommand, readyCommand: boot.readyCommand ?? readyCommand };
    } catch {
      // There is none, or none that starts anything.
      return boot;
    }
  };

  return {
    async save(req) {
      const boot = await inheriting(parseBoot(await readText(req, MAX_BOOT_BYTES)));
      // Variables may be secrets: only the guest's root reads them.
      await mkdir(dirname(file), { recursive: true, mode: 0o700 });
      const draft = `${file}.${randomBytes(6).toString("hex")}`;
      try {
        await writeFile(draft, JSON.stringify(boot), { mode: 0o600, flag: "wx" });
        await rename(draft, file);
      } catch (error) {
        await rm(draft, { force: true });
        throw new EnvdError("internal", "the boot document cannot be written", { cause: error });
      }
    },
    async run(signal) {
      try {
        const boot = parseBoot(await readFile(file, "utf8"));
        const { state, users } = guest;
        const known = users.current();
        const user = known.find(boot.user);
        const starter = known.find(boot.startUser ?? boot.user);
        if (user === undefined || starter === undefined)
          throw new EnvdError("not_found", "the guest has no user of this name");
        state.bootVariables = boot.environment;
        state.defaultUser = user.name;
        state.defaultWorkdir = boot.workdir;
        await carryOut(boot, starter, signal);
      } catch (error) {
        if (errnoOf(error) !== "ENOENT")
          logger.warn({ error }, "the boot document of the template was not carried out");
      }
    },
  };
}

/** @throws EnvdError `invalid_argument` */
function parseBoot(text: string): BootDocument {
  const body = parseObject(text);
  const user = textField(body, "user");
  const workdir = textField(body, "workdir");
  if (user === undefined || user === "" || workdir === undefined || !workdir.startsWith("/")) {
    throw new EnvdError("invalid_argument", "user and workdir are required, the latter absolute");
  }
  return {
    user,
    workdir,
    environment: variablesField(body, "environment") ?? {},
    startUser: textField(body, "startUser") || undefined,
    startCommand: textField(body, "startCommand") || undefined,
    readyCommand: textField(body, "readyCommand") || undefined,
  };
}
