import { writeSync } from "node:fs";
import { Session, type Runtime } from "node:inspector";
import { stripTypeScriptTypes } from "node:module";

import { defineGlobals } from "./globals.ts";
import { translateImports } from "./imports.ts";
import { formsOf, textOf } from "./representations.ts";

/** A cell, as the service sends it. */
export interface CellRequest {
  readonly type: "execute";
  readonly code: string;
  readonly count: number;
  /** Variables from now on; `null` takes one away. */
  readonly globals: Readonly<Record<string, string | null>>;
  /** Variables of this cell alone. */
  readonly variables: Readonly<Record<string, string | null>>;
  /** Written to both outputs after the cell. */
  readonly mark: string;
}

/** Options of {@link createEvaluator}. */
export interface EvaluatorOptions {
  /** Cells are TypeScript: types are taken away before they run. */
  readonly typescript: boolean;
  /** Its first number is 1 while a cell runs. */
  readonly shared: Int32Array;
  /** Takes events for the service. */
  readonly send: (event: unknown) => void;
}

/** Runs cells in this thread. */
export interface Evaluator {
  /** Runs one; never rejects. */
  run(cell: CellRequest): Promise<void>;
  /** Tells that what runs was stopped from outside: the cell will not say so itself. */
  interrupted(): void;
}

/** How the values of cells come out of the engine. Symbols cannot be found by accident. */
const TAKE = "code-interpreter.take";
const GROUP = "cell";

class Interrupted extends Error {
  override readonly name = "Interrupted";

  constructor() {
    super("the execution was interrupted");
  }
}

/**
 * Makes an evaluator. Cells run in the engine's own notebook mode, as in a browser's console: `await` everywhere, `const`
 * that can be declared again, and the value of the last statement.
 */
export function createEvaluator({ typescript, shared, send }: EvaluatorOptions): Evaluator {
  const session = new Session();
  session.connect();
  let taken: unknown;
  Object.defineProperty(globalThis, Symbol.for(TAKE), { value: (value: unknown) => (taken = value) });
  defineGlobals((value) => send({ type: "result", ...formsOf(value), is_main_result: false }));
  let stop: (() => void) | undefined;

  const evaluate = (expression: string): Promise<Runtime.EvaluateReturnType> =>
    new Promise((resolve, reject) => {
      session.post(
        "Runtime.evaluate",
        { expression, replMode: true, objectGroup: GROUP, silent: true } as Runtime.EvaluateParameterType,
        (error, result) => {
          // The engine says no more than that the command failed when it was stopped.
          if (error === null) resolve(result);
          else reject(new Interrupted());
        },
      );
    });
  /** The value itself, of which the engine hands out a description. */
  const valueOf = (remote: Runtime.RemoteObject): unknown => {
    if (remote.objectId === undefined) {
      if (remote.unserializableValue === undefined) return remote.value as unknown;
      return unserializable(remote.unserializableValue);
    }
    const functionDeclaration = `function () { "use strict"; globalThis[Symbol.for(${JSON.stringify(TAKE)})](this); }`;
    session.post("Runtime.callFunctionOn", { objectId: remote.objectId, functionDeclaration, silent: true });
    const value = taken;
    taken = undefined;
    return value;
  };
  const interruption = (): Promise<never> =>
    new Promise((_resolve, reject) => {
      stop = () => reject(new Interrupted());
    });

  const runCode = async (code: string, count: number): Promise<void> => {
    const plain = typescript ? stripTypeScriptTypes(code, { mode: "transform" }) : code;
    const expression = `${translateImports(plain)}\n//# sourceURL=cell_${count}.${typescript ? "ts" : "js"}`;
    const { result, exceptionDetails } = await Promise.race([evaluate(expression), interruption()]);
    if (exceptionDetails !== undefined) throw valueOf(exceptionDetails.exception ?? result);
    const value = valueOf(result);
    if (value !== undefined) send({ type: "result", ...formsOf(value), is_main_result: true });
  };

  return {
    run: async ({ code, count, globals, variables, mark }) => {
      applyVariables(globals);
      const before = applyVariables(variables);
      Atomics.store(shared, 0, 1);
      try {
        await runCode(code, count);
      } catch (error) {
        send({ type: "error", ...describe(error) });
      }
      Atomics.store(shared, 0, 0);
      stop = undefined;
      session.post("Runtime.releaseObjectGroup", { objectGroup: GROUP });
      applyVariables(before);
      for (const descriptor of [1, 2]) {
        try {
          writeSync(descriptor, mark);
        } catch {
          // The code closed it.
        }
      }
      send({ type: "done" });
    },
    interrupted: () => stop?.(),
  };
}

/** Sets variables and returns what they were before. */
function applyVariables(variables: Readonly<Record<string, string | null>>): Record<string, string | null> {
  const before: Record<string, string | null> = {};
  for (const [name, value] of Object.entries(variables)) {
    before[name] = process.env[name] ?? null;
    if (value === null) delete process.env[name];
    else process.env[name] = value;
  }
  return before;
}

function unserializable(text: string): unknown {
  if (text.endsWith("n")) return BigInt(text.slice(0, -1));
  return Number(text);
}

/** Name, value and stack of what was thrown. Code may have put anything in their places. */
function describe(error: unknown): { name: string; value: string; traceback: string } {
  if (!(error instanceof Error)) {
    const text = textOf(error);
    return { name: "Error", value: text, traceback: `Uncaught ${text}` };
  }
  const [name, value, stack] = [error.name, error.message, error.stack ?? ""].map(textOf);
  return { name: name ?? "", value: value ?? "", traceback: ownFramesCut(stack || `${name}: ${value}`) };
}

/** The stack down to the last frame of the cell. */
function ownFramesCut(stack: string): string {
  const lines = stack.split("\n");
  const own = lines.findIndex((line) => /^\s+at .*Session\.post \(node:inspector/.test(line));
  return (own === -1 ? lines : lines.slice(0, own)).join("\n");
}
