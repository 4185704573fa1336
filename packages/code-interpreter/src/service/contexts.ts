import { stat } from "node:fs/promises";
import { isAbsolute } from "node:path";

import { type Context, createContext } from "./context.ts";
import { Refusal } from "./errors.ts";
import { type KernelCommands, type Language, languageOf, unsupported } from "./languages.ts";

/** The contexts of a sandbox. */
export interface Contexts {
  /** Those of Python and JavaScript that every sandbox has, then those that were made, oldest first. */
  list(): readonly Context[];
  /** @throws Refusal for a language that is not offered, or a directory that is none */
  create(language: string | undefined, cwd: string | undefined): Promise<Context>;
  /** The context of a language for code that names none. */
  defaultOf(language: Language): Context;
  /** @throws Refusal `not_found` */
  find(id: string): Context;
  /** Ends a context. @throws Refusal `not_found` */
  remove(id: string): void;
  /** Ends all of them. */
  close(): void;
}

/** Options of {@link createContexts}. */
export interface ContextsOptions {
  readonly commands: KernelCommands;
  /** Directory of contexts that name none. */
  readonly cwd: string;
  readonly interruptWaitMs?: number | undefined;
}

/** Makes the contexts of one sandbox. No process starts before there is code to run. */
export function createContexts(options: ContextsOptions): Contexts {
  const contexts = new Map<string, Context>();
  const defaults = new Map<Language, Context>();
  const make = (language: Language, cwd: string): Context => {
    const { commands, interruptWaitMs } = options;
    const context = createContext({ language, cwd, commands, interruptWaitMs });
    contexts.set(context.id, context);
    return context;
  };
  const defaultOf = (language: Language): Context => {
    const known = defaults.get(language);
    if (known !== undefined) return known;
    const made = make(language, options.cwd);
    defaults.set(language, made);
    return made;
  };
  const find = (id: string): Context => {
    const context = contexts.get(id);
    if (context === undefined) throw new Refusal("not_found", `context ${JSON.stringify(id.slice(0, 64))} not found`);
    return context;
  };
  defaultOf("python");
  defaultOf("javascript");

  return {
    list: () => [...contexts.values()],
    create: async (name, cwd = options.cwd) => {
      const language = languageOf(name);
      if (language === undefined) throw new Refusal("bad_request", unsupported(name ?? ""));
      if (!isAbsolute(cwd)) throw new Refusal("bad_request", "cwd must be an absolute path");
      const found = await stat(cwd).catch(() => undefined);
      if (found?.isDirectory() !== true) throw new Refusal("bad_request", `cwd ${JSON.stringify(cwd)} is no directory`);
      return make(language, cwd);
    },
    defaultOf,
    find,
    remove: (id) => {
      const context = find(id);
      contexts.delete(id);
      if (defaults.get(context.language) === context) defaults.delete(context.language);
      context.close();
    },
    close: () => {
      for (const context of contexts.values()) context.close();
    },
  };
}
