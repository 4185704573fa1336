import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { createSandbox, killSandbox, runInGuest } from "../../src/api.ts";
import { type FaultRig, TICK_MS } from "../../src/fault-rig.ts";
import type { Front } from "../../src/front.ts";
import { startMesh } from "../../src/mesh-rig.ts";
import { waitFor } from "../../src/polling.ts";
import { IMAGE, poolsFull, RIG } from "../../src/rig.ts";
import { pool, type ScriptedNode } from "../../src/scripted-node.ts";
import {
  before,
  expectFailure,
  type FaultContext,
  type FaultRow,
  listed,
  medianMs,
  rigRow,
  send,
  timed,
  verb,
  PROMPT_MS,
  BOUND_MS,
} from "./context.ts";

const HUNG_MS = 60_000;

/** Long enough to tell whether others are published before the tick ends. */
const SLOW_TICK_MS = 2_500;

/** Alias of a pool that only the node which hangs has. */
const ONLY_HUNG = "medium-box";
const HUNG_POOL = pool(IMAGE, 500, { size: "medium" });

/**
 * Latency is judged by ratio with this much to spare, and again when it was bad: other lanes use the same processors.
 * Whoever waits for a silent node waits longer, each time.
 */
const SLOWER = 4;
const SPARE_MS = 250;
const TRIES = 4;

interface Latency {
  readonly create: number;
  readonly list: number;
  readonly get: number;
  readonly kill: number;
}

/** Medians of the operations on sandboxes of nodes that are well. */
const latencies = async (rig: FaultRig, front: Front): Promise<Latency> => {
  const made: string[] = [];
  const create = await medianMs(9, async () => made.push((await rig.created(front)).sandboxID));
  const list = await medianMs(9, () => listed(front));
  const get = await medianMs(9, () => send(front, verb("get"), made[0] ?? ""));
  const kill = await medianMs(9, async () => {
    const reply = await send(front, verb("kill"), made.pop() ?? "");
    assert.equal(reply.status, 204, reply.text);
  });
  return { create, list, get, kill };
};

/** Operations on nodes that are well take no longer than they did. */
const assertAsQuick = async (rig: FaultRig, front: Front, usual: Latency): Promise<void> => {
  let slow: readonly string[] = [];
  for (let count = 0; count < TRIES; count += 1) {
    const now = await latencies(rig, front);
    slow = (["create", "list", "get", "kill"] as const)
      .filter((name) => now[name] > usual[name] * SLOWER + SPARE_MS)
      .map((name) => `${name} took ${now[name].toFixed(1)} ms, ${usual[name].toFixed(1)} ms before`);
    if (slow.length === 0) {
      return;
    }
  }
  assert.fail(slow.join("; "));
};

/** How long a sandbox that somebody else made takes to be listed. */
const publication = async (node: ScriptedNode, front: Front): Promise<{ id: string; ms: number }> => {
  const response = await fetch(`http://${node.address}/v1/claim`, {
    method: "POST",
    headers: { authorization: `Bearer ${RIG.nodeToken}`, "content-type": "application/json" },
    body: JSON.stringify({ template: IMAGE, ttl_seconds: 60, claim_ref: `ns1/elsewhere-${performance.now()}` }),
  });
  const { id } = (await response.json()) as { id: string };
  const { ms } = await timed(() =>
    waitFor("its publication", async () => (await listed(front)).includes(id.replace("sb_", "sb-")), 10_000, 20),
  );
  return { id, ms };
};

/** Sandboxes that the harness claims at the nodes itself are nobody's orphans. */
const forgetOwn = (rig: FaultRig): void => {
  for (const { id, claimRef } of rig.deliveries()) {
    const node = rig.nodes.find((one) => one.journal().some((line) => line.kind === "delivered" && line.id === id));
    if (claimRef.startsWith("ns1/elsewhere-") && node !== undefined) {
      rig.answered.push({ sandboxID: id.replace("sb_", "sb-"), clientID: node.address, templateID: IMAGE });
    }
  }
};

/** F4: nodes that neither answer nor go away. */
export function hungRows(context: FaultContext): readonly (readonly FaultRow[])[] {
  const { set, programs, isolation } = context;
  const stopped: FaultRow[] = [
    rigRow(
      context,
      "F4a",
      "a node that is stopped for a minute: the others do not notice, it comes back by itself",
      async (rig) => {
        const a = await rig.node({ pools: [pool(IMAGE, 500)] });
        const hung = await rig.node({ pools: [HUNG_POOL], reapMs: 1_000 });
        const front = await rig.front();
        const there = await rig.created(front, { templateID: ONLY_HUNG, timeout: 600 });
        await rig.ticks(2);
        const usual = await latencies(rig, front);
        const { ms: published } = await publication(a, front);
        hung.process.signal("SIGSTOP");
        const since = performance.now();
        // Its kernel still takes connections: a claim may have been delivered for all that anybody knows.
        const alone = await timed(() => rig.refused(front, 500, { templateID: ONLY_HUNG }));
        assert.match(alone.value, /could not be created/);
        assert.ok(alone.ms < BOUND_MS, `a create on the hung node took ${Math.round(alone.ms)} ms`);
        while (performance.now() - since < HUNG_MS) {
          await assertAsQuick(rig, front, usual);
          const { ms: now } = await publication(a, front);
          assert.ok(now <= Math.max(published, 2 * TICK_MS) + 600, `published after ${Math.round(now)} ms`);
          const missing = await timed(() => send(front, verb("get"), there.sandboxID));
          expectFailure(missing.value, [404, 500, 503], "a sandbox of the hung node");
          assert.ok(missing.ms < BOUND_MS, `its get took ${Math.round(missing.ms)} ms`);
          assert.match(await rig.refused(front, 503, { templateID: ONLY_HUNG }), /retry/);
          await delay(2_000);
        }
        hung.process.signal("SIGCONT");
        await waitFor("the node to be back", async () => (await listed(front)).includes(there.sandboxID), 8_000);
        assert.equal((await send(front, verb("get"), there.sandboxID)).status, 200);
        const again = await rig.created(front, { templateID: ONLY_HUNG });
        assert.equal(again.clientID, hung.address);
        // What it was asked for while it stood, it does now. Nobody waits for it any more.
        forgetOwn(rig);
        await rig.orphansReleased(8_000);
      },
    ),
  ];
  const guests: FaultRow[] = [
    {
      id: "F4b",
      title: "guests of the other node go on while a dev-node is stopped, and its own come back",
      quick: false,
      run: async () => {
        await using mesh = await startMesh(set, programs, { warm: 3, isolation });
        const front = await mesh.front({ mode: "secret", pollMs: 500 });
        try {
          const made = await Promise.all(Array.from({ length: 4 }, () => createSandbox(front.facts)));
          await poolsFull([mesh.a.admin, mesh.b.admin]);
          const onA = made.find((one) => one.clientID === mesh.a.key);
          const onB = made.find((one) => one.clientID === mesh.b.key);
          assert.ok(onA !== undefined && onB !== undefined, "both nodes were used");
          await runInGuest(front.facts, onB, "echo kept > note");
          const usual = await medianMs(5, () => runInGuest(front.facts, onA, "true"));
          mesh.b.process.signal("SIGSTOP");
          const waiting = timed(() => runInGuest(front.facts, onB, "cat note"));
          await delay(3_000);
          const now = await medianMs(5, () => runInGuest(front.facts, onA, "true"));
          assert.ok(
            now <= usual * SLOWER + SPARE_MS,
            `a command took ${now.toFixed(1)} ms, ${usual.toFixed(1)} before`,
          );
          const { value: created, ms } = await timed(() => createSandbox(front.facts));
          assert.equal(created.clientID, mesh.a.key);
          assert.ok(ms < PROMPT_MS, `a create took ${Math.round(ms)} ms`);
          mesh.b.process.signal("SIGCONT");
          const late = await waiting;
          assert.equal(late.value, "kept\n", "the command that waited");
          assert.ok(late.ms >= 3_000, "it waited for the node");
          assert.equal(await runInGuest(front.facts, onB, "cat note"), "kept\n");
          await waitFor("node B to be listed", async () => (await listed(front)).includes(onB.sandboxID), 8_000);
          await Promise.all([...made, created].map((one) => killSandbox(front.facts, one.sandboxID)));
          assert.ok(front.process.running());
        } finally {
          await front.stop();
        }
      },
    },
    rigRow(context, "F4c", "only the claims of a node hang: its reads, verbs and the other node go on", async (rig) => {
      await rig.node({ pools: [pool(IMAGE, 100)] });
      const hung = await rig.node({ pools: [HUNG_POOL] });
      const front = await rig.front();
      const there = await rig.created(front, { templateID: ONLY_HUNG });
      await rig.ticks(2);
      const usual = await latencies(rig, front);
      // Each is delivered long after everybody has given up.
      await hung.fail(before("claim", { kind: "delay", ms: 12_000 }));
      const slow = Array.from({ length: 8 }, () => timed(() => rig.refused(front, 500, { templateID: ONLY_HUNG })));
      await delay(300);
      await assertAsQuick(rig, front, usual);
      for (const name of ["get", "connect", "timeout", "pause", "resume"]) {
        const { value, ms } = await timed(() => send(front, verb(name), there.sandboxID));
        assert.equal(value.status, verb(name).good, `${name} answered ${value.status} ${value.text}`);
        assert.ok(ms < PROMPT_MS, `${name} took ${Math.round(ms)} ms`);
      }
      for (const { value, ms } of await Promise.all(slow)) {
        assert.match(value, /could not be created/);
        assert.ok(ms < BOUND_MS, `given up after ${Math.round(ms)} ms`);
      }
      await waitFor("the late deliveries", () => rig.orphans().length === 8, 6_000);
      await rig.orphansReleased(8_000);
      assert.equal((await send(front, verb("kill"), there.sandboxID)).status, 204);
    }),
    rigRow(
      context,
      "F4d",
      "only the polls of a node hang: it can still be used, and the others are published",
      async (rig) => {
        const a = await rig.node({ pools: [pool(IMAGE, 100)] });
        const hung = await rig.node({ pools: [HUNG_POOL] });
        const front = await rig.front({ pollMs: SLOW_TICK_MS });
        const there = await rig.created(front, { templateID: ONLY_HUNG });
        const usual = await latencies(rig, front);
        await hung.fail(before("info", { kind: "hang" }), before("index", { kind: "hang" }));
        const during = await rig.created(front, { templateID: ONLY_HUNG });
        assert.ok((await listed(front)).includes(during.sandboxID), "what was made meanwhile is listed");
        for (const { sandboxID } of [there, during]) {
          assert.equal((await send(front, verb("get"), sandboxID)).status, 200);
        }
        await assertAsQuick(rig, front, usual);
        for (let count = 0; count < 2; count += 1) {
          const { id } = await publication(a, front);
          const now = Date.now();
          const made = a.journal().findIndex((line) => line.kind === "delivered" && line.id === id);
          const read = a
            .journal()
            .slice(made)
            .find((line) => line.kind === "request" && line.route === "index");
          const after = now - (read?.at ?? 0);
          // The tick in which the other node stays silent ends later than that.
          assert.ok(after < SLOW_TICK_MS - 1_000, `published ${after} ms after its node was asked`);
        }
        await delay(4 * SLOW_TICK_MS);
        assert.match(await rig.refused(front, 503, { templateID: ONLY_HUNG }), /retry/);
        await assertAsQuick(rig, front, usual);
        await hung.fail();
        await waitFor("the node to be back", async () => (await listed(front)).includes(during.sandboxID), 15_000);
        forgetOwn(rig);
      },
    ),
  ];
  return [stopped, guests];
}
