import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { Sandbox } from "e2b-2.51";

import { callApi, callProxy, type Created, createSandbox, expectError, type Reply, runInGuest } from "../../src/api.ts";
import type { Front } from "../../src/front.ts";
import { buildFlags, type GuestMesh, noSandboxLeft } from "../../src/guest-mesh.ts";
import type { HarnessRow } from "../../src/harness-rows.ts";
import { waitFor } from "../../src/polling.ts";
import { poolsFull } from "../../src/rig.ts";
import { sdkOptions, send, verb } from "../faults/context.ts";
import { type ControlContext, type HeldRows, laneMesh } from "./context.ts";

const MINUTE_MS = 60_000;

/** A sandbox as its detail tells it. */
type Detail = Readonly<Record<string, unknown>>;

async function detail(front: Front, id: string): Promise<Detail> {
  const reply = await send(front, verb("get"), id);
  assert.equal(reply.status, 200, `get answered ${reply.status} ${reply.text}`);
  return JSON.parse(reply.text) as Detail;
}

/** One thing that clients do with a sandbox that another front has made a moment ago. */
interface Touch {
  readonly name: string;
  readonly run: (front: Front, made: Created) => Promise<void>;
}

const expect = async (reply: Promise<Reply>, status: number, what: string): Promise<Reply> => {
  const seen = await reply;
  assert.equal(seen.status, status, `${what} answered ${seen.status} ${seen.text.slice(0, 200)}`);
  return seen;
};

const VERBS: readonly Touch[] = ["get", "connect", "timeout", "refresh", "pause", "kill"].map((name) => ({
  name,
  run: async (front, { sandboxID }) => void (await expect(send(front, verb(name), sandboxID), verb(name).good, name)),
}));

const TOUCHES: readonly Touch[] = [
  ...VERBS,
  {
    name: "resume of a running one",
    run: async (front, { sandboxID }) =>
      void expectError(await send(front, verb("resume"), sandboxID), 409, "resume of a running one"),
  },
  {
    name: "logs",
    run: async (front, { sandboxID }) => {
      const old = await expect(callApi(front.facts, "GET", `/sandboxes/${sandboxID}/logs`), 200, "logs");
      assert.deepEqual(Object.keys(JSON.parse(old.text) as object).toSorted(), ["logEntries", "logs"]);
      await expect(callApi(front.facts, "GET", `/v2/sandboxes/${sandboxID}/logs`), 200, "the second version of logs");
    },
  },
  {
    name: "metrics",
    run: async (front, { sandboxID }) => {
      const reply = await expect(callApi(front.facts, "GET", `/sandboxes/${sandboxID}/metrics`), 200, "metrics");
      assert.equal((JSON.parse(reply.text) as unknown[]).length, 1, "samples");
    },
  },
  {
    name: "fork",
    run: async (front, { sandboxID }) => {
      const path = `/sandboxes/${sandboxID}/fork`;
      const reply = await expect(callApi(front.facts, "POST", path, { body: { count: 1, timeout: 60 } }), 201, "fork");
      const [child] = JSON.parse(reply.text) as { sandbox: Created }[];
      assert.ok(child !== undefined);
      assert.equal(await runInGuest(front.facts, child.sandbox, "echo child"), "child\n");
      await expect(send(front, verb("kill"), child.sandbox.sandboxID), 204, "kill of the child");
    },
  },
  {
    name: "snapshot",
    run: async (front, { sandboxID }) => {
      const path = `/sandboxes/${sandboxID}/snapshots`;
      const reply = await expect(callApi(front.facts, "POST", path, { body: {} }), 201, "snapshot");
      const { snapshotID } = JSON.parse(reply.text) as { snapshotID: string };
      await expect(callApi(front.facts, "DELETE", `/templates/${snapshotID}`), 204, "its delete");
    },
  },
  {
    name: "a command through the data plane",
    run: async (front, made) => assert.equal(await runInGuest(front.facts, made, "echo there"), "there\n"),
  },
];

/** RP1 to RP10: two fronts over the same nodes, and fronts that come and go. */
export function replicaLanes(context: ControlContext): readonly HeldRows[] {
  return [togetherRows(context), comingRows(context)];
}

/** Two fronts that poll so rarely that no poll helps them. */
function togetherRows(context: ControlContext): HeldRows {
  const held = laneMesh(context, "replicas", { nodes: 2, warm: 6 });
  let pair: Promise<readonly [Front, Front]> | undefined;
  const two = (): Promise<readonly [Front, Front]> =>
    (pair ??= (async () => {
      const mesh = await held.mesh();
      return [await mesh.front({ pollMs: MINUTE_MS }), await mesh.front({ pollMs: MINUTE_MS })] as const;
    })());
  const wakes = async (mesh: GuestMesh): Promise<number> =>
    (await Promise.all(mesh.nodes.map(({ admin }) => admin.wakes()))).reduce((sum, count) => sum + count, 0);

  const rows: HarnessRow[] = [
    {
      id: "RP1",
      title: "made on one front, everything on the other at once, long before its next poll",
      run: async () => {
        const [one, other] = await two();
        for (const touch of TOUCHES) {
          for (const [maker, user] of [
            [one, other],
            [one, one],
          ] as const) {
            // The touch is the first that this front hears of it.
            const made = await waitFor("a sandbox", () => createSandbox(maker.facts), 30_000, 200);
            await touch.run(user, made).catch((error: unknown) => {
              throw new Error(`${touch.name}: ${error instanceof Error ? error.message : String(error)}`);
            });
            await expect(send(user, verb("kill"), made.sandboxID), touch.name === "kill" ? 404 : 204, "kill");
            for (const front of [maker, user]) {
              expectError(await send(front, verb("get"), made.sandboxID), 404, `${touch.name}: get of a killed one`);
            }
          }
        }
      },
    },
    {
      id: "RP2",
      title: "paused through one front, the first requests through the other's data plane wake it once",
      run: async () => {
        const mesh = await held.mesh();
        const [one, other] = await two();
        for (const [pausing, using] of [
          [one, other],
          [other, one],
        ] as const) {
          const made = await createSandbox(pausing.facts);
          await runInGuest(pausing.facts, made, "echo kept > note");
          await expect(send(pausing, verb("pause"), made.sandboxID), 204, "pause");
          const before = await wakes(mesh);
          const health = await callProxy(using.facts.proxyUrl, "GET", "/health", {
            "e2b-sandbox-id": made.sandboxID,
            "e2b-sandbox-port": "49983",
            "x-access-token": made.envdAccessToken ?? "",
          });
          expectError(health, 502, "its health");
          assert.equal((await wakes(mesh)) - before, 0, "health wakes nothing");
          const reads = await Promise.all(Array.from({ length: 20 }, () => runInGuest(using.facts, made, "cat note")));
          assert.deepEqual([...new Set(reads)], ["kept\n"]);
          assert.equal((await wakes(mesh)) - before, 1, "wakes");
          for (const front of [pausing, using]) {
            assert.equal((await detail(front, made.sandboxID))["state"], "running");
          }
          await expect(send(using, verb("kill"), made.sandboxID), 204, "kill");
        }
      },
    },
    {
      id: "RP3",
      title: "paused on one front and connected on the other with no wait, back and forth",
      run: async () => {
        const [one, other] = await two();
        const made = await createSandbox(one.facts);
        for (let round = 0; round < 20; round += 1) {
          const [pausing, waking] = round % 2 === 0 ? [one, other] : [other, one];
          await expect(send(pausing, verb("pause"), made.sandboxID), 204, `pause ${round}`);
          expectError(await send(waking, verb("pause"), made.sandboxID), 409, "a second pause, elsewhere");
          const how = round % 3 === 0 ? verb("resume") : verb("connect");
          const reply = await expect(send(waking, how, made.sandboxID), 201, `${how.name} ${round}`);
          assert.equal((JSON.parse(reply.text) as Created).envdAccessToken, made.envdAccessToken);
          for (const front of [one, other]) {
            assert.equal((await detail(front, made.sandboxID))["state"], "running");
          }
        }
        await expect(send(other, verb("kill"), made.sandboxID), 204, "kill");
      },
    },
    {
      id: "RP4",
      title: "what happens at the end of a lease outlives connects on both fronts",
      run: async () => {
        const [one, other] = await two();
        const made = await createSandbox(one.facts, { timeout: 4, autoPause: true });
        for (const front of [other, one, other]) {
          await expect(
            callApi(front.facts, "POST", `/v2/sandboxes/${made.sandboxID}/connect`, { body: { timeout: 4 } }),
            200,
            "connect",
          );
        }
        await waitFor("its pause", async () => (await detail(one, made.sandboxID))["state"] === "paused", 14_000, 200);
        assert.equal((await detail(other, made.sandboxID))["state"], "paused");
        await expect(send(one, verb("kill"), made.sandboxID), 204, "kill");
      },
    },
    {
      id: "RP5",
      title: "a snapshot of one front starts sandboxes on the other at once",
      run: async () => {
        const [one, other] = await two();
        const made = await createSandbox(one.facts);
        await runInGuest(one.facts, made, "echo in-it > note");
        const path = `/sandboxes/${made.sandboxID}/snapshots`;
        const snapshot = await expect(callApi(one.facts, "POST", path, { body: { name: "shared" } }), 201, "snapshot");
        const { snapshotID } = JSON.parse(snapshot.text) as { snapshotID: string };
        const copy = await createSandbox(other.facts, { templateID: snapshotID });
        assert.equal(await runInGuest(one.facts, copy, "cat note"), "in-it\n");
        for (const { sandboxID } of [made, copy]) {
          await expect(send(other, verb("kill"), sandboxID), 204, "kill");
        }
        await expect(callApi(other.facts, "DELETE", `/templates/${snapshotID}`), 204, "delete of the snapshot");
        expectError(await callApi(one.facts, "DELETE", `/templates/${snapshotID}`), 404, "delete on the first front");
      },
    },
  ];
  return { rows, close: held.close };
}

/** Fronts that start and stop, and what is listed within one poll. */
function comingRows(context: ControlContext): HeldRows {
  const held = laneMesh(context, "replicas-restart", { nodes: 1, warm: 6 });
  const flagsOf = (mesh: GuestMesh): readonly string[] => buildFlags(mesh.files);

  const rows: HarnessRow[] = [
    {
      id: "RP6",
      title: "made, paused, woken and killed on one front, the other lists it so within one poll",
      run: async () => {
        const mesh = await held.mesh();
        const [one, other] = [await mesh.front({ pollMs: 1_000 }), await mesh.front({ pollMs: 1_000 })];
        const metadata = { owner: "replicas", "a b": "c/d&e" };
        const made = await createSandbox(one.facts, { metadata });
        const shows = (state: string | undefined): Promise<unknown> =>
          waitFor(
            `${state ?? "its absence"} in the other list`,
            async () => {
              const filter = encodeURIComponent("owner=replicas");
              const reply = await callApi(other.facts, "GET", `/v2/sandboxes?metadata=${filter}`);
              const [row] = JSON.parse(reply.text) as { state: string; sandboxID: string; metadata: object }[];
              if (row !== undefined) {
                assert.deepEqual([row.sandboxID, row.metadata], [made.sandboxID, metadata]);
              }
              return row?.state === state;
            },
            3_000,
          );
        await shows("running");
        await expect(send(one, verb("pause"), made.sandboxID), 204, "pause");
        await shows("paused");
        await expect(send(one, verb("connect"), made.sandboxID), 201, "connect");
        await shows("running");
        await expect(send(one, verb("kill"), made.sandboxID), 204, "kill");
        await shows(undefined);
        await Promise.all([one.stop(), other.stop()]);
      },
    },
    {
      id: "RP7",
      title: "metadata, template and name of a paused sandbox are the same behind a restart of the front",
      run: async () => {
        const mesh = await held.mesh();
        const first = await mesh.front();
        const metadata = { owner: "restart", "a b/+": "c/d&e=f+g" };
        const sandbox = await Sandbox.create({ ...sdkOptions(first), timeoutMs: 300_000, metadata });
        const { sandboxId } = sandbox;
        await sandbox.files.write("/home/user/note", "kept");
        const before = await detail(first, sandboxId);
        assert.equal(before["alias"], "base");
        assert.equal(await sandbox.pause(), true);
        assert.deepEqual(await detail(first, sandboxId), { ...before, state: "paused" });
        await first.stop();
        const next = await mesh.front();
        assert.deepEqual(await detail(next, sandboxId), { ...before, state: "paused" }, "detail");
        const found = await Sandbox.list({
          ...sdkOptions(next),
          query: { metadata, state: ["paused"], template: "base" },
        }).nextItems();
        assert.deepEqual(
          found.map((item) => [item.sandboxId, item.name, item.templateId, item.state, item.metadata]),
          [[sandboxId, "base", before["templateID"], "paused", metadata]],
        );
        const again = await Sandbox.connect(sandboxId, sdkOptions(next));
        assert.equal(await again.files.read("/home/user/note"), "kept");
        assert.deepEqual((await again.getInfo()).metadata, metadata);
        await again.kill();
        await next.stop();
      },
    },
    {
      id: "RP8",
      title: "the first answers of a restarted front, and of its data plane, know every sandbox that lives",
      run: async () => {
        const mesh = await held.mesh();
        const first = await mesh.front();
        const made = await createSandbox(first.facts, { timeout: 300 });
        first.process.signal("SIGKILL");
        await first.process.ended;
        // Polls that take their time leave a gap for a front that would answer before it knows.
        await mesh.nodes[0]?.admin.faults([
          { kind: "delay", method: "GET", path: "/v1/sandboxes", delay_ms: 700, times: 2 },
        ]);
        const fresh = await mesh.launch({ pollMs: 5_000 });
        const seen = new Map<string, Set<number>>([
          ["api", new Set()],
          ["data", new Set()],
        ]);
        const ask = async (plane: string, status: () => Promise<number>): Promise<void> => {
          const until = Date.now() + 20_000;
          let good = 0;
          while (good < 10 && Date.now() < until) {
            const answer = await status().catch(() => 0);
            seen.get(plane)?.add(answer);
            good += answer === 200 || answer === 204 ? 1 : 0;
            await delay(10);
          }
        };
        await Promise.all([
          ask("api", async () => (await send(fresh, verb("get"), made.sandboxID)).status),
          ask(
            "data",
            async () =>
              (
                await callProxy(fresh.facts.proxyUrl, "GET", "/health", {
                  "e2b-sandbox-id": made.sandboxID,
                  "e2b-sandbox-port": "49983",
                  "x-access-token": made.envdAccessToken ?? "",
                })
              ).status,
          ),
        ]);
        // Nothing is answered at first, and then the truth.
        assert.deepEqual(seen.get("api"), new Set([0, 200]), "answers of the control plane");
        assert.deepEqual(seen.get("data"), new Set([0, 204]), "answers of the data plane");
        await expect(send(fresh, verb("kill"), made.sandboxID), 204, "kill");
        await mesh.nodes[0]?.admin.faults([]);
        await fresh.stop();
      },
    },
    {
      id: "RP9",
      title: "SIGTERM at any moment of a create: the sandbox is answered, or it is released",
      run: async () => {
        const mesh = await held.mesh();
        const next = await mesh.front();
        for (let round = 0; round < 6; round += 1) {
          await poolsFull(mesh.nodes.map(({ admin }) => admin));
          const front = await mesh.front();
          const creates = Array.from({ length: 4 }, () =>
            callApi(front.facts, "POST", "/v2/sandboxes", {
              body: { templateID: "base", timeout: 120, envVars: { ROUND: String(round) } },
            }).catch(() => undefined),
          );
          await delay(round * 8);
          front.process.signal("SIGTERM");
          assert.deepEqual(await front.process.ended, { code: 0, signal: null }, front.process.tail());
          const answers = (await Promise.all(creates)).filter((reply) => reply !== undefined);
          const made = answers.filter(({ status }) => status === 201).map(({ text }) => JSON.parse(text) as Created);
          for (const reply of answers.filter(({ status }) => status !== 201)) {
            expectError(reply, reply.status, `round ${round}`);
          }
          const left = (await mesh.sandboxes("ns1")).map(({ id }) => id.replace("sb_", "sb-"));
          assert.deepEqual(
            left.toSorted(),
            made.map(({ sandboxID }) => sandboxID).toSorted(),
            `round ${round}: on the node, and in ${answers.length} answers`,
          );
          for (const sandbox of made) {
            assert.equal(await runInGuest(next.facts, sandbox, "echo $ROUND"), `${round}\n`, "it is prepared");
            await expect(send(next, verb("kill"), sandbox.sandboxID), 204, "kill");
          }
        }
        await next.stop();
      },
    },
    {
      id: "RP10",
      title:
        "a template that one front builds starts sandboxes on the other within one poll; its status is known where it was built",
      run: async () => {
        const mesh = await held.mesh();
        const [one, other] = [
          await mesh.front({ flags: flagsOf(mesh), pollMs: 1_000 }),
          await mesh.front({ flags: flagsOf(mesh), pollMs: 1_000 }),
        ];
        const asked = await callApi(one.facts, "POST", "/v3/templates", { body: { name: "rp10", tags: ["v1"] } });
        const { buildID } = JSON.parse(asked.text) as { buildID: string };
        const body = { fromImage: one.facts.image, steps: [{ type: "RUN", args: ["echo built > ~/built"] }] };
        await expect(callApi(one.facts, "POST", `/v2/templates/rp10/builds/${buildID}`, { body }), 202, "start");
        const status = (front: Front): Promise<Reply> =>
          callApi(front.facts, "GET", `/templates/rp10/builds/${buildID}/status`);
        assert.match(expectError(await status(other), 404, "the status elsewhere"), /not found on this replica/);
        await waitFor("the build", async () => (await status(one)).text.includes('"ready"'), 30_000);
        const made = await waitFor(
          "a sandbox of it on the other front",
          () => createSandbox(other.facts, { templateID: "rp10:v1" }),
          5_000,
          100,
        );
        assert.equal(await runInGuest(one.facts, made, "cat ~/built"), "built\n");
        await expect(send(other, verb("kill"), made.sandboxID), 204, "kill");
        await expect(callApi(other.facts, "DELETE", "/templates/rp10"), 204, "delete on the other front");
        await noSandboxLeft(mesh, "ns1", 2_000);
        await waitFor(
          "a 404 on the first front",
          async () => (await callApi(one.facts, "GET", "/templates/rp10")).status === 404,
          5_000,
        );
        await Promise.all([one.stop(), other.stop()]);
      },
    },
  ];
  return { rows, close: held.close };
}
