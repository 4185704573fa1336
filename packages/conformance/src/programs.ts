import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The built programs under test. */
export interface Programs {
  readonly sandboxE2b: string;
  readonly envdProxy: string;
  readonly apiserverShim: string;
}

/** Finds the built programs. Throws an error that says what to run when one is missing; `lazily` only when it is used. */
export function findPrograms({ lazily = false }: { lazily?: boolean } = {}): Programs {
  const at = (app: string): string => {
    const path = fileURLToPath(new URL(`../../../apps/${app}/dist/main.js`, import.meta.url));
    if (!existsSync(path)) {
      throw new Error(`apps/${app} is not built: run \`pnpm build\` at the top of the repository, then repeat`);
    }
    return path;
  };
  if (!lazily) {
    at("sandbox-e2b");
  }
  return {
    get sandboxE2b() {
      return at("sandbox-e2b");
    },
    // Only the rows of the mesh need it.
    get envdProxy() {
      return at("envd-proxy");
    },
    // Only the suites of Kubernetes need it.
    get apiserverShim() {
      return at("apiserver-shim");
    },
  };
}

/**
 * The environment for a child: paths and locale of ours, and nothing else. A developer's own `E2B_*` variables or flag
 * variables must not reach the programs under test.
 */
export function cleanEnv(extra: Readonly<Record<string, string>> = {}): Record<string, string> {
  const env: Record<string, string> = {};
  for (const name of ["PATH", "HOME", "USER", "LANG", "TMPDIR", "TERM", "SSL_CERT_FILE"]) {
    const value = process.env[name];
    if (value !== undefined) {
      env[name] = value;
    }
  }
  return { ...env, ...extra };
}
