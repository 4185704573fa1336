import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { sweepState, type FreezerKind, type Isolation } from "./index.ts";
import { processStart, processesWith, processTree } from "./host/proc.ts";
import { nodeApi, runInGuest } from "./testing/api.ts";
import { ensureGuestBundle } from "./testing/guest-bundle.ts";
import { startNodeProcess } from "./testing/node-process.ts";
import { temporaryFolder } from "./testing/temporary-folder.ts";

beforeAll(ensureGuestBundle, 60_000);

const TOKEN = "root";

/** Polls until `check` holds. What takes longer than `limitMs` has not happened. */
async function eventually(check: () => boolean, limitMs: number): Promise<boolean> {
  for (const end = Date.now() + limitMs; Date.now() < end;) {
    if (check()) {
      return true;
    }
    await sleep(20);
  }
  return check();
}

function groupOf(stateDir: string): string | undefined {
  const [run = ""] = readdirSync(join(stateDir, "runs"));
  return (JSON.parse(readFileSync(join(stateDir, "runs", run, "lock"), "utf8")) as { group?: string }).group;
}

interface Row {
  readonly isolation: Isolation | "auto";
  readonly freezer: FreezerKind;
}

/** Freezers this machine may lack are tried all the same: a node without them falls back, which the test sees. */
const rows: readonly Row[] = [
  { isolation: "auto", freezer: "v2" },
  { isolation: "auto", freezer: "v1" },
  { isolation: "auto", freezer: "signals" },
  { isolation: "bubblewrap", freezer: "signals" },
  { isolation: "process", freezer: "signals" },
];

describe.each(rows)(
  "a node with isolation $isolation whose guests are frozen by $freezer",
  ({ isolation, freezer }) => {
    test.skipIf(process.platform !== "linux")(
      "leaves nothing behind when it is killed",
      async (context) => {
        await using state = temporaryFolder();
        await using node = await startNodeProcess({
          stateDir: state.path,
          token: TOKEN,
          isolation,
          freezers: [freezer],
          pools: [{ template: "base", warm: 3 }],
        });
        if (node.freezer !== freezer) {
          context.skip(`this machine has no writable ${freezer} freezer`);
        }
        const api = nodeApi(node.address, TOKEN);
        const [running, paused] = [await api.claim(), await api.claim()];
        for (const sandbox of [running, paused]) {
          await runInGuest(
            api,
            sandbox,
            "setsid sleep 1000 >/dev/null 2>&1 & (trap '' TERM HUP; sleep 1000) >/dev/null 2>&1 & true",
          );
        }
        expect((await api.call("POST", `/v1/sandboxes/${paused.id}/hibernate`)).status).toBe(204);
        const group = groupOf(state.path);
        expect(group !== undefined && existsSync(group)).toBe(freezer !== "signals");
        const strays = [running, paused].flatMap(({ id }) => processesWith(`E2B_SANDBOX_ID=${id}`));
        const pids = [...new Set([...processTree(node.pid).slice(1), ...strays])];
        expect(pids.length).toBeGreaterThan(5);
        const started = new Map(pids.map((pid) => [pid, processStart(pid)]));

        await node.crash();

        const gone = await eventually(
          () =>
            pids.every((pid) => processStart(pid) === undefined || processStart(pid) !== started.get(pid)) &&
            readdirSync(join(state.path, "runs")).length === 0 &&
            (group === undefined || !existsSync(group)),
          5000,
        );
        const left = pids.filter((pid) => processStart(pid) === started.get(pid) && started.get(pid) !== undefined);
        expect({ gone, left, runs: readdirSync(join(state.path, "runs")) }).toEqual({ gone: true, left: [], runs: [] });
      },
      60_000,
    );

    test.skipIf(process.platform !== "linux")(
      "is swept by the next start when its keeper was killed, too",
      async (context) => {
        await using state = temporaryFolder();
        await using neighbour = await startNodeProcess({ stateDir: state.path, token: TOKEN, freezers: [freezer] });
        await using node = await startNodeProcess({
          stateDir: state.path,
          token: TOKEN,
          isolation,
          freezers: [freezer],
          pools: [{ template: "base", warm: 1 }],
        });
        if (node.freezer !== freezer) {
          context.skip(`this machine has no writable ${freezer} freezer`);
        }
        const api = nodeApi(node.address, TOKEN);
        const sandbox = await api.claim();
        await runInGuest(api, sandbox, "setsid sleep 1000 >/dev/null 2>&1 & true");
        await api.call("POST", `/v1/sandboxes/${sandbox.id}/hibernate`);
        const strays = processesWith(`E2B_SANDBOX_ID=${sandbox.id}`);
        const tree = [...new Set([...processTree(node.pid).slice(1), ...strays])];
        const keeper = tree.find((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("devnode-keeper"));
        expect(keeper).toBeDefined();
        process.kill(keeper ?? 0, "SIGKILL");

        await node.crash();

        expect(await sweepState(state.path)).toBe(1);
        expect(await eventually(() => tree.every((pid) => processStart(pid) === undefined), 5000)).toBe(true);
        // The other node lives and keeps its folder.
        expect(readdirSync(join(state.path, "runs"))).toHaveLength(1);
        expect((await nodeApi(neighbour.address, TOKEN).info()).claimed).toBe(0);
      },
      60_000,
    );
  },
);
