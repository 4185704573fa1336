import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { RateLimitError, Sandbox, Template } from "e2b-2.51";

import { callApi, expectError, type Reply } from "../../src/api.ts";
import type { Front } from "../../src/front.ts";
import { buildFlags, type GuestMesh, noSandboxLeft } from "../../src/guest-mesh.ts";
import type { HarnessRow } from "../../src/harness-rows.ts";
import { waitFor } from "../../src/polling.ts";
import { IMAGE } from "../../src/rig.ts";
import { createCli } from "../cli-runner.ts";
import { sdkOptions, timed } from "../faults/context.ts";
import { type Builder, type ClientBuild, createBuilders, shows } from "./builders.ts";
import { buildUploadRows } from "./build-uploads.ts";
import { type ControlContext, type HeldRows, laneMesh } from "./context.ts";

/** What commands say that have begun. */
const RUNS = "it-runs-now";
/** A command that goes on for longer than any row. */
const FOREVER = `echo ${RUNS} && sleep 600`;
/** A node looks for leases that have ended every five seconds. */
const REAP_MS = 7_000;
const LEASE_MS = 60_000;
const GONE = /the sandbox of the build does not answer: it has ended, or its node cannot be reached/;

/** Its output, and not the text of the step. */
const runsIn = (build: ClientBuild): Promise<void> => shows(build, /^(?:.*\s)?it-runs-now\s*$/m);

async function leaves(mesh: GuestMesh, front: Front, templates: readonly string[], withinMs = 2_000): Promise<void> {
  await noSandboxLeft(mesh, "ns1", withinMs);
  assert.deepEqual([...(await mesh.templates("ns1"))].toSorted(), [...templates].toSorted(), "templates on nodes");
  if (front.process.running()) {
    const wanted = JSON.stringify({ count: 0, holds: [...templates].toSorted() });
    // What the front itself has ended is gone at once, what a lease has ended with the next poll.
    const limitMs = withinMs === 0 ? 0 : 3 * front.facts.pollMs;
    await waitFor(`${wanted} in the lists`, async () => JSON.stringify(await listed(front)) === wanted, limitMs);
  }
}

async function listed(front: Front): Promise<{ count: number; holds: readonly string[] }> {
  const sandboxes = await callApi(front.facts, "GET", "/v2/sandboxes");
  const templates = await callApi(front.facts, "GET", "/templates");
  const rows = JSON.parse(templates.text) as { templateID: string }[];
  return {
    count: (JSON.parse(sandboxes.text) as unknown[]).length,
    holds: rows
      .map(({ templateID }) => templateID)
      .filter((name) => name !== IMAGE)
      .toSorted(),
  };
}

async function remove(front: Front, name: string): Promise<Reply> {
  return callApi(front.facts, "DELETE", `/templates/${name}`);
}

/** BF1 to BF8: builds that fail, are ended, find no slot or lose what they run on. Each leaves nothing. */
export function buildFaultLanes(context: ControlContext): readonly HeldRows[] {
  const { set } = context;
  const { builders, close: closeBuilders } = createBuilders(set);
  const quick = laneMesh(context, "build-faults", { nodes: 2, warm: 4 });
  const onFront = async (
    flags: readonly string[],
    run: (front: Front, mesh: GuestMesh) => Promise<void>,
  ): Promise<void> => {
    const mesh = await quick.mesh();
    const front = await mesh.front({ flags: buildFlags(mesh.files, flags) });
    try {
      await run(front, mesh);
    } finally {
      await front.stop();
    }
  };
  const eachBuilder = (run: (builder: Builder) => Promise<void>): Promise<unknown> => Promise.all(builders.map(run));

  const rows: HarnessRow[] = [
    {
      id: "BF1",
      title: "a failing step: both SDKs and the CLI say which one and why; no sandbox, no template",
      run: () =>
        onFront(["--e2b-build-parallel=3"], async (front, mesh) => {
          await eachBuilder(async ({ name, build }) => {
            const { ended, shown } = await build(front, `bf1-${name}`, ["true", "echo last-words && exit 3"]);
            const end = await ended;
            const failure = /step [24] \(RUN\) failed: "echo last-words && exit 3" exited with code 3/;
            assert.match(end, name === "cli" ? failure : new RegExp(`^Build(?:Error|Exception): .*${failure.source}`));
            assert.match(shown(), /last-words/, name);
          });
          await leaves(mesh, front, []);
        }),
    },
    {
      id: "BF2",
      title: "a client that leaves in the middle: the build goes on, ends by itself and leaves no sandbox",
      run: () =>
        onFront(["--e2b-build-parallel=3"], async (front, mesh) => {
          const names = builders.map(({ name }) => `bf2-${name}`);
          await eachBuilder(async ({ name, build }) => {
            const going = await build(front, `bf2-${name}`, [`echo ${RUNS} && sleep 3`, "echo end > ~/end"]);
            await runsIn(going);
            going.leave();
            assert.notEqual(await going.ended, "built", name);
          });
          await waitFor("the templates", async () => (await mesh.templates("ns1")).length === 3, 30_000, 100);
          await leaves(mesh, front, names, 10_000);
          const made = await Sandbox.create(names[0] ?? "", { ...sdkOptions(front), timeoutMs: 60_000 });
          assert.equal((await made.commands.run("cat ~/end")).stdout, "end\n", "it is whole");
          await made.kill();
          for (const name of names) {
            assert.equal((await remove(front, name)).status, 204);
          }
          await leaves(mesh, front, []);
        }),
    },
    {
      id: "BF3",
      title: "a template that is deleted during its build: the build ends at once, its client is told, nothing is left",
      run: () =>
        onFront(["--e2b-build-parallel=3"], async (front, mesh) => {
          await using cli = createCli(set, front.facts);
          await eachBuilder(async ({ name, build }) => {
            const going = await build(front, `bf3-${name}`, [FOREVER]);
            await runsIn(going);
            const other = await callApi(front.facts, "DELETE", `/templates/bf3-${name}`, { key: front.facts.keys.two });
            expectError(other, 404, "a delete of another namespace");
            if (name === "cli") {
              await cli.ok(["template", "delete", "-y", `bf3-${name}`]);
            } else {
              assert.equal((await remove(front, `bf3-${name}`)).status, 204);
            }
            assert.match(await going.ended, /the build was ended: its template was deleted/, name);
            expectError(await remove(front, `bf3-${name}`), 404, "a second delete");
          });
          await leaves(mesh, front, [], 0);
        }),
    },
    {
      id: "BF4",
      title: "a template that is deleted while it is built again is gone, and does not come back",
      run: () =>
        onFront([], async (front, mesh) => {
          const [js] = builders;
          assert.ok(js !== undefined);
          assert.equal(await (await js.build(front, "bf4", ["true"])).ended, "built");
          await leaves(mesh, front, ["bf4"]);
          const again = await js.build(front, "bf4", [FOREVER]);
          await runsIn(again);
          assert.equal((await remove(front, "bf4")).status, 204);
          assert.match(await again.ended, /its template was deleted/);
          await leaves(mesh, front, [], 0);
          await delay(1_200);
          await leaves(mesh, front, [], 0);
        }),
    },
    {
      id: "BF5",
      title: "a build over --e2b-build-timeout: both SDKs and the CLI are told, nothing is left",
      run: () =>
        onFront(["--e2b-build-parallel=3", "--e2b-build-timeout=3s"], async (front, mesh) => {
          await eachBuilder(async ({ name, build }) => {
            const end = await (await build(front, `bf5-${name}`, ["true", FOREVER])).ended;
            assert.match(
              end,
              /step [24] \(RUN\) failed: the build took longer than [\d.]+ minutes \(--e2b-build-timeout\)/,
            );
          });
          await leaves(mesh, front, []);
        }),
    },
    {
      id: "BF6",
      title:
        "a full slot is 429 with Retry-After: the SDK waits and succeeds, or says so; nothing is left of the others",
      run: () =>
        onFront(["--e2b-build-parallel=1"], async (front, mesh) => {
          const [js, python, cli] = builders;
          assert.ok(js !== undefined && python !== undefined && cli !== undefined);
          const first = await js.build(front, "bf6-first", [`echo ${RUNS} && sleep 12`]);
          await runsIn(first);
          const asked = await callApi(front.facts, "POST", "/v3/templates", { body: { name: "bf6-raw" } });
          const { buildID } = JSON.parse(asked.text) as { buildID: string };
          const start = await callApi(front.facts, "POST", `/v2/templates/bf6-raw/builds/${buildID}`, {
            body: { fromImage: IMAGE, steps: [] },
          });
          assert.match(expectError(start, 429, "a start without a slot"), /1 builds? (?:is|are) running/);
          assert.match(String(start.headers["retry-after"]), /^[1-9]\d*$/);
          const status = await callApi(front.facts, "GET", `/templates/bf6-raw/builds/${buildID}/status`);
          assert.equal((JSON.parse(status.text) as { status: string }).status, "waiting");
          const never = Template.build(Template().fromImage(IMAGE), "bf6-never", { ...sdkOptions(front), retries: 0 });
          await assert.rejects(
            never,
            (error: unknown) => error instanceof RateLimitError && /running/.test(error.message),
          );
          const refused = await (await python.build(front, "bf6-python", ["true"])).ended;
          const commanded = await (await cli.build(front, "bf6-cli", ["true"])).ended;
          // What these versions do about a 429 is theirs: they are told so, or come through.
          for (const end of [refused, commanded]) {
            assert.match(end, /^built$|RateLimit|429|running/);
          }
          const waited = await js.build(front, "bf6-waited", ["true"]);
          assert.equal(await first.ended, "built");
          assert.equal(await waited.ended, "built");
          for (const name of await mesh.templates("ns1")) {
            assert.ok(!["bf6-raw", "bf6-never"].includes(name), name);
            assert.equal((await remove(front, name)).status, 204, name);
          }
          await leaves(mesh, front, []);
        }),
    },
    {
      id: "BF7",
      title:
        "a node that dies during a step: every client is told within seconds; nothing is left, also once it is back",
      run: () =>
        onFront(["--e2b-build-parallel=3"], async (front, mesh) => {
          const [dying, other] = mesh.nodes;
          assert.ok(dying !== undefined && other !== undefined);
          await other.admin.drain(true);
          await delay(2 * front.facts.pollMs + 200);
          const going = await Promise.all(
            builders.map(async ({ name, build }) => ({ name, build: await build(front, `bf7-${name}`, [FOREVER]) })),
          );
          await Promise.all(going.map(({ build }) => runsIn(build)));
          assert.equal((await dying.admin.sandboxes()).length, 3, "builds on the node");
          await other.admin.drain(false);
          const { ms } = await timed(async () => {
            await dying.kill();
            await Promise.all(
              going.map(async ({ name, build }) => {
                const end = await build.ended;
                assert.match(end, /step [13] \(RUN\) failed: /, name);
                assert.match(end, GONE, name);
              }),
            );
          });
          assert.ok(ms < 20_000, `the clients were told after ${Math.round(ms)} ms`);
          await dying.restart();
          await leaves(mesh, front, []);
          const [js] = builders;
          await waitFor(
            "a build after it",
            async () => (await (await js?.build(front, "bf7-after", ["true"]))?.ended) === "built",
            20_000,
          );
          assert.equal((await remove(front, "bf7-after")).status, 204);
          await leaves(mesh, front, []);
        }),
    },
    {
      id: "BF8",
      title: "a front that is stopped by SIGTERM in the middle of builds releases their sandboxes before it ends",
      run: () =>
        onFront(["--e2b-build-parallel=3"], async (front, mesh) => {
          const going = await Promise.all(builders.map(({ name, build }) => build(front, `bf8-${name}`, [FOREVER])));
          await Promise.all(going.map(runsIn));
          const { ms } = await timed(async () => {
            front.process.signal("SIGTERM");
            assert.deepEqual(await front.process.ended, { code: 0, signal: null }, front.process.tail());
          });
          assert.ok(ms < 12_000, `the end took ${Math.round(ms)} ms`);
          await leaves(mesh, front, [], 0);
          for (const { ended } of going) {
            assert.notEqual(await ended, "built");
          }
          const next = await mesh.front({ flags: buildFlags(mesh.files) });
          await leaves(mesh, next, [], 0);
          await next.stop();
        }),
    },
    {
      id: "BF9",
      title: "a front that is killed while a node promotes: the template is whole or not there",
      run: () =>
        onFront([], async (front, mesh) => {
          const [js] = builders;
          assert.ok(js !== undefined);
          const slow = { kind: "delay", method: "POST", path: "/v1/sandboxes/*/promote", delay_ms: 1_000 };
          await Promise.all(mesh.nodes.map((node) => node.admin.faults([slow])));
          const going = await js.build(front, "bf9", ["echo whole > ~/whole"]);
          await shows(going, /Publishing the template/);
          front.process.signal("SIGKILL");
          assert.notEqual(await going.ended, "built");
          const [left] = await mesh.sandboxes("ns1");
          assert.ok(left !== undefined && Date.parse(left.deadline ?? "") - Date.now() <= 300_000, "its lease");
          await delay(2_000);
          await Promise.all(mesh.nodes.map((node) => node.admin.faults([])));
          const next = await mesh.front({ flags: buildFlags(mesh.files) });
          const { holds } = await listed(next);
          if (holds.includes("bf9")) {
            const made = await Sandbox.create("bf9", { ...sdkOptions(next), timeoutMs: 60_000 });
            assert.equal((await made.commands.run("cat ~/whole")).stdout, "whole\n");
            await made.kill();
            assert.equal((await remove(next, "bf9")).status, 204);
          }
          // Nobody waits five minutes here.
          assert.equal((await callApi(next.facts, "DELETE", `/sandboxes/${left.id}`)).status, 204);
          await leaves(mesh, next, []);
          await next.stop();
        }),
    },
  ];

  return [
    {
      rows,
      close: async () => {
        await quick.close();
        await closeBuilders();
      },
    },
    buildUploadRows(context),
    ...slowLanes(context),
  ];
}

/** BF10 to BF12: what takes a lease's time. */
function slowLanes(context: ControlContext): readonly HeldRows[] {
  const alone = (row: (mesh: GuestMesh, js: Builder) => Promise<void>, id: string, title: string): HeldRows => {
    const held = laneMesh(context, id.toLowerCase(), { nodes: 2, warm: 2 });
    const { builders, close: closeBuilders } = createBuilders(context.set);
    const run = async (): Promise<void> => {
      const [js] = builders;
      assert.ok(js !== undefined);
      await row(await held.mesh(), js);
    };
    return {
      rows: [{ id, title, run }],
      close: async () => {
        await held.close();
        await closeBuilders();
      },
    };
  };
  const flagsOf = (mesh: GuestMesh): readonly string[] => buildFlags(mesh.files);

  return [
    alone(
      async (mesh, js) => {
        const front = await mesh.front({ flags: flagsOf(mesh) });
        const going = await js.build(front, "bf10", ["echo kept > ~/kept", FOREVER]);
        await runsIn(going);
        // Long enough for a renewal, so that what is left is that of a lease in use.
        await delay(17_000);
        const [held] = await mesh.sandboxes("ns1");
        front.process.signal("SIGKILL");
        await front.process.ended;
        const killedAt = Date.now();
        assert.match(await going.ended, /fetch failed|ECONN|terminated|other side/);
        assert.ok(held !== undefined);
        const leftMs = Date.parse(held.deadline ?? "") - killedAt;
        assert.ok(leftMs > 0 && leftMs <= LEASE_MS, `${leftMs} ms of its lease are left`);
        const next = await mesh.front({ flags: flagsOf(mesh) });
        // It is listed like any other until then, and may be killed by hand.
        assert.equal((await listed(next)).count, 1);
        await noSandboxLeft(mesh, "ns1", leftMs + REAP_MS);
        assert.ok(Date.now() - killedAt <= LEASE_MS + REAP_MS, "it ended with its lease");
        await leaves(mesh, next, [], 2_000);
        assert.equal(await (await js.build(next, "bf10", ["true"])).ended, "built");
        await leaves(mesh, next, ["bf10"]);
      },
      "BF10",
      "a front that is killed in the middle of a step: the sandbox ends with its lease of a minute, no template",
    ),
    alone(
      async (mesh, js) => {
        const front = await mesh.front({ flags: flagsOf(mesh) });
        const [silent, other] = mesh.nodes;
        assert.ok(silent !== undefined && other !== undefined);
        await other.admin.drain(true);
        await delay(2 * front.facts.pollMs + 200);
        const going = await js.build(front, "bf11", [FOREVER]);
        await runsIn(going);
        await other.admin.drain(false);
        const { ms } = await timed(async () => {
          silent.process.signal("SIGSTOP");
          const end = await going.ended;
          assert.match(end, GONE);
        });
        assert.ok(ms <= LEASE_MS + 25_000, `told after ${Math.round(ms)} ms`);
        silent.process.signal("SIGCONT");
        // What was sent to it meanwhile it does now: it may renew the lease once more.
        await leaves(mesh, front, [], LEASE_MS + REAP_MS);
        assert.equal(await (await js.build(front, "bf11", ["true"])).ended, "built");
      },
      "BF11",
      "a node that falls silent in the middle of a step: the build fails within its lease, nothing is left",
    ),
    alone(
      async (mesh, js) => {
        const front = await mesh.front({ flags: flagsOf(mesh) });
        const going = await js.build(front, "bf12", [`echo ${RUNS} && sleep 80`]);
        assert.equal(await going.ended, "built");
        await leaves(mesh, front, ["bf12"]);
      },
      "BF12",
      "a silent step that takes longer than the lease is built to its end",
    ),
  ];
}
