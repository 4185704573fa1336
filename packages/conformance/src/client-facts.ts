import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import type { ClientId } from "./catalogue.ts";

/** A client as it is published, and how this package runs it. */
export interface ClientFacts {
  readonly id: ClientId | "cli-2.19";
  /** Head of its column on pages. */
  readonly title: string;
  /** Registry and name of the package. */
  readonly published: string;
  /** The version under test; `newest` is whatever the index has. */
  readonly version: string;
  /** Folder in `node_modules`, for what npm installs. */
  readonly module?: string;
  /** Environment of {@link pythonEnv}, for what pip installs. */
  readonly environment?: string;
  /** Part of the quick run. */
  readonly quick: boolean;
}

/** Version of the code interpreter's Python client, which is installed with the SDK of its day. */
export const PYTHON_INTERPRETER = { client: "2.11.5", sdk: "2.63.0" } as const;

/** Every client, in the order of pages and tables. */
export const CLIENTS: readonly ClientFacts[] = [
  { id: "js-2.51", title: "JS 2.51", published: "npm `e2b`", version: "2.51.0", module: "e2b-2.51", quick: true },
  { id: "js-2.50", title: "JS 2.50", published: "npm `e2b`", version: "2.50.0", module: "e2b-2.50", quick: true },
  {
    id: "py-2.51",
    title: "Python 2.51",
    published: "PyPI `e2b`, `Sandbox`",
    version: "2.51.0",
    environment: "2.51.0",
    quick: true,
  },
  {
    id: "py-2.51-async",
    title: "Python 2.51 async",
    published: "PyPI `e2b`, `AsyncSandbox`",
    version: "2.51.0",
    environment: "2.51.0",
    quick: false,
  },
  {
    id: "py-newest",
    title: "Python newest",
    published: "PyPI `e2b`, `Sandbox`",
    version: "newest",
    environment: "newest",
    quick: false,
  },
  { id: "cli-2.19", title: "CLI", published: "npm `@e2b/cli`", version: "2.19.0", module: "@e2b/cli", quick: true },
  {
    id: "js-ci-2.8",
    title: "JS interpreter",
    published: "npm `@e2b/code-interpreter`",
    version: "2.8.0",
    module: "@e2b/code-interpreter",
    quick: true,
  },
  {
    id: "py-ci-2.11",
    title: "Python interpreter",
    published: "PyPI `e2b-code-interpreter`",
    version: PYTHON_INTERPRETER.client,
    environment: "code-interpreter",
    quick: true,
  },
];

/** The facts of a client. Throws for one that is not in {@link CLIENTS}. */
export function clientFacts(id: string): ClientFacts {
  const facts = CLIENTS.find((client) => client.id === id);
  if (facts === undefined) {
    throw new Error(`unknown client ${id}: want ${CLIENTS.map((client) => client.id).join(", ")}`);
  }
  return facts;
}

/** The version that npm installed beside this package. */
export async function installedModuleVersion(module: string): Promise<string> {
  const manifest = fileURLToPath(new URL(`../node_modules/${module}/package.json`, import.meta.url));
  return (JSON.parse(await readFile(manifest, "utf8")) as { version: string }).version;
}
