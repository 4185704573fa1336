import { createRequire } from "node:module";
import { join } from "node:path";
import { constants, Script } from "node:vm";

/** Name of the function that stands for `import` in cells. */
export const IMPORT = "__importModule";

/** Gives cells what they find in other notebooks: `require`, `display`, and `import` out of their directory. */
export function defineGlobals(display: (value: unknown) => void): void {
  const file = join(process.cwd(), "cell.mjs");
  // The engine's notebook mode has no `import` of its own. One in a script with a file name looks from there on.
  const script = new Script("(name, options) => import(name, options)", {
    filename: file,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  const load = script.runInThisContext() as (name: string, options?: unknown) => Promise<unknown>;
  define("require", createRequire(file));
  define("display", (...values: readonly unknown[]) => {
    for (const value of values) display(value);
  });
  define(IMPORT, (name: unknown, options?: unknown) => load(plainName(String(name)), options));
}

function define(name: string, value: unknown): void {
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
}

/** `npm:name@version` is how other kernels say that they fetch a package; here it is the installed one. */
function plainName(name: string): string {
  const match = /^npm:((?:@[^/@]+\/)?[^/@]+)(?:@[^/]*)?(\/.*)?$/.exec(name);
  return match === null ? name : `${match[1]}${match[2] ?? ""}`;
}
