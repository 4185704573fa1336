import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";

import type { HarnessRow } from "../../src/harness-rows.ts";
import { cleanEnv, type Programs } from "../../src/programs.ts";
import { argsOf, type Chart, WITH_E2B } from "./chart.ts";

const call = promisify(execFile);

/** Every value that adds a flag. */
const EVERYTHING: Readonly<Record<string, string>> = {
  ...WITH_E2B,
  "apiserver.sandboxdToken.secretName": "node-token",
  "apiserver.e2b.envdVersion": "0.6.2",
  "apiserver.e2b.defaultTimeoutSeconds": "120",
  "apiserver.e2b.templateAliases": "base python:3.12",
  "apiserver.e2b.builds.enabled": "true",
  "envdProxy.tlsSecretName": "wildcard",
};

/** KC13: what the chart gives to the programs they take. */
export function chartProgramRow(chart: Chart, programs: Programs): HarnessRow {
  return {
    id: "KC13",
    title: "the programs take every flag that the chart gives, with the values it gives",
    run: async () => {
      for (const values of [{}, EVERYTHING]) {
        const rendered = await chart.render(values);
        const started = Object.entries({
          "sandbox-apiserver": programs.apiserverShim,
          "sandbox-envd-proxy": programs.envdProxy,
        }).filter(([deployment]) => rendered.has(`Deployment ${deployment}`));
        assert.equal(started.length, values === EVERYTHING ? 2 : 1);
        await Promise.all(started.map(([deployment, program]) => takes(program, argsOf(rendered, deployment))));
      }
    },
  };
}

async function takes(program: string, args: readonly string[]): Promise<void> {
  const options = { env: cleanEnv(), timeout: 60_000 };
  const { stdout } = await call(process.execPath, [program, ...args, "--print-config"], options);
  const { flags } = JSON.parse(stdout) as { readonly flags: Record<string, { readonly from: string }> };
  const taken = Object.keys(flags).filter((name) => flags[name]?.from === "flag");
  const given = args.map((arg) => arg.slice(2).replace(/=.*/, ""));
  assert.deepEqual(taken.toSorted(), given.toSorted());
}
