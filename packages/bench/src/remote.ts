import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** What a process does for the one that started it: calls with one argument that JSON can carry. */
export type Calls = Readonly<Record<string, (argument: never) => unknown>>;

type Argument<C extends Calls, Name extends keyof C> = Parameters<C[Name]>[0];
type Result<C extends Calls, Name extends keyof C> = Awaited<ReturnType<C[Name]>>;

interface Question {
  readonly id: number;
  readonly name: string;
  readonly argument: unknown;
}

interface Reply {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: string;
}

/** A process that answers calls. */
export class Remote<C extends Calls> implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, { resolve: (result: unknown) => void; reject: (error: Error) => void }>();
  readonly #ended: Promise<unknown>;
  #last = 0;

  constructor(child: ChildProcess) {
    this.#child = child;
    this.#ended = once(child, "exit");
    child.on("message", (reply: Reply) => {
      const waiting = this.#waiting.get(reply.id);
      this.#waiting.delete(reply.id);
      if (reply.error === undefined) {
        waiting?.resolve(reply.result);
      } else {
        waiting?.reject(new Error(reply.error));
      }
    });
    const end = (why: string): void => {
      for (const { reject } of this.#waiting.values()) {
        reject(new Error(`a process of the benchmark ended: ${why}`));
      }
      this.#waiting.clear();
    };
    child.on("exit", (code, signal) => end(String(code ?? signal)));
    child.on("error", (error) => end(error.message));
  }

  /** Rejects with what the call threw, or when the process ends. */
  call<Name extends keyof C & string>(name: Name, argument: Argument<C, Name>): Promise<Result<C, Name>> {
    this.#last += 1;
    const question: Question = { id: this.#last, name, argument };
    return new Promise<unknown>((resolve, reject) => {
      if (!this.#child.connected) {
        reject(new Error("a process of the benchmark has ended"));
        return;
      }
      this.#waiting.set(question.id, { resolve, reject });
      this.#child.send(question, (error) => {
        if (error !== null && this.#waiting.delete(question.id)) {
          reject(error);
        }
      });
    }) as Promise<Result<C, Name>>;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#ended;
  }
}

/** Node's own flags that `sandbox-e2b` starts with. */
export const NODE_FLAGS: readonly string[] = ["--max-semi-space-size=64"];

/** Starts a program of this package with the flags of this process. It ends with this process. */
export function start<C extends Calls>(program: URL): Remote<C> {
  const execArgv = [...process.execArgv, ...NODE_FLAGS];
  return new Remote<C>(fork(fileURLToPath(program), { execArgv, stdio: ["ignore", "inherit", "inherit", "ipc"] }));
}

/** Answers the calls of the process that started this one, one after the other as they come, until it goes away. */
export function answerCalls(calls: Calls): void {
  process.on("disconnect", () => process.exit(0));
  process.on("message", (question: Question) => {
    void answer(calls, question).then((reply) => process.send?.(reply));
  });
}

async function answer(calls: Calls, { id, name, argument }: Question): Promise<Reply> {
  try {
    const call = calls[name];
    if (call === undefined) {
      throw new Error(`no call ${name}`);
    }
    return { id, result: await call(argument as never) };
  } catch (error) {
    return { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}
