import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { Agent, request } from "undici";

import { callApi, callProxy, createSandbox, type Created, runInGuest } from "../src/api.ts";
import { type HarnessRow, SkipRow } from "../src/harness-rows.ts";
import { controlGroups, descendants, mountsUnder, type ProcessTrace, stillRunning } from "../src/host-traces.ts";
import { waitFor } from "../src/polling.ts";
import type { ProcessSet } from "../src/processes.ts";
import type { Programs } from "../src/programs.ts";
import { type DevOptions, type Rig, startDev } from "../src/rig.ts";

interface Traces {
  readonly processes: readonly ProcessTrace[];
  readonly groups: readonly string[];
  readonly stateDir: string;
}

/** What a rig has on the host: its processes, and the control groups named after its runs. */
const traces = async (rig: Rig): Promise<Traces> => {
  const runs = await readdir(join(rig.stateDir, "runs"));
  assert.ok(runs.length > 0, "the state folder has a run");
  return {
    processes: await descendants(rig.front.pid),
    groups: [...(await controlGroups())].filter((group) => runs.some((run) => group.includes(run))),
    stateDir: rig.stateDir,
  };
};

const assertGone = async (left: Traces, afterMs: number): Promise<void> => {
  await delay(afterMs);
  const alive = await stillRunning(left.processes);
  assert.deepEqual(
    alive.map((trace) => `${trace.pid} ${trace.command}`),
    [],
    "processes that still run",
  );
  assert.deepEqual(await mountsUnder(left.stateDir), [], "mounts that are left");
  const groups = await controlGroups();
  assert.deepEqual(
    left.groups.filter((group) => groups.has(group)),
    [],
    "control groups that are left",
  );
};

const connectFrame = (command: string): Buffer => {
  const message = Buffer.from(
    JSON.stringify({ process: { cmd: "/bin/bash", args: ["-l", "-c", command] }, stdin: false }),
  );
  const frame = Buffer.concat([Buffer.alloc(5), message]);
  frame.writeUInt32BE(message.length, 1);
  return frame;
};

/** Opens a stream of a command that goes on, and reads it to its end whatever that is. */
const openStream = (rig: Rig, sandbox: Created): { started: Promise<void>; ended: Promise<void> } => {
  const streaming = request(`${rig.facts.proxyUrl}/process.Process/Start`, {
    method: "POST",
    headersTimeout: 0,
    bodyTimeout: 0,
    headers: {
      "content-type": "application/connect+json",
      "connect-protocol-version": "1",
      "e2b-sandbox-id": sandbox.sandboxID,
      "e2b-sandbox-port": "49983",
      "x-access-token": sandbox.envdAccessToken ?? "",
    },
    body: connectFrame("while true; do echo tick; sleep 0.2; done"),
  });
  return {
    started: streaming.then((response) => assert.equal(response.statusCode, 200)),
    ended: streaming
      .then((response) => response.body.dump({ limit: 1 << 30 }))
      .then(
        () => undefined,
        () => undefined,
      ),
  };
};

/** What is left when `sandbox-e2b dev` ends: by SIGTERM, by SIGINT and by a kill it cannot see coming. */
export function teardownRows(
  set: ProcessSet,
  programs: Programs,
  isolation: string | undefined,
): readonly HarnessRow[] {
  const dev = (over: Partial<DevOptions> = {}): Promise<Rig> =>
    startDev(set, programs, { mode: "secret", nodes: 1, warm: 2, warmEgress: 0, isolation, ...over });
  const onLinux = (): void => {
    if (process.platform !== "linux") {
      throw new SkipRow("reads /proc: run it on Linux");
    }
  };
  return [
    {
      id: "K1",
      title: "kill -9 of dev with a running and a paused guest leaves no process, mount or control group",
      run: async () => {
        onLinux();
        const rig = await dev();
        try {
          const [running, paused] = [await createSandbox(rig.facts), await createSandbox(rig.facts)];
          await runInGuest(rig.facts, running, "sleep 300 >/dev/null 2>&1 & setsid sleep 301 >/dev/null 2>&1 & true");
          await runInGuest(rig.facts, paused, "sleep 302 >/dev/null 2>&1 & true");
          const pause = await callApi(rig.facts, "POST", `/sandboxes/${paused.sandboxID}/pause`, { body: {} });
          assert.equal(pause.status, 204, pause.text);
          const left = await traces(rig);
          assert.ok(left.processes.length > 0, "guests are processes below dev");
          rig.front.signal("SIGKILL");
          await rig.front.ended;
          await assertGone(left, 5_000);
        } finally {
          await rig.stop();
        }
      },
    },
    {
      id: "K2",
      title: "SIGTERM with an open stream drains and exits 0 within 12 s, leaving nothing",
      run: async () => {
        onLinux();
        const rig = await dev();
        try {
          const sandbox = await createSandbox(rig.facts);
          const stream = openStream(rig, sandbox);
          await stream.started;
          const left = await traces(rig);
          const begun = performance.now();
          rig.front.signal("SIGTERM");
          const end = await Promise.race([rig.front.ended, delay(20_000)]);
          const took = Math.round(performance.now() - begun);
          assert.ok(end !== undefined, "it did not exit within 20 s");
          assert.deepEqual(end, { code: 0, signal: null }, rig.front.tail());
          assert.ok(took <= 12_000, `it took ${took} ms`);
          await stream.ended;
          await assertGone(left, 500);
        } finally {
          await rig.stop();
        }
      },
    },
    {
      id: "F2",
      title: "creates in flight at SIGTERM are answered, new connections refused, exit within 12 s",
      run: async () => {
        const rig = await dev({ warm: 1, extraFlags: ["--refill-delay=30s"] });
        const agent = new Agent({ connections: 6, pipelining: 1 });
        try {
          const create = async (): Promise<number> => {
            const response = await request(`${rig.facts.apiUrl}/v2/sandboxes`, {
              method: "POST",
              dispatcher: agent,
              headers: { "x-api-key": rig.facts.keys.one, "content-type": "application/json" },
              body: JSON.stringify({ templateID: "base", timeout: 60 }),
            });
            await response.body.dump();
            return response.statusCode;
          };
          // Opens the connections first, so that the signal meets requests and not connection attempts.
          await Promise.all(
            Array.from({ length: 6 }, async () => {
              const response = await request(`${rig.facts.apiUrl}/health`, { dispatcher: agent });
              await response.body.dump();
            }),
          );
          const inFlight = Promise.all(Array.from({ length: 6 }, create));
          await delay(20);
          const begun = performance.now();
          rig.front.signal("SIGTERM");
          const statuses = await inFlight;
          assert.deepEqual(
            statuses.filter((status) => status !== 201),
            [],
            `answered ${statuses.join(" ")}`,
          );
          await assert.rejects(
            callProxy(rig.facts.apiUrl, "GET", "/health", {}),
            /ECONNREFUSED|ECONNRESET|other side closed/,
          );
          const end = await rig.front.ended;
          assert.deepEqual(end, { code: 0, signal: null }, rig.front.tail());
          assert.ok(performance.now() - begun <= 12_000, "exit within 12 s");
        } finally {
          await agent.close();
          await rig.stop();
        }
      },
    },
    {
      id: "K3",
      title: "a start after kill -9 sweeps the folder of the last run and works",
      run: async () => {
        const first = await dev();
        const flags = [`--state-dir=${first.stateDir}`];
        try {
          await createSandbox(first.facts);
          first.front.signal("SIGKILL");
          await first.front.ended;
          const second = await dev({ extraFlags: flags });
          try {
            const sandbox = await createSandbox(second.facts);
            assert.equal(await runInGuest(second.facts, sandbox, "echo again"), "again\n");
            const list = await callApi(second.facts, "GET", "/v2/sandboxes");
            assert.equal((JSON.parse(list.text) as unknown[]).length, 1, "sandboxes of the last run are gone");
          } finally {
            await second.stop();
          }
        } finally {
          await first.stop();
        }
      },
    },
    {
      id: "K4",
      title: "killed sandboxes leave no process, mount, control group or files while dev runs on",
      run: async () => {
        onLinux();
        const rig = await dev();
        try {
          const known = new Set((await descendants(rig.front.pid)).map((trace) => trace.pid));
          const made = await Promise.all([
            createSandbox(rig.facts),
            createSandbox(rig.facts),
            createSandbox(rig.facts),
          ]);
          await Promise.all(
            made.map((sandbox) => runInGuest(rig.facts, sandbox, "setsid sleep 300 >/dev/null 2>&1 & true")),
          );
          for (const sandbox of made) {
            assert.equal((await callApi(rig.facts, "DELETE", `/sandboxes/${sandbox.sandboxID}`)).status, 204);
          }
          await waitFor(
            "an end of all processes of killed sandboxes",
            async () => {
              const now = await descendants(rig.front.pid);
              const sleeping = now.filter((trace) => trace.command.includes("sleep 300"));
              return sleeping.length === 0 && now.length <= known.size + 2;
            },
            10_000,
          );
          const own = made.map((sandbox) => sandbox.sandboxID.replace("sb-", "sb_"));
          await waitFor(
            "an end of their control groups",
            async () => ![...(await controlGroups())].some((group) => own.some((id) => group.includes(id))),
            10_000,
          );
          await waitFor(
            "an end of their mounts",
            async () => !(await mountsUnder(rig.stateDir)).some((point) => own.some((id) => point.includes(id))),
            10_000,
          );
        } finally {
          await rig.stop();
        }
      },
    },
  ];
}
