import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { callApi, type Created } from "../../src/api.ts";
import { TICK_MS } from "../../src/fault-rig.ts";
import { IMAGE } from "../../src/rig.ts";
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
  PROMPT_MS,
} from "./context.ts";

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
  ["Infinity", "either"],
];

/** Nodes that say what is not so: counts, redirects, addresses, rows of others. */
export function lieRows(context: FaultContext): readonly FaultRow[] {
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
        const [asked, followed] = [a, b].map((node) => rig.requests(node, "claim").at(-1));
        assert.equal(asked?.claimRef, followed?.claimRef, "the same claim at both");
        assert.deepEqual([asked?.noRedirect, followed?.noRedirect], [undefined, true], "the hop is the last one");
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
  ];
}
