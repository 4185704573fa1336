import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { nodeClient } from "./node-client.ts";
import type { NodeTargetOptions } from "./node-target.ts";
import { waitFor } from "./polling.ts";
import { freePorts } from "./ports.ts";
import type { ManagedProcess, ProcessSet } from "./processes.ts";
import { cleanEnv, type Programs } from "./programs.ts";
import { IMAGE } from "./rig.ts";

const ROOT = "conformance-root-token";
const TENANT = "conformance-tenant-token";
/** Few enough to be filled by a row. */
const MAX_CLAIMS = 2;

/** Nodes in processes of their own on which every row of the checklist can run. */
export interface NodeRig extends AsyncDisposable {
  readonly target: NodeTargetOptions;
}

/**
 * Starts four `sandbox-e2b dev-node` processes: two that know each other, one with a limit and without an egress lane
 * that knows both, and one that asks for no token.
 */
export async function startNodeRig(
  set: ProcessSet,
  programs: Programs,
  isolation: string | undefined,
): Promise<NodeRig> {
  const dir = await mkdtemp(join(tmpdir(), "conformance-node-"));
  const started: ManagedProcess[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(started.map((child) => child.stop()));
    await rm(dir, { recursive: true, force: true });
  };
  try {
    const [a = 0, b = 0, limited = 0, open = 0] = await freePorts(4);
    const tokenFile = join(dir, "token");
    const tenantFile = join(dir, "tenants");
    await writeFile(tokenFile, `${ROOT}\n`, { mode: 0o600 });
    await writeFile(tenantFile, `acme ${TENANT}\n`, { mode: 0o600 });
    const secrets = [`--token-file=${tokenFile}`, `--tenant-file=${tenantFile}`];
    const node = async (name: string, port: number, flags: readonly string[]): Promise<string | undefined> => {
      const stateDir = join(dir, name);
      await mkdir(stateDir, { mode: 0o700 });
      const child = await set.start({
        name: `dev-node ${name}`,
        command: process.execPath,
        args: [
          programs.sandboxE2b,
          "dev-node",
          `--listen=127.0.0.1:${port}`,
          `--state-dir=${stateDir}`,
          `--isolation=${isolation ?? "auto"}`,
          ...flags,
        ],
        env: cleanEnv({ OPERATOR_LOG_LEVEL: "info" }),
      });
      started.push(child);
      return (await child.waitForOutput(/development node up address=\S+ isolation=(\w+)/, 30_000))[1];
    };
    const address = (port: number): string => `127.0.0.1:${port}`;
    const [kept] = await Promise.all([
      node("a", a, [...secrets, `--peers=${address(b)}`, `--pool=${IMAGE}=2`]),
      node("b", b, [...secrets, `--peers=${address(a)}`, `--pool=${IMAGE}=2`]),
      node("limited", limited, [
        ...secrets,
        `--peers=${address(a)},${address(b)}`,
        `--max-claims=${MAX_CLAIMS}`,
        "--egress=false",
      ]),
      node("open", open, ["--open"]),
    ]);
    for (const [one, count] of [
      [a, 1],
      [b, 1],
      [limited, 2],
    ] as const) {
      await membersKnown(address(one), count);
    }
    return {
      target: {
        url: `http://${address(a)}`,
        peerUrls: [address(b)],
        token: ROOT,
        tenantToken: TENANT,
        template: IMAGE,
        limited: { url: address(limited), maxClaims: MAX_CLAIMS },
        openUrl: address(open),
        withoutEgressUrl: address(limited),
        keepPools: false,
        sharedPorts: kept === "process",
      },
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Waits until a node has heard from its peers. */
async function membersKnown(address: string, count: number): Promise<void> {
  await using client = nodeClient(address, ROOT);
  await waitFor(
    `${count} members at ${address}`,
    async () => {
      const { peers } = (await client.call("GET", "/v1/info")).json();
      return Array.isArray(peers) && peers.length === count;
    },
    15_000,
  );
}
