import { randomUUID } from "node:crypto";

import { type Kernel, startKernel, type Variables } from "./kernel.ts";
import type { KernelCommands, Language } from "./languages.ts";
import { type Emit, errorMessage } from "./messages.ts";

/** How long a cell that was interrupted may go on before its kernel is ended. */
const INTERRUPT_WAIT_MS = 5000;
/** An interruption misses a program that is only being started. */
const INTERRUPT_AGAIN_MS = 1000;

/** What is run in a context. */
export interface Execution {
  readonly code: string;
  /** Variables of the sandbox. */
  readonly globals: Readonly<Record<string, string>>;
  /** Variables of this execution alone. */
  readonly variables: Readonly<Record<string, string>>;
}

/** A notebook: cells that share what they define, and run one after the other. */
export interface Context {
  readonly id: string;
  readonly language: Language;
  readonly cwd: string;
  /**
   * Runs code after what was asked for before. Resolves when it is done; what went wrong is emitted as an error. Abort
   * interrupts it, or takes it out of the queue.
   */
  execute(execution: Execution, emit: Emit, options: { readonly signal: AbortSignal }): Promise<void>;
  /** Forgets what the cells have defined. A cell that runs ends with an error. */
  restart(): void;
  /** Ends the context for good. */
  close(): void;
}

/** Options of {@link createContext}. */
export interface ContextOptions {
  readonly language: Language;
  readonly cwd: string;
  readonly commands: KernelCommands;
  /** @default 5000 */
  readonly interruptWaitMs?: number | undefined;
}

/** The process of a context with what it was told. */
interface Session {
  readonly kernel: Kernel;
  globals: Readonly<Record<string, string>>;
  count: number;
  /** Why its end is no accident. */
  stopped?: string;
  ended: boolean;
}

/** Makes a context; its process starts with the first cell. */
export function createContext(options: ContextOptions): Context {
  const { language, cwd, commands } = options;
  let session: Session | undefined;
  let last: Promise<void> = Promise.resolve();
  let closed = false;

  const current = (): Session => {
    if (session === undefined || session.ended) {
      const started: Session = { kernel: startKernel(commands(language), cwd), globals: {}, count: 0, ended: false };
      void started.kernel.ended.then(() => (started.ended = true));
      session = started;
    }
    return session;
  };
  const stop = (why: string): void => {
    if (session === undefined) return;
    session.stopped = why;
    session.ended = true;
    session.kernel.kill();
  };

  const runCell = async (execution: Execution, emit: Emit, signal: AbortSignal): Promise<void> => {
    if (closed) {
      await emit(errorMessage("ContextRemoved", "the context was removed before the code could run"));
      return;
    }
    const at = current();
    at.count += 1;
    const globals = changes(at.globals, execution.globals);
    at.globals = execution.globals;
    await emit({ type: "number_of_executions", execution_count: at.count });
    const { kernel } = at;
    let timer: NodeJS.Timeout | undefined;
    let again: NodeJS.Timeout | undefined;
    const onAbort = (): void => {
      kernel.interrupt();
      again ??= setInterval(() => kernel.interrupt(), INTERRUPT_AGAIN_MS);
      timer ??= setTimeout(() => kernel.kill(), options.interruptWaitMs ?? INTERRUPT_WAIT_MS);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    try {
      const { code, variables } = execution;
      const end = await kernel.run({ code, count: at.count, globals, variables }, emit);
      if (end === "ended") {
        const reason = at.stopped ?? `the ${language} kernel ended: ${await kernel.ended}. What it held is lost`;
        await emit(errorMessage(at.stopped === undefined ? "KernelDied" : "KernelStopped", reason));
      }
    } finally {
      clearTimeout(timer);
      clearInterval(again);
      signal.removeEventListener("abort", onAbort);
    }
  };

  return {
    id: randomUUID(),
    language,
    cwd,
    execute: (execution, emit, { signal }) => {
      const run = last.then(() => (signal.aborted ? undefined : runCell(execution, emit, signal)));
      last = run.catch(() => undefined);
      return run;
    },
    restart: () => stop("the context was restarted"),
    close: () => {
      closed = true;
      stop("the context was removed");
    },
  };
}

/** What must be set, and taken away, to get from one set of variables to another. */
function changes(from: Readonly<Record<string, string>>, to: Readonly<Record<string, string>>): Variables {
  const changed: Record<string, string | null> = {};
  for (const name of Object.keys(from)) if (!(name in to)) changed[name] = null;
  for (const [name, value] of Object.entries(to)) if (from[name] !== value) changed[name] = value;
  return changed;
}
