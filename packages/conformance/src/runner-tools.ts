import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { SkipRow } from "./harness-rows.ts";

const TOOLS = fileURLToPath(new URL("../.state/runner-tools", import.meta.url));

/** Programs and files that `scripts/ci-setup --all` brings. */
export const RUNNER_TOOLS: Readonly<Record<"connect" | "protos" | "h2spec", string>> = {
  /** Connect's runner. */
  connect: `${TOOLS}/bin/connectconformance`,
  /** The schemas of the service that it calls. */
  protos: `${TOOLS}/connect-proto`,
  h2spec: `${TOOLS}/bin/h2spec`,
};

/** Skips the row when a tool is not there, and says what brings it. */
export function needTool(path: string): string {
  if (!existsSync(path)) {
    throw new SkipRow(`${path.slice(TOOLS.length + 1)} is absent: run scripts/ci-setup --all, which needs Go 1.24`);
  }
  return path;
}
