import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { callApi, type Created } from "../../src/api.ts";
import { TICK_MS } from "../../src/fault-rig.ts";
import { waitFor } from "../../src/polling.ts";
import { IMAGE, RIG } from "../../src/rig.ts";
import { pool } from "../../src/scripted-node.ts";
import {
  afterClaim,
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

/** JSON texts of a warm count, and whether a node that says so may be asked for a sandbox. */
const WARM: readonly (readonly [says: string, counts: "yes" | "no" | "either" | "unreadable"])[] = [
  ["0", "no"],
  ["-0", "no"],
  ["-3", "no"],
  ["2.5", "no"],
  ["null", "no"],
  ['"5"', "no"],
  ["true", "no"],
  ["[7]", "no"],
  ["1e400", "no"],
  ["-1e400", "no"],
  ["9007199254740991", "yes"],
  ["9007199254740992", "either"],
  ["18446744073709551616", "either"],
  ["NaN", "unreadable"],
  ["Infinity", "unreadable"],
];

/** Nodes that say what is not so: counts, addresses, redirects, tokens, rows of others. */
export function meshRows(context: FaultContext): readonly FaultRow[] {
  return [
    rigRow(
      context,
      "F8",
      "warm counts that are none (negative, NaN, text, beyond 2^53) neither attract claims nor stop the front",
      async (rig) => {
        const odd = await rig.node({ pools: [pool(IMAGE, 50)] });
        const well = await rig.node({ pools: [pool(IMAGE, 200)] });
        const front = await rig.front();
        for (const [says, counts] of WARM) {
          await odd.say({ pools: [pool(IMAGE, 50, { says })] });
          // What cannot be read leaves the last good reply in force for three more ticks.
          await rig.ticks(counts === "unreadable" ? 5 : 1);
          const earlier = rig.requests(odd, "claim").length;
          for (let count = 0; count < 6; count += 1) {
            await rig.created(front);
          }
          const asked = rig.requests(odd, "claim").length - earlier;
          if (counts === "no" || counts === "unreadable") {
            assert.equal(asked, 0, `a node that says ${says} was asked`);
          }
        }
        await well.say({ pools: [pool(IMAGE, 0)] });
        await odd.say({ pools: [pool(IMAGE, 0, { says: "9007199254740991" })] });
        await rig.ticks(2);
        await rig.refused(front, 503);
      },
      true,
    ),
    rigRow(
      context,
      "F9",
      "redirects in a loop, to oneself, to strangers and to a thousand targets: few calls, and 503",
      async (rig) => {
        const dry = [pool(IMAGE, 0, { says: "3" })];
        const [a, b] = [await rig.node({ pools: dry }), await rig.node({ pools: dry })];
        const front = await rig.front();
        const stranger = "203.0.113.7:7777";
        const many = Array.from({ length: 1_000 }, (_unused, index) => (index % 2 === 0 ? b.address : a.address));
        const loops = [
          [[b.address], [a.address]],
          [[a.address], [b.address]],
          [[stranger, "not an address", ""], [stranger]],
          [
            [b.address, b.address, b.address],
            [stranger, a.address],
          ],
          [many, many],
        ] as const;
        for (const [fromA, fromB] of loops) {
          await a.say({ redirect: fromA });
          await b.say({ redirect: fromB });
          const calls = (): number => rig.requests(a, "claim").length + rig.requests(b, "claim").length;
          const beforeMs = calls();
          const { value: message, ms } = await timed(() => rig.refused(front, 503));
          assert.match(message, /"base".*retry/);
          const made = calls() - beforeMs;
          assert.ok(made <= 6, `${made} claim calls for one create`);
          assert.ok(ms < PROMPT_MS, `took ${Math.round(ms)} ms`);
        }
        // A target that is warm after all is used, once.
        await a.say({ redirect: [b.address] });
        await b.say({ redirect: [a.address], pools: [pool(IMAGE, 1, { says: "0" })] });
        await rig.ticks(2);
        assert.equal((await rig.created(front)).clientID, b.address);
        await rig.refused(front, 503);
      },
      true,
    ),
    rigRow(
      context,
      "F10",
      "seeds with doubles, spaces and another spelling: one poll per tick and node",
      async (rig) => {
        const a = await rig.node();
        const b = await rig.node();
        const portA = a.address.split(":")[1] ?? "";
        // Both name each other, also by the spelling that the seed list does not have.
        await a.say({ peers: [b.address] });
        await b.say({ peers: [a.address] });
        const spelled = `localhost:${portA}`;
        const front = await rig.front({ seeds: ` ${spelled} , ,${spelled},, ${spelled},` });
        const nodes = [a.address, b.address].toSorted().join(" ");
        assert.ok(
          front
            .log()
            .includes(`mesh inventory up seeds=[${spelled} ${spelled} ${spelled}] nodes=[${nodes}] poll=${TICK_MS}ms`),
          /mesh inventory up[^"]*/.exec(front.log())?.[0] ?? "no such line",
        );
        await rig.ticks(3);
        const polls = [a, b].map((node) => rig.requests(node, "info").length);
        await delay(10 * TICK_MS);
        for (const [index, node] of [a, b].entries()) {
          const made = rig.requests(node, "info").length - (polls[index] ?? 0);
          assert.ok(made >= 8 && made <= 11, `${made} polls of node ${node.name} in ten ticks`);
        }
        const sandboxes = [await rig.created(front), await rig.created(front)];
        await rig.ticks(2);
        assert.deepEqual(await listed(front), sandboxes.map((one) => one.sandboxID).toSorted());
        // Two spellings as seeds are two members, as they were asked for, and still one node.
        const both = await rig.front({ seeds: `${a.address},${spelled}` });
        assert.ok(both.log().includes(`nodes=[${nodes}]`));
        await rig.ticks(2);
        assert.deepEqual(await listed(both), sandboxes.map((one) => one.sandboxID).toSorted());
      },
    ),
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
    rigRow(
      context,
      "F14",
      "a node that answers a by-id read with another sandbox gives nothing of it away",
      async (rig) => {
        const a = await rig.node();
        const front = await rig.front();
        const theirs = await callApi(front.facts, "POST", "/v2/sandboxes", {
          body: { templateID: "base", timeout: 60 },
          key: front.facts.keys.two,
        });
        const other = JSON.parse(theirs.text) as Created;
        rig.answered.push(other);
        const mine = await rig.created(front);
        await rig.ticks(2);
        const claim = a.claims().find((one) => one.id === other.sandboxID.replace("sb-", "sb_"));
        assert.ok(claim !== undefined);
        const row = JSON.stringify({
          id: claim.id,
          key: { template: claim.template, net: claim.net, size: claim.size },
          deadline: new Date(claim.deadlineMs).toISOString(),
          hibernated: false,
          claim_ref: claim.claimRef,
          token: claim.token,
        });
        for (const body of [row, row.replace(/"claim_ref":"[^"]*"/, '"claim_ref":"ns1/x"'), "{}", "[]", "null", "no"]) {
          await a.fail(before("sandbox", { kind: "reply", status: 200, body }));
          for (const name of ["get", "connect"]) {
            const what = `${name} behind ${body.slice(0, 20)}`;
            const reply = await send(front, verb(name), mine.sandboxID);
            expectFailure(reply, [500], what);
            for (const secret of [claim.token, other.sandboxID, claim.id]) {
              assert.ok(!reply.text.includes(secret), what);
            }
          }
          // An id that nobody has, which the node nevertheless claims to know.
          expectFailure(await send(front, verb("get"), "sb-00000000000000aa"), [404, 503], `an unknown id, ${body}`);
          if (!body.includes("ns1/x")) {
            // A node that puts it into the namespace of the key is believed: it alone knows its sandboxes.
            expectFailure(await send(front, verb("kill"), other.sandboxID), [404, 503], "another namespace's sandbox");
          }
        }
        await a.fail();
        assert.equal((await send(front, verb("get"), mine.sandboxID)).status, 200);
      },
    ),
    rigRow(
      context,
      "F15",
      "a node that advertises another one's address: one node, no claim lost or doubled",
      async (rig) => {
        const a = await rig.node();
        const liar = await rig.node({ advertise: a.address, pools: [pool(IMAGE, 5)] });
        const front = await rig.front({ seeds: `${a.address},${liar.address}` });
        const made = [await rig.created(front), await rig.created(front), await rig.created(front)];
        assert.deepEqual([...new Set(made.map((one) => one.clientID))], [a.address]);
        assert.equal(rig.requests(liar, "claim").length, 0, "claims go to the address that is named");
        await rig.ticks(3);
        assert.deepEqual(await listed(front), made.map((one) => one.sandboxID).toSorted());
        for (const { sandboxID } of made) {
          assert.equal((await send(front, verb("get"), sandboxID)).status, 200);
        }
        const [first] = made;
        assert.equal((await send(front, verb("kill"), first?.sandboxID ?? "")).status, 204);
        assert.equal((await send(front, verb("get"), first?.sandboxID ?? "")).status, 404);
        // Learned by gossip it is a second spelling of the first one, and no member.
        await a.say({ peers: [liar.address] });
        const told = await rig.front({ seeds: a.address });
        await rig.ticks(3);
        const polls = rig.requests(liar, "info").length;
        assert.equal((await rig.created(told)).clientID, a.address);
        await liar.say({ advertise: "" });
        await rig.ticks(2);
        assert.ok(rig.requests(liar, "info").length - polls <= 8, "polls of a node that is none");
        assert.equal((await rig.created(told)).clientID, a.address);
      },
    ),
    rigRow(context, "F16b", "an index that stalls or drips delays no other node and no read", async (rig) => {
      const [a, b] = [await rig.node(), await rig.node()];
      const front = await rig.front();
      const onA = await rig.created(front);
      for (const act of [{ kind: "stall" }, { kind: "trickle", everyMs: 100 }, { kind: "hang" }] as const) {
        await rig.ticks(2);
        const slow = onA.clientID === a.address ? b : a;
        const quickNode = slow === a ? b : a;
        await slow.fail({ route: "index", when: "after", act }, { route: "sandbox", when: "after", act });
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
        await a.fail(afterClaim({ kind: "delay", ms: 10 }));
      },
    ),
  ];
}
