import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { Sandbox, SandboxError, ServiceBusyError } from "e2b-2.51";

import { callApi } from "../../src/api.ts";
import { waitFor } from "../../src/polling.ts";
import { IMAGE } from "../../src/rig.ts";
import { pool } from "../../src/scripted-node.ts";
import type { FaultRig } from "../../src/fault-rig.ts";
import type { Front } from "../../src/front.ts";
import {
  afterClaim,
  answers,
  before,
  type FaultContext,
  type FaultRow,
  listed,
  rigRow,
  sdkOptions,
  timed,
  PROMPT_MS,
  BOUND_MS,
} from "./context.ts";

/** Creates until one fails, and answers what it said. Those before it are on other nodes. */
const createUntilRefused = async (rig: FaultRig, front: Front, status: number): Promise<string> => {
  for (let tries = 0; tries < 40; tries += 1) {
    const reply = await rig.create(front);
    if (reply.status !== 201) {
      assert.equal(reply.status, status, `create answered ${reply.status} ${reply.text.slice(0, 200)}`);
      return (JSON.parse(reply.text) as { message: string }).message;
    }
  }
  throw new Error("no create met the failing node");
};

/** No create was sent to two nodes without a redirect between them. */
const assertAskedOnce = (rig: FaultRig): void => {
  const seen = new Map<string, string>();
  for (const node of rig.nodes) {
    for (const { claimRef = "" } of rig.requests(node, "claim")) {
      const other = seen.get(claimRef);
      assert.equal(other, undefined, `claim ${claimRef} was sent to ${other} and ${node.name}`);
      seen.set(claimRef, node.name);
    }
  }
};

/** Answers of load balancers and proxies before a node that is not there. */
const BALANCER: readonly (readonly [status: number, type: string, body: string])[] = [
  [502, "text/html", "<html><body><h1>502 Bad Gateway</h1></body></html>"],
  [503, "text/plain", "no healthy upstream"],
  [504, "text/plain", "upstream request timeout"],
  [500, "application/json", '{"error":"failed to place sandbox"}'],
  [429, "text/plain", "slow down"],
];

/** What is no claim reply although the node has delivered. Every one of them ends the create. */
const GARBAGE: readonly (readonly [what: string, body: string, pad?: number])[] = [
  ["no JSON", "delivered!"],
  ["truncated JSON", '{"id":"$ID","token":"$TOK'],
  ["a body of 20 MB", '{"id":"$ID","token":"$TOKEN","pad":"$PAD"}', 20 << 20],
  ["a sandbox without a token", '{"id":"$ID"}'],
  ["a token that no header can carry", '{"id":"$ID","token":"a\\nb"}'],
  ["an id that is no path segment", '{"id":"../../v1/drain","token":"$TOKEN"}'],
  ["an array", '[{"id":"$ID","token":"$TOKEN"}]'],
  ["null", "null"],
  ["nothing", ""],
];

/** What says in a valid body that nothing was delivered. */
const EMPTY: readonly string[] = [
  "{}",
  '{"id":""}',
  '{"id":7,"token":"t"}',
  '{"redirect":[]}',
  '{"redirect":[1,null]}',
];

/** F1 to F3, and what a node may answer to a claim. */
export function claimRows(context: FaultContext): readonly FaultRow[] {
  return [
    rigRow(
      context,
      "F1a",
      "a node that is gone before the claim: another one delivers, and alone it is 503",
      async (rig) => {
        const [a, b] = [await rig.node(), await rig.node()];
        const front = await rig.front();
        await a.kill();
        for (let count = 0; count < 12; count += 1) {
          assert.equal((await rig.created(front)).clientID, b.address);
        }
        await b.kill();
        const { value: message, ms } = await timed(() => rig.refused(front, 503));
        assert.match(message, /"base".*retry/, "it names the template and that a retry helps");
        assert.ok(ms < PROMPT_MS, `refused connections took ${Math.round(ms)} ms`);
        await rig.ticks(5);
        assert.deepEqual(await listed(front), [], "nodes that are gone are not listed");
        assert.match(await rig.refused(front, 503), /"base".*retry/);
      },
      true,
    ),
    rigRow(
      context,
      "F1b",
      "the SDK sees a busy service when every node is gone, and goes on with another",
      async (rig) => {
        const [a, b] = [await rig.node(), await rig.node()];
        const front = await rig.front();
        const options = { ...sdkOptions(front), timeoutMs: 60_000 };
        await a.kill();
        const sandbox = await Sandbox.create(options);
        rig.answered.push({ sandboxID: sandbox.sandboxId, clientID: b.address, templateID: IMAGE });
        await sandbox.kill();
        await b.kill();
        await assert.rejects(
          Sandbox.create(options),
          (error: unknown) => error instanceof ServiceBusyError && /"base".*retry/.test(error.message),
        );
      },
    ),
    rigRow(context, "F1c", "an image that the silent nodes offered is 503, not an unknown template", async (rig) => {
      const a = await rig.node();
      const front = await rig.front();
      await rig.created(front, { templateID: IMAGE });
      await a.kill();
      await rig.refused(front, 503, { templateID: IMAGE });
      await rig.ticks(6);
      await rig.refused(front, 503, { templateID: IMAGE });
    }),
    rigRow(
      context,
      "F2",
      "a node that dies with the claim in its hands: 500, no other node is asked, no sandbox",
      async (rig) => {
        const [a] = [await rig.node(), await rig.node()];
        const front = await rig.front();
        await a.fail(before("claim", { kind: "die" }));
        const message = await createUntilRefused(rig, front, 500);
        assert.match(message, /could not be created/);
        assertAskedOnce(rig);
        assert.deepEqual(rig.orphans(), []);
        for (let count = 0; count < 6; count += 1) {
          await rig.created(front);
        }
      },
      true,
    ),
    rigRow(
      context,
      "F3a",
      "a reply lost behind a delivery: 500, no second sandbox, the first one released before its lease ends",
      async (rig) => {
        const [a] = [await rig.node(), await rig.node()];
        const front = await rig.front();
        await a.fail(afterClaim({ kind: "cut" }, 1));
        assert.match(await createUntilRefused(rig, front, 500), /could not be created/);
        assertAskedOnce(rig);
        assert.equal(rig.orphans().length, 1, "the node had delivered");
        await rig.orphansReleased(8_000);
        assert.ok(!(await listed(front)).some((id) => rig.orphans()[0]?.id === id.replace("sb-", "sb_")));
      },
      true,
    ),
    rigRow(context, "F3b", "a node that dies behind its delivery: released once it is back with it", async (rig) => {
      const [a] = [await rig.node(), await rig.node()];
      const front = await rig.front();
      await a.fail(afterClaim({ kind: "die" }, 1));
      await createUntilRefused(rig, front, 500);
      assertAskedOnce(rig);
      assert.equal(rig.orphans().length, 1);
      await rig.ticks(6);
      await a.say({ faults: [] });
      await a.restart();
      await rig.orphansReleased(8_000);
    }),
    rigRow(context, "F3c", "node and front die behind a delivery: its lease ends it", async (rig) => {
      const a = await rig.node();
      const front = await rig.front();
      await a.fail(afterClaim({ kind: "die" }, 1));
      await rig.refused(front, 500, { timeout: 12 });
      front.process.signal("SIGKILL");
      await front.process.ended;
      rig.fronts.length = 0;
      await a.say({ faults: [] });
      await a.restart();
      assert.equal(a.claims().length, 1, "it came back with what it had delivered");
      await rig.front();
      await waitFor("the end of its lease", () => a.claims().length === 0, 20_000);
      assert.equal(a.journal().filter((line) => line.kind === "ended" && line.why === "expired").length, 1);
    }),
    rigRow(context, "F3d", "the SDK tells a lost reply from a wrong key and from a busy service", async (rig) => {
      const a = await rig.node();
      const front = await rig.front();
      const options = sdkOptions(front);
      await a.fail(afterClaim({ kind: "cut" }, 1));
      await assert.rejects(
        Sandbox.create({ ...options, timeoutMs: 60_000 }),
        (error: unknown) =>
          error instanceof SandboxError &&
          error.constructor === SandboxError &&
          error.message === "500: the sandbox could not be created",
      );
      assert.equal(rig.requests(a, "claim").length, 1, "the SDK does not try again");
      await rig.orphansReleased(8_000);
      assert.deepEqual(await Sandbox.list(options).nextItems(), []);
    }),
    rigRow(context, "F3e", "a client that hangs up during a slow claim leaves no sandbox behind", async (rig) => {
      const a = await rig.node();
      const front = await rig.front();
      await a.fail(before("claim", { kind: "delay", ms: 1_500 }));
      const calls = [100, 300, 700].map(async (ms) => {
        const gone = AbortSignal.timeout(ms);
        await assert.rejects(
          fetch(`${front.facts.apiUrl}/v2/sandboxes`, {
            method: "POST",
            signal: gone,
            headers: { "x-api-key": front.facts.keys.one, "content-type": "application/json" },
            body: JSON.stringify({ templateID: "base", timeout: 60 }),
          }),
        );
      });
      await Promise.all(calls);
      await waitFor("the late deliveries", () => rig.orphans().length === 3, 5_000);
      await rig.orphansReleased(3_000);
    }),
    rigRow(
      context,
      "F13",
      "a 200 that is no claim reply: 500 each time, nothing is asked for twice, every delivery is released",
      async (rig) => {
        const a = await rig.node();
        const front = await rig.front();
        for (const [what, body, pad] of GARBAGE) {
          await a.fail(afterClaim({ kind: "reply", status: 200, body, ...(pad === undefined ? {} : { pad }) }, 1));
          const { value: message, ms } = await timed(() => rig.refused(front, 500));
          assert.match(message, /could not be created/, what);
          assert.ok(ms < PROMPT_MS, `${what} took ${Math.round(ms)} ms`);
        }
        assert.equal(rig.orphans().length, GARBAGE.length);
        assertAskedOnce(rig);
        await rig.orphansReleased(8_000);
        for (const body of EMPTY) {
          await a.fail(before("claim", { kind: "reply", status: 200, body }));
          await rig.refused(front, 503);
        }
      },
      true,
    ),
    rigRow(
      context,
      "F16a",
      "a claim reply that stalls behind its headers is given up within its bound",
      async (rig) => {
        const a = await rig.node();
        const front = await rig.front();
        await a.fail(afterClaim({ kind: "stall" }), before("release", { kind: "delay", ms: 200 }));
        const slow = timed(() => rig.refused(front, 500));
        await delay(500);
        assert.equal((await callApi(front.facts, "GET", "/health", { key: null })).status, 204);
        const { value: message, ms } = await slow;
        assert.match(message, /could not be created/);
        assert.ok(ms > 5_000 && ms < BOUND_MS, `given up after ${Math.round(ms)} ms`);
        await a.fail(afterClaim({ kind: "trickle", everyMs: 700 }));
        const dripping = await timed(() => rig.refused(front, 500));
        assert.ok(dripping.ms < BOUND_MS, `given up after ${Math.round(dripping.ms)} ms`);
        await rig.orphansReleased(10_000);
      },
    ),
    rigRow(
      context,
      "F21",
      "a load balancer's own answers: another node is asked, and no client ever sees them",
      async (rig) => {
        const [a, b] = [await rig.node(), await rig.node()];
        const front = await rig.front();
        for (const [status, type, body] of BALANCER) {
          await a.fail(before("claim", { kind: "reply", status, type, body }));
          for (let count = 0; count < 4; count += 1) {
            assert.equal((await rig.created(front)).clientID, b.address, `beside a ${status}`);
          }
        }
        await b.say({ pools: [pool(IMAGE, 0)] });
        await rig.ticks(2);
        for (const [status, type, body] of BALANCER) {
          await a.fail(before("claim", { kind: "reply", status, type, body }));
          const message = await rig.refused(front, 503);
          assert.ok(!message.includes(body.slice(0, 12)), message);
        }
        for (const status of [401, 403, 404, 418]) {
          await a.fail(before("claim", answers(status, "a reason of the node")));
          const message = await rig.refused(front, 500);
          assert.ok(!message.includes("a reason of the node"), `${status}: ${message}`);
        }
        for (const status of [400, 409]) {
          await a.fail(before("claim", answers(status, "metadata: too many pairs")));
          assert.match(await rig.refused(front, status), /metadata: too many pairs/);
        }
      },
      true,
    ),
    rigRow(context, "F17a", "a node that closes idle connections at any moment costs no sandbox", async (rig) => {
      const a = await rig.node({ pools: [pool(IMAGE, 1_000)] });
      const front = await rig.front();
      await a.say({ idleMs: 1 });
      const failed: number[] = [];
      for (let count = 0; count < 120; count += 1) {
        const reply = await rig.create(front);
        if (reply.status !== 201) {
          failed.push(reply.status);
        }
        await delay(count % 5);
      }
      // A connection that is closed under a claim leaves open whether it was delivered: that one may fail, as 500. A
      // front that does not notice closed connections would lose most of them.
      assert.ok(failed.length <= 40, `${failed.length} of 120 creates failed: ${failed.join(" ")}`);
      assert.deepEqual(
        [...new Set(failed)].filter((status) => status !== 500),
        [],
      );
      await a.say({ idleMs: 0 });
      for (const { sandboxID } of rig.answered) {
        assert.equal((await callApi(front.facts, "GET", `/sandboxes/${sandboxID}`)).status, 200, sandboxID);
      }
    }),
  ];
}
