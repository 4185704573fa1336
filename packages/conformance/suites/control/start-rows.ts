import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";

import type { HarnessRow } from "../../src/harness-rows.ts";
import { freePorts } from "../../src/ports.ts";
import { cleanEnv } from "../../src/programs.ts";
import { frontFlags, IMAGE, RIG, type RigFiles, writeRigFiles } from "../../src/rig.ts";
import { pool, startScriptedNode } from "../../src/scripted-node.ts";
import type { ControlContext, HeldRows } from "./context.ts";

/** A start that must fail: what is wrong, its flags and the reason. The status is 2 where a flag's value alone is wrong. */
interface BadStart {
  readonly what: string;
  readonly flags: (dir: string) => Promise<readonly string[]> | readonly string[];
  readonly reason: RegExp;
}

const written = async (dir: string, name: string, text: string): Promise<string> => {
  const path = join(dir, name);
  await writeFile(path, text, { mode: 0o600 });
  return path;
};

const aliases = (what: string, text: string, reason: RegExp): BadStart => ({
  what,
  flags: async (dir) => [`--e2b-template-aliases=${await written(dir, "bad-aliases", text)}`],
  reason,
});

const ALIAS_FILES: readonly BadStart[] = [
  aliases("one field", "base\n", /line 1/),
  aliases("four fields", `base ${IMAGE} small what\n`, /line 1/),
  aliases("an unknown size", `base ${IMAGE} huge\n`, /huge/),
  aliases("an alias twice", `# first\nbase ${IMAGE}\nbase other:1\n`, /base/),
  {
    what: "a file that is not there",
    flags: (dir) => [`--e2b-template-aliases=${join(dir, "no-such-file")}`],
    reason: /no-such-file/,
  },
];

const STARTS: readonly BadStart[] = [
  { what: "no key and no anonymous use", flags: () => ["--e2b-api-key-file="], reason: /key/ },
  { what: "no domain", flags: () => ["--e2b-domain="], reason: /domain/ },
  { what: "a blank domain", flags: () => ["--e2b-domain=  "], reason: /domain/ },
  {
    what: "a key file that is not there",
    flags: (dir) => [`--e2b-api-key-file=${join(dir, "no-such-file")}`],
    reason: /no-such-file/,
  },
  {
    what: "a key with a stray field",
    flags: async (dir) => [`--e2b-api-key-file=${await written(dir, "bad-keys", "e2b_aa ns1 what\n")}`],
    reason: /what|line 1/,
  },
  {
    what: "a namespace that no name can carry",
    flags: async (dir) => [`--e2b-api-key-file=${await written(dir, "bad-keys", "e2b_aa a/b\n")}`],
    reason: /namespace/,
  },
  {
    what: "a secret file that is not there",
    flags: (dir) => [`--e2b-envd-secret-file=${join(dir, "no-such-file")}`],
    reason: /no-such-file/,
  },
  {
    what: "a blank secret file",
    flags: async (dir) => [`--e2b-envd-secret-file=${await written(dir, "blank", " \n")}`],
    reason: /blank|empty/,
  },
  {
    what: "builds without a secret",
    flags: () => ["--e2b-builds=true", "--e2b-envd-secret-file="],
    reason: /secret/,
  },
  { what: "builds without a slot", flags: () => ["--e2b-builds=true", "--e2b-build-parallel=0"], reason: /parallel/ },
  { what: "builds without time", flags: () => ["--e2b-builds=true", "--e2b-build-timeout=0s"], reason: /timeout/ },
  {
    what: "two upload stores",
    flags: (dir) => ["--e2b-builds=true", `--e2b-build-dir=${dir}/up`, "--e2b-build-store-s3-bucket=files"],
    reason: /two upload stores/,
  },
  {
    what: "an upload folder that cannot be",
    flags: async (dir) => ["--e2b-builds=true", `--e2b-build-dir=${join(await written(dir, "a-file", ""), "uploads")}`],
    reason: /--e2b-build-dir/,
  },
  { what: "no seed that answers", flags: () => ["--sandboxd-seeds=127.0.0.1:9"], reason: /no seed answered/ },
  {
    what: "a token file that is not there",
    flags: (dir) => [`--sandboxd-token-file=${join(dir, "no-such-file")}`],
    reason: /sandboxd: read token file/,
  },
  {
    what: "a token that the seed refuses",
    flags: async (dir) => [`--sandboxd-token-file=${await written(dir, "other-token", "not-the-token\n")}`],
    reason: /GET \/v1\/info needs the fleet root api_token/,
  },
  { what: "an unknown flag", flags: () => ["--no-such-flag=1"], reason: /no-such-flag/ },
  { what: "a value that is none", flags: () => ["--inventory-poll=soon"], reason: /inventory-poll/ },
];

/** A7 and F3: starts that must fail, over a node that is well. */
export function startRows({ set, programs }: ControlContext): HeldRows {
  const expectToFail = async (files: RigFiles, seed: string, { what, flags, reason }: BadStart): Promise<void> => {
    const dir = join(files.dir, what.replaceAll(/\W/g, "-"));
    await mkdir(dir);
    const changed = await flags(dir);
    const [api = 0, proxy = 0] = await freePorts(2);
    const names = new Set(changed.map((flag) => flag.split("=")[0]));
    const usual = [`--sandboxd-seeds=${seed}`, ...frontFlags(files, "secret", api, proxy, 500)];
    const child = await set.start({
      name: `start with ${what}`,
      command: process.execPath,
      args: [programs.sandboxE2b, ...usual.filter((flag) => !names.has(flag.split("=")[0])), ...changed],
      env: cleanEnv({ OPERATOR_LOG_LEVEL: "info" }),
    });
    const timer = setTimeout(() => child.signal("SIGKILL", true), 60_000);
    const end = await child.ended;
    clearTimeout(timer);
    assert.ok(end.code === 1 || end.code === 2, `${what}: exit ${end.code}: ${child.tail()}`);
    assert.match(child.stderr(), reason, what);
    assert.match(child.stderr(), /^sandbox-e2b: /m, `${what}: who says so`);
    assert.ok(!child.stderr().includes(RIG.nodeToken), `${what}: the node token is shown`);
  };
  const overNode = async (starts: readonly BadStart[], advertise?: string): Promise<void> => {
    const files = await writeRigFiles("starts");
    const [port = 0] = await freePorts(1);
    const node = await startScriptedNode(set, {
      name: "a",
      dir: join(files.dir, "node"),
      port,
      script: {
        advertise: advertise ?? `127.0.0.1:${port}`,
        peers: [],
        token: RIG.nodeToken,
        tenantTokens: [],
        pools: [pool(IMAGE, 1)],
        redirect: [],
        faults: [],
        reapMs: 1_000,
        zoneMinutes: 0,
        idleMs: 0,
      },
    });
    try {
      const waiting = starts.values();
      const worker = async (): Promise<void> => {
        for (const start of waiting) {
          await expectToFail(files, `127.0.0.1:${port}`, start);
        }
      };
      await Promise.all([worker(), worker(), worker()]);
    } finally {
      await node.process.stop(2_000);
      await rm(files.dir, { recursive: true, force: true });
    }
  };

  const rows: HarnessRow[] = [
    { id: "A7", title: "bad alias files stop the start, with the reason", run: () => overNode(ALIAS_FILES) },
    { id: "F3", title: "every other bad start ends at once, with its reason and status", run: () => overNode(STARTS) },
    {
      id: "F3-seed",
      title: "a seed that names no address of its own stops the start",
      run: () => overNode([{ what: "no address", flags: () => [], reason: /reports no advertise_addr/ }], ""),
    },
    {
      id: "F3-port",
      title: "addresses that are taken stop the start, and are named",
      run: async () => {
        const taken = createServer();
        taken.listen(0, "127.0.0.1");
        await once(taken, "listening");
        const { port } = taken.address() as AddressInfo;
        const at = `127.0.0.1:${port}`;
        try {
          await overNode(
            ["--e2b-bind-address", "--envd-proxy-bind-address"].map((flag) => ({
              what: flag,
              flags: () => [`${flag}=${at}`],
              reason: new RegExp(`${port}`),
            })),
          );
        } finally {
          taken.close();
        }
      },
    },
  ];
  return { rows, close: async () => undefined };
}
