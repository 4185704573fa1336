import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { Sandbox, SandboxError, SandboxNotFoundError } from "e2b-2.51";

import type { Created } from "../../src/api.ts";
import { type FaultRig, TICK_MS } from "../../src/fault-rig.ts";
import type { Front } from "../../src/front.ts";
import { waitFor } from "../../src/polling.ts";
import { IMAGE } from "../../src/rig.ts";
import { pool, type ScriptedNode } from "../../src/scripted-node.ts";
import {
  before,
  expectFailure,
  type FaultContext,
  type FaultRow,
  listed,
  rigRow,
  sdkOptions,
  send,
  timed,
  verb,
  PROMPT_MS,
  BOUND_MS,
} from "./context.ts";

const idsOf = (made: readonly Created[]): string[] => made.map((one) => one.sandboxID).toSorted();

/** Six sandboxes on node A and two on node B, all listed. */
const settle = async (
  rig: FaultRig,
): Promise<{ a: ScriptedNode; front: Front; onA: readonly Created[]; onB: readonly Created[] }> => {
  const a = await rig.node();
  const b = await rig.node({ pools: [pool(IMAGE, 0)] });
  const front = await rig.front();
  const onA: Created[] = [];
  for (let count = 0; count < 6; count += 1) {
    onA.push(await rig.created(front));
  }
  await a.say({ pools: [pool(IMAGE, 0)] });
  await b.say({ pools: [pool(IMAGE, 20)] });
  await rig.ticks(2);
  const onB = [await rig.created(front), await rig.created(front)];
  assert.deepEqual([...new Set(onA.map((one) => one.clientID))], [a.address]);
  assert.deepEqual([...new Set(onB.map((one) => one.clientID))], [b.address]);
  await rig.ticks(2);
  return { a, front, onA, onB };
};

/** What list, get, connect and kill say within two ticks of a restart. Kills the first of those that are left. */
const assertTruth = async (front: Front, left: readonly Created[], gone: readonly Created[]): Promise<void> => {
  await delay(2 * TICK_MS + 150);
  assert.deepEqual(await listed(front), idsOf(left), "the list");
  for (const { sandboxID, envdAccessToken } of left) {
    assert.equal((await send(front, verb("get"), sandboxID)).status, 200, `get of ${sandboxID}`);
    const connect = await send(front, verb("connect"), sandboxID);
    assert.equal(connect.status, 200, `connect answered ${connect.status} ${connect.text}`);
    assert.equal((JSON.parse(connect.text) as Created).envdAccessToken, envdAccessToken, "its token");
  }
  for (const { sandboxID } of gone) {
    for (const name of ["get", "connect", "timeout", "pause", "kill"]) {
      expectFailure(await send(front, verb(name), sandboxID), [404], `${name} of one that is gone`);
    }
  }
};

const kill = async (front: Front, sandbox: Created | undefined): Promise<void> => {
  assert.ok(sandbox !== undefined);
  assert.equal((await send(front, verb("kill"), sandbox.sandboxID)).status, 204, "kill");
  expectFailure(await send(front, verb("get"), sandbox.sandboxID), [404], "get of a killed one");
  assert.ok(!(await listed(front)).includes(sandbox.sandboxID), "a killed one is listed");
};

/** F5, F6 and F18: what comes back, who gets the last one, and how a front ends. */
export function restartRows(context: FaultContext): readonly FaultRow[] {
  return [
    rigRow(
      context,
      "F5a",
      "a node that restarts with its sandboxes, then half of them, then none: the truth in two ticks",
      async (rig) => {
        const { a, front, onA, onB } = await settle(rig);
        await kill(front, onA[0]);
        const [killed, ...alive] = onA;
        assert.ok(killed !== undefined);
        const everything = idsOf([...alive, ...onB]);

        await a.kill();
        assert.deepEqual(await listed(front), everything, "listed while the node is away");
        for (const name of ["get", "connect", "kill"]) {
          const { value: reply, ms } = await timed(() => send(front, verb(name), alive[0]?.sandboxID ?? ""));
          expectFailure(reply, [500, 503], `${name} while the node is away`);
          assert.ok(ms < PROMPT_MS, `${name} took ${Math.round(ms)} ms`);
        }
        assert.deepEqual(await listed(front), everything, "a kill that failed hides nothing");
        await a.restart();
        await assertTruth(front, [...alive, ...onB], [killed]);
        await kill(front, alive[0]);

        const [, ...then] = alive;
        const kept = then.slice(0, 2);
        await a.kill();
        await a.restart((claim) => kept.some((one) => one.sandboxID.replace("sb-", "sb_") === claim.id));
        await assertTruth(front, [...kept, ...onB], [killed, ...alive.filter((one) => !kept.includes(one))]);
        await kill(front, kept[0]);

        await a.kill();
        // Long enough to leave the list, and to come back as if it were new.
        await rig.ticks(6);
        assert.deepEqual(await listed(front), idsOf(onB), "a node that is gone is not listed");
        await a.restart(() => false);
        await assertTruth(front, onB, onA);
      },
    ),
    rigRow(context, "F5b", "the SDK tells lost sandboxes from a node that is away", async (rig) => {
      const { a, front, onA } = await settle(rig);
      const options = sdkOptions(front);
      const [kept, lost] = onA.map((one) => one.sandboxID);
      assert.ok(kept !== undefined && lost !== undefined);
      await a.kill();
      for (const call of [() => Sandbox.getInfo(kept, options), () => Sandbox.connect(kept, options)]) {
        await assert.rejects(
          call,
          (error: unknown) => error instanceof SandboxError && !(error instanceof SandboxNotFoundError),
        );
      }
      await assert.rejects(Sandbox.kill(kept, options), SandboxError);
      await a.restart((claim) => claim.id === kept.replace("sb-", "sb_"));
      await rig.ticks(2);
      const connected = await Sandbox.connect(kept, options);
      assert.equal(connected.sandboxId, kept);
      assert.equal((await Sandbox.getInfo(kept, options)).state, "running");
      for (const call of [() => Sandbox.getInfo(lost, options), () => Sandbox.connect(lost, options)]) {
        await assert.rejects(call, SandboxNotFoundError);
      }
      assert.equal(await Sandbox.kill(lost, options), false, "kill of a lost one");
      assert.equal(await Sandbox.kill(kept, options), true);
      assert.equal(await Sandbox.kill(kept, options), false);
      const items = await Sandbox.list(options).nextItems();
      assert.ok(!items.some((item) => item.sandboxId === kept || item.sandboxId === lost));
    }),
    rigRow(
      context,
      "F6",
      "two fronts claim the last warm sandbox at once, fifty times: one 201 and one 503 each time",
      async (rig) => {
        const [a, b] = [await rig.node(), await rig.node({ pools: [pool(IMAGE, 0)] })];
        const fronts = await Promise.all([rig.front({ pollMs: 60_000 }), rig.front({ pollMs: 60_000 })]);
        const [one, two] = fronts;
        assert.ok(one !== undefined && two !== undefined);
        await b.say({ redirect: [a.address] });
        for (let round = 0; round < 50; round += 1) {
          // The fronts' inventory is old: both believe in twenty.
          await a.say({ pools: [pool(IMAGE, 1)] });
          const replies = await Promise.all([rig.create(one), rig.create(two)]);
          assert.deepEqual(
            replies.map((reply) => reply.status).toSorted((x, y) => x - y),
            [201, 503],
            `round ${round}: ${replies.map((reply) => reply.text).join(" ")}`,
          );
          for (const reply of replies.filter((each) => each.status === 503)) {
            assert.match(expectFailure(reply, [503], "the loser"), /"base".*retry/);
          }
          const winner = rig.answered.at(-1);
          const killer = round % 2 === 0 ? one : two;
          assert.equal((await send(killer, verb("kill"), winner?.sandboxID ?? "")).status, 204);
        }
        assert.equal(rig.answered.length, 50);
        assert.equal(rig.deliveries().length, 50);
      },
      true,
    ),
    rigRow(context, "F18a", "SIGTERM with claims in flight: each is answered or released, exit 0", async (rig) => {
      const a = await rig.node();
      const front = await rig.front();
      await a.fail(before("claim", { kind: "delay", ms: 1_500 }));
      const calls = Array.from({ length: 5 }, () => rig.create(front));
      const gone = fetch(`${front.facts.apiUrl}/v2/sandboxes`, {
        method: "POST",
        signal: AbortSignal.timeout(300),
        headers: { "x-api-key": front.facts.keys.one, "content-type": "application/json" },
        body: JSON.stringify({ templateID: "base", timeout: 60 }),
      }).then(
        () => "answered",
        () => "gone",
      );
      await waitFor("the claims to be at the node", () => rig.requests(a, "claim").length === 6, 5_000);
      assert.equal(await gone, "gone");
      const { value: end, ms } = await timed(() => {
        front.process.signal("SIGTERM");
        return front.process.ended;
      });
      assert.deepEqual(end, { code: 0, signal: null }, front.process.tail());
      assert.ok(ms < BOUND_MS, `the end took ${Math.round(ms)} ms`);
      const statuses = (await Promise.all(calls)).map((reply) => reply.status);
      assert.deepEqual(statuses, [201, 201, 201, 201, 201]);
      assert.equal(rig.orphans().length, 1, "the one whose client had gone");
      await rig.orphansReleased(500);
      rig.judgeLog(front);
      rig.fronts.length = 0;
    }),
    rigRow(
      context,
      "F18b",
      "SIGKILL of a front with claims in flight: what was delivered ends with its lease",
      async (rig) => {
        const a = await rig.node();
        const front = await rig.front();
        await a.fail(before("claim", { kind: "delay", ms: 700 }));
        const calls = Array.from({ length: 4 }, () => rig.create(front, { timeout: 15 }).catch(() => undefined));
        await waitFor("the claims to be at the node", () => rig.requests(a, "claim").length === 4, 5_000);
        front.process.signal("SIGKILL");
        await Promise.all(calls);
        rig.fronts.length = 0;
        await waitFor("the deliveries", () => rig.orphans().length === 4, 5_000);
        const next = await rig.front();
        await rig.ticks(2);
        // They are listed like any others: nobody else can know that their client never heard of them.
        assert.equal((await listed(next)).length, 4);
        await waitFor("the end of their leases", async () => (await listed(next)).length === 0, 20_000);
      },
    ),
  ];
}
