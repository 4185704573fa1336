import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { callApi, createSandbox, killSandbox } from "../src/api.ts";
import type { HarnessRow } from "../src/harness-rows.ts";
import { nodeAdmin } from "../src/node-admin.ts";
import type { RigFacts } from "../src/rig.ts";

/** How the rows run the CLI. */
export interface CliRunner {
  readonly rig: RigFacts;
  readonly cli: (args: readonly string[]) => Promise<{ readonly code: number | null; out: string; err: string }>;
  /** Output of a run that must end well. */
  readonly ok: (args: readonly string[]) => Promise<string>;
  readonly json: (args: readonly string[]) => Promise<unknown>;
}

/** Rows of the CLI's template commands. */
export function cliTemplateRows({ rig, cli, ok, json }: CliRunner): readonly HarnessRow[] {
  /** Makes a template as a build does. */
  const promote = async (name: string): Promise<void> => {
    const { sandboxID } = await createSandbox(rig);
    const claim = sandboxID.replace(/^sb-/, "sb_");
    for (const address of rig.nodeAddresses) {
      const node = nodeAdmin(address, rig.nodeToken);
      if ((await node.sandbox(claim).catch(() => undefined)) !== undefined) {
        await node.promote(claim, `e2b/ns1/${name}`);
      }
    }
    await killSandbox(rig, sandboxID);
    await delay(rig.pollMs + 300);
  };

  return [
    {
      id: "C6",
      title: "template list, pretty and JSON, with valid dates",
      run: async () => {
        const list = (await json(["template", "list", "-f", "json"])) as { templateID: string; createdAt: string }[];
        const entry = list.find((item) => item.templateID === rig.image);
        assert.ok(!Number.isNaN(Date.parse(entry?.createdAt ?? "")), "createdAt");
        const pretty = await ok(["template", "list"]);
        assert.ok(pretty.includes(rig.image), pretty);
        assert.doesNotMatch(pretty, /Invalid Date/);
      },
    },
    {
      id: "C7",
      title: "template publish of a pool image: exit 1 with [404]",
      run: async () => {
        const done = await cli(["template", "publish", "-y", rig.image]);
        assert.equal(done.code, 1, done.out);
        assert.match(done.out + done.err, /\[404\]/);
      },
    },
    {
      id: "C7a",
      title: "a built template is listed, published, unpublished and deleted",
      run: async () => {
        await promote("cli-built");
        const list = (await json(["template", "list", "-f", "json"])) as { templateID: string; createdAt: string }[];
        const entry = list.find((item) => item.templateID === "cli-built");
        assert.ok(Date.parse(entry?.createdAt ?? "") > Date.now() - 60_000, entry?.createdAt);
        await ok(["template", "publish", "-y", "cli-built"]);
        await ok(["template", "unpublish", "-y", "cli-built"]);
        await ok(["template", "delete", "-y", "cli-built"]);
        assert.equal((await callApi(rig, "GET", "/templates/cli-built")).status, 404);
        const again = await cli(["template", "delete", "-y", "cli-built"]);
        assert.equal(again.code, 1, again.out);
      },
    },
  ];
}
