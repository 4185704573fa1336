import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { TICK_MS } from "../../src/fault-rig.ts";
import { waitFor } from "../../src/polling.ts";
import { IMAGE, RIG } from "../../src/rig.ts";
import { pool } from "../../src/scripted-node.ts";
import {
  before,
  expectFailure,
  type FaultContext,
  type FaultRow,
  listed,
  rigRow,
  send,
  timed,
  verb,
  VERBS,
  PROMPT_MS,
  BOUND_MS,
} from "./context.ts";

const ROTATED = "conformance-rotated-token";
const TENANT = "conformance-tenant-token";

/** Tokens that nodes refuse, polls, reads and verbs that fail, and what replicas know of each other's sandboxes. */
export function readRows(context: FaultContext): readonly FaultRow[] {
  return [
    rigRow(
      context,
      "F12a",
      "a tenant's token and a wrong one stop the start with the pinned message",
      async (rig) => {
        const a = await rig.node({ tenantTokens: [TENANT] });
        rig.secrets.push(TENANT, ROTATED);
        for (const token of [TENANT, ROTATED]) {
          const file = join(rig.files.dir, "other-token");
          await writeFile(file, `${token}\n`);
          const front = await rig.launch({ flags: [`--sandboxd-token-file=${file}`] });
          const { value: end, ms } = await timed(() => front.process.ended);
          assert.deepEqual(end, { code: 1, signal: null }, front.process.tail());
          assert.ok(ms < BOUND_MS, `ended after ${Math.round(ms)} ms`);
          const line = `sandbox-e2b: meshinventory: seed ${a.address} refused the token; GET /v1/info needs the fleet root api_token: `;
          assert.ok(front.process.stderr().includes(line), front.process.tail());
          assert.ok(!front.log().includes(token), "the token is in the output");
        }
        await rig.front();
      },
      true,
    ),
    rigRow(context, "F12b", "a token that is rotated at run time is never told to the user as a 401", async (rig) => {
      const [a, b] = [await rig.node(), await rig.node()];
      const front = await rig.front();
      const sandbox = await rig.created(front);
      await rig.ticks(1);
      for (const node of [a, b]) {
        await node.say({ token: ROTATED, tenantTokens: [RIG.nodeToken] });
      }
      // While the last inventory counts, the nodes are asked, and refuse.
      await rig.refused(front, 500);
      for (const one of VERBS) {
        expectFailure(await send(front, one, sandbox.sandboxID), [500], `${one.name} with a refused token`);
      }
      const log = front.log();
      assert.match(log, /"level":"error"[^\n]*\/v2\/sandboxes/, "an error in the log for the operator");
      assert.ok((await listed(front)).includes(sandbox.sandboxID), "still listed");
      for (const node of [a, b]) {
        await node.say({ tenantTokens: [] });
      }
      await rig.refused(front, 500);
      await rig.ticks(6);
      await rig.refused(front, 503);
      assert.deepEqual(await listed(front), []);
      for (const one of VERBS) {
        expectFailure(await send(front, one, sandbox.sandboxID), [404, 503], `${one.name} in an empty mesh`);
      }
      await rig.heal();
      await waitFor(
        "the sandbox to be back",
        async () => (await send(front, verb("get"), sandbox.sandboxID)).status === 200,
        8_000,
      );
      assert.equal((await send(front, verb("kill"), sandbox.sandboxID)).status, 204);
    }),
    rigRow(context, "F16b", "an index that stalls or drips delays no other node and no read", async (rig) => {
      const [a, b] = [await rig.node(), await rig.node()];
      const front = await rig.front();
      const onA = await rig.created(front);
      for (const act of [{ kind: "stall" }, { kind: "trickle", everyMs: 100 }, { kind: "hang" }] as const) {
        await rig.ticks(2);
        const slow = onA.clientID === a.address ? b : a;
        const quickNode = slow === a ? b : a;
        await slow.fail({ route: "index", when: "after", act }, before("sandbox", { kind: "hang" }));
        await slow.say({ pools: [] });
        await rig.ticks(1);
        const made = await rig.created(front);
        assert.equal(made.clientID, quickNode.address);
        assert.ok((await listed(front)).includes(made.sandboxID));
        const read = await timed(() => send(front, verb("get"), made.sandboxID));
        assert.equal(read.value.status, 200);
        assert.ok(read.ms < PROMPT_MS, `get took ${Math.round(read.ms)} ms`);
        const missing = await timed(() => send(front, verb("get"), "sb-00000000000000aa"));
        expectFailure(missing.value, [404, 503], "an unknown id while a node is silent");
        assert.ok(missing.ms < PROMPT_MS, `an unknown id took ${Math.round(missing.ms)} ms`);
        await slow.say({ faults: [], pools: [pool(IMAGE, 20)] });
      }
    }),
    rigRow(
      context,
      "F17b",
      "a poll or a read that meets a closed idle connection goes over a fresh one",
      async (rig) => {
        const a = await rig.node({ idleMs: 1 });
        const front = await rig.front();
        const sandbox = await rig.created(front);
        for (let count = 0; count < 60; count += 1) {
          const reply = await send(front, verb("get"), sandbox.sandboxID);
          assert.equal(reply.status, 200, `get ${count} answered ${reply.status} ${reply.text.slice(0, 200)}`);
          await delay(count % 5);
        }
        const missed = front.log().match(/mesh member did not answer/g) ?? [];
        assert.equal(missed.length, 0, "polls that failed");
        await a.say({ idleMs: 0 });
      },
    ),
    rigRow(
      context,
      "F19a",
      "a fresh front never says 404 of a sandbox that lives, from its first answer on",
      async (rig) => {
        const [a] = [await rig.node(), await rig.node()];
        const first = await rig.front();
        const made = [await rig.created(first), await rig.created(first), await rig.created(first)];
        await a.fail(before("info", { kind: "delay", ms: 1_200 }, 3));
        const fresh = await rig.launch({ pollMs: 3_000 });
        const seen = new Map<string, number>();
        await waitFor(
          "answers of the fresh front",
          async () => {
            for (const { sandboxID } of made) {
              const status = await send(fresh, verb("get"), sandboxID).then(
                (reply) => reply.status,
                () => 0,
              );
              seen.set(String(status), (seen.get(String(status)) ?? 0) + 1);
            }
            return (seen.get("200") ?? 0) >= 15;
          },
          15_000,
          10,
        );
        await fresh.stop();
        assert.deepEqual([...seen.keys()].toSorted(), ["0", "200"], "refused while it starts, then the sandbox");
      },
    ),
    rigRow(context, "F19b", "a node that misses one or two polls loses no sandbox", async (rig) => {
      const [a] = [await rig.node(), await rig.node()];
      const front = await rig.front();
      const made = await Promise.all(Array.from({ length: 6 }, () => rig.created(front)));
      const all = made.map((one) => one.sandboxID).toSorted();
      await rig.ticks(2);
      for (const act of [
        { kind: "reply", status: 500, body: "oops", type: "text/plain" },
        { kind: "reply", status: 200, body: '{"pools":[' },
        { kind: "cut" },
        { kind: "hang" },
      ] as const) {
        for (const route of ["info", "index"] as const) {
          await a.fail(before(route, act, 2));
          const until = performance.now() + 3 * TICK_MS;
          while (performance.now() < until) {
            assert.deepEqual(await listed(front), all, `listed while ${route} fails with ${act.kind}`);
            const reply = await send(front, verb("get"), all[0] ?? "");
            assert.equal(reply.status, 200, `get while ${route} fails with ${act.kind}: ${reply.text}`);
            await delay(40);
          }
        }
      }
    }),
    rigRow(
      context,
      "F20",
      "every verb right behind the create, on the same front and on one that polls once a minute",
      async (rig) => {
        for (let count = 0; count < 2; count += 1) {
          await rig.node();
        }
        const [one, two] = await Promise.all([rig.front({ pollMs: 60_000 }), rig.front({ pollMs: 60_000 })]);
        for (const [maker, user] of [
          [one, two],
          [two, one],
          [one, one],
        ] as const) {
          const sandbox = await rig.created(maker);
          for (const each of VERBS) {
            const reply = await send(user, each, sandbox.sandboxID);
            assert.equal(reply.status, each.good, `${each.name} answered ${reply.status} ${reply.text.slice(0, 200)}`);
          }
          for (const front of [maker, user]) {
            expectFailure(await send(front, verb("get"), sandbox.sandboxID), [404], "a killed one");
          }
        }
      },
      true,
    ),
    rigRow(
      context,
      "F22",
      "verbs at a node that fails: a JSON error that is neither 401 nor 404, and the sandbox stays",
      async (rig) => {
        const a = await rig.node();
        const front = await rig.front();
        const sandbox = await rig.created(front);
        await rig.ticks(2);
        const routes = ["sandbox", "release", "renew", "hibernate", "wake"] as const;
        for (const act of [
          { kind: "reply", status: 500, body: '{"error":"release failed"}' },
          { kind: "reply", status: 502, body: "<html>bad gateway</html>", type: "text/html" },
          { kind: "reply", status: 401, body: '{"error":"invalid api token"}' },
          { kind: "reply", status: 403, body: '{"error":"operator token required"}' },
          { kind: "cut" },
        ] as const) {
          await a.fail(...routes.map((route) => before(route, act)));
          for (const each of VERBS) {
            const { value: reply, ms } = await timed(() => send(front, each, sandbox.sandboxID));
            expectFailure(reply, [500, 503], `${each.name} at a node with ${JSON.stringify(act)}`);
            assert.ok(!/html|api token|operator/.test(reply.text), reply.text);
            assert.ok(ms < PROMPT_MS, `${each.name} took ${Math.round(ms)} ms`);
          }
          assert.deepEqual(await listed(front), [sandbox.sandboxID]);
        }
        await a.fail();
        assert.equal((await send(front, verb("get"), sandbox.sandboxID)).status, 200);
        // A 500 of a release leaves open whether the sandbox is gone: it is asked again.
        await a.fail({ route: "release", when: "after", act: { kind: "reply", status: 500, body: "{}" }, times: 1 });
        assert.equal((await send(front, verb("kill"), sandbox.sandboxID)).status, 204);
        assert.equal((await send(front, verb("get"), sandbox.sandboxID)).status, 404);
      },
    ),
  ];
}
