/**
 * The code interpreter of E2B's SDKs for sandboxes that have nothing but `python3` and Node: a template whose guests
 * run cells of Python, JavaScript and TypeScript. What is exported here names that template; the service and the kernels
 * are built into it and run inside guests.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * Folder with the files that guests of the template start with: the service, the kernels, and the boot document that
 * starts them. The node must have Node at `/opt/sandbox/node` in its guests, as development nodes do.
 *
 * @throws Error when the package is not built
 */
export function templateFolder(): string {
  const folder = fileURLToPath(new URL("../dist/template", import.meta.url));
  if (!existsSync(folder)) {
    throw new Error("the template dist/template is missing: build @org/code-interpreter first");
  }
  return folder;
}
