import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { getSignature, Sandbox } from "e2b-2.51";

import { callApi, callProxy, type Created, runInGuest } from "../../src/api.ts";
import { type FaultRig, type RigFrontOptions, TICK_MS } from "../../src/fault-rig.ts";
import type { Front } from "../../src/front.ts";
import { waitFor } from "../../src/polling.ts";
import { expectFailure, type FaultContext, type FaultRow, listed, rigRow, sdkOptions, send, verb } from "./context.ts";

const SHIFT_MS = 90_000;
const PRELOAD = new URL("../../src/shifted-clock.ts", import.meta.url).href;

interface Detail {
  readonly sandboxID: string;
  readonly state: string;
  readonly startedAt: string;
  readonly endAt: string;
}

interface Fronts {
  readonly ahead: Front;
  readonly behind: Front;
}

/** Two fronts over the same nodes, whose wall clocks are wrong by the same in both directions. */
const wrongClocks = async (rig: FaultRig, options: RigFrontOptions = {}): Promise<Fronts> => {
  const at = (ms: number): Promise<Front> =>
    rig.front({ ...options, env: { NODE_OPTIONS: `--import=${PRELOAD}`, SHIFTED_CLOCK_MS: String(ms) } });
  const [ahead, behind] = await Promise.all([at(SHIFT_MS), at(-SHIFT_MS)]);
  for (const [front, ms] of [
    [ahead, SHIFT_MS],
    [behind, -SHIFT_MS],
  ] as const) {
    const [, time = ""] = /"time":"([^"]*)"/.exec(front.log()) ?? [];
    const off = Date.parse(time) - Date.now();
    assert.ok(Math.abs(off - ms) < 20_000, `the front's clock is off by ${off} ms`);
  }
  return { ahead, behind };
};

const detail = async (front: Front, id: string): Promise<Detail> => {
  const reply = await send(front, verb("get"), id);
  assert.equal(reply.status, 200, `get answered ${reply.status} ${reply.text.slice(0, 200)}`);
  return JSON.parse(reply.text) as Detail;
};

/** Seconds that a sandbox has left by the true clock. */
const left = async (front: Front, id: string): Promise<number> =>
  (Date.parse((await detail(front, id)).endAt) - Date.now()) / 1000;

const near = (value: number, wanted: number, what: string): void =>
  assert.ok(Math.abs(value - wanted) <= 5, `${what}: ${value.toFixed(1)} s, expected about ${wanted} s`);

/** F7: fronts whose wall clock is wrong. What nodes grant and say is by the nodes' clocks, and holds. */
export function clockRows(context: FaultContext): readonly FaultRow[] {
  return [
    rigRow(
      context,
      "F7a",
      "a front whose clock is 90 s off reports starts, ends and states as they are",
      async (rig) => {
        await rig.node();
        const { ahead, behind } = await wrongClocks(rig);
        for (const front of [ahead, behind]) {
          const other = front === ahead ? behind : ahead;
          const made = await rig.created(front, { timeout: 60 });
          const brief = await rig.created(front, { timeout: 10 });
          await delay(2 * TICK_MS);
          for (const reader of [front, other]) {
            const known = await detail(reader, made.sandboxID);
            assert.equal(known.state, "running");
            assert.ok(known.startedAt <= known.endAt, `${known.startedAt} to ${known.endAt}`);
            near((Date.parse(known.startedAt) - Date.now()) / 1000, 0, "its start");
            near((Date.parse(known.endAt) - Date.now()) / 1000, 60, "its end");
            const list = JSON.parse((await callApi(reader.facts, "GET", "/v2/sandboxes")).text) as Detail[];
            assert.deepEqual(
              list.map((item) => item.sandboxID).toSorted(),
              [made.sandboxID, brief.sandboxID].toSorted(),
              "nothing ends early",
            );
            for (const item of list) {
              assert.equal(item.state, "running");
              assert.ok(item.startedAt <= item.endAt);
            }
          }
          await delay(1_000);
          assert.equal((await send(other, verb("get"), brief.sandboxID)).status, 200, "before its end");
          for (const reader of [front, other]) {
            await waitFor(
              "the end of the brief one",
              async () => !(await listed(reader)).includes(brief.sandboxID),
              15_000,
            );
            expectFailure(await send(reader, verb("get"), brief.sandboxID), [404], "behind its end");
          }
          assert.equal((await send(other, verb("kill"), made.sandboxID)).status, 204);
          await delay(2 * TICK_MS);
        }
      },
    ),
    rigRow(context, "F7b", "with a wrong clock, connect gives at least what was asked for", async (rig) => {
      await rig.node();
      const { ahead, behind } = await wrongClocks(rig);
      for (const front of [ahead, behind]) {
        const name = front === ahead ? "ahead" : "behind";
        const { sandboxID } = await rig.created(front, { timeout: 20 });
        await callApi(front.facts, "POST", `/v2/sandboxes/${sandboxID}/connect`, { body: { timeout: 60 } });
        near(await left(front, sandboxID), 60, `left after connect for 60 s of one with 20 s left, clock ${name}`);
      }
    }),
    rigRow(context, "F7c", "with a wrong clock, neither connect nor resume shortens a lease", async (rig) => {
      await rig.node();
      const { ahead, behind } = await wrongClocks(rig);
      for (const front of [behind, ahead]) {
        const name = front === ahead ? "ahead" : "behind";
        const { sandboxID } = await rig.created(front, { timeout: 300 });
        await callApi(front.facts, "POST", `/v2/sandboxes/${sandboxID}/connect`, { body: { timeout: 250 } });
        near(await left(front, sandboxID), 300, `left after connect for 250 s of one with 300 s left, clock ${name}`);
        for (const body of [{ timeout: 250 }, { timeout: 250, autoPause: false }]) {
          assert.equal((await send(front, verb("pause"), sandboxID)).status, 204);
          const resumed = await callApi(front.facts, "POST", `/sandboxes/${sandboxID}/resume`, { body });
          assert.equal(resumed.status, 201, resumed.text);
          const now = await left(front, sandboxID);
          assert.ok(now > 290, `${now.toFixed(1)} s left after resume for 250 s of one with 300 s, clock ${name}`);
        }
      }
    }),
    rigRow(context, "F7d", "with wrong clocks, timeouts, refreshes and pages across fronts work", async (rig) => {
      await rig.node();
      await rig.node();
      const { ahead, behind } = await wrongClocks(rig);
      const made: Created[] = [];
      for (let count = 0; count < 7; count += 1) {
        made.push(await rig.created(count % 2 === 0 ? ahead : behind, { timeout: 120 }));
        await delay(5);
      }
      const [first] = made;
      assert.ok(first !== undefined);
      for (const front of [ahead, behind]) {
        const shorter = await callApi(front.facts, "POST", `/sandboxes/${first.sandboxID}/timeout`, {
          body: { timeout: 45 },
        });
        assert.equal(shorter.status, 204, shorter.text);
        near(await left(front, first.sandboxID), 45, "left after a shorter timeout");
        const longer = await callApi(front.facts, "POST", `/sandboxes/${first.sandboxID}/refreshes`, {
          body: { duration: 200 },
        });
        assert.equal(longer.status, 204, longer.text);
        near(await left(front, first.sandboxID), 200, "left after a refresh");
      }
      await rig.ticks(2);
      for (const order of ["asc", "desc"]) {
        const seen: string[] = [];
        let token = "";
        for (let page = 0; page < 10; page += 1) {
          const front = page % 2 === 0 ? ahead : behind;
          const query = `limit=2&order=${order}${token === "" ? "" : `&nextToken=${encodeURIComponent(token)}`}`;
          const reply = await callApi(front.facts, "GET", `/v2/sandboxes?${query}`);
          assert.equal(reply.status, 200, reply.text);
          seen.push(...(JSON.parse(reply.text) as Detail[]).map((item) => item.sandboxID));
          const next = reply.headers["x-next-token"];
          if (typeof next !== "string" || next === "") {
            break;
          }
          token = next;
        }
        const inOrder = made.map((one) => one.sandboxID);
        assert.deepEqual(seen, order === "asc" ? inOrder : inOrder.toReversed(), `pages in order ${order}`);
      }
    }),
    rigRow(
      context,
      "F7e",
      "with wrong clocks, guests, their tokens and signed URLs work through every front",
      async (rig) => {
        const { key } = await rig.guestNode({ warm: 3, isolation: context.isolation });
        const { ahead, behind } = await wrongClocks(rig, { seeds: key, mode: "secret" });
        for (const maker of [ahead, behind]) {
          const other = maker === ahead ? behind : ahead;
          const sandbox = await rig.created(maker, { envVars: { GREETING: "hello" } });
          const connected = await send(other, verb("connect"), sandbox.sandboxID);
          assert.equal(connected.status, 200, connected.text);
          const again = JSON.parse(connected.text) as Created;
          assert.equal(again.envdAccessToken, sandbox.envdAccessToken, "the same token from both");
          for (const front of [maker, other]) {
            const output = await runInGuest(front.facts, again, "echo $GREETING | tee note; date +%s");
            const [greeting, seconds] = output.split("\n");
            assert.equal(greeting, "hello");
            near(Number(seconds) - Date.now() / 1000, 0, "the guest's clock");
            for (const [expires, status] of [
              [30, 200],
              [-10, 401],
            ] as const) {
              const signed = await getSignature({
                path: "note",
                operation: "read",
                user: "user",
                // The SDK counts from its own clock, which is right.
                ...(expires > 0 ? { expirationInSeconds: expires } : {}),
                envdAccessToken: sandbox.envdAccessToken ?? "",
              });
              const expiration = expires > 0 ? signed.expiration : Math.floor(Date.now() / 1000) + expires;
              const query = new URLSearchParams({ path: "note", username: "user", signature: signed.signature });
              query.set("signature_expiration", String(expiration));
              const reply = await callProxy(front.facts.proxyUrl, "GET", `/files?${query.toString()}`, {
                "e2b-sandbox-id": sandbox.sandboxID,
                "e2b-sandbox-port": "49983",
              });
              assert.equal(reply.status, status, `a URL that expires in ${expires} s: ${reply.text.slice(0, 100)}`);
            }
          }
          assert.equal((await send(other, verb("kill"), sandbox.sandboxID)).status, 204);
        }
      },
    ),
    rigRow(context, "F7f", "the SDK works through fronts whose clocks are wrong", async (rig) => {
      const { key } = await rig.guestNode({ warm: 3, isolation: context.isolation });
      const { ahead, behind } = await wrongClocks(rig, { seeds: key, mode: "secret" });
      for (const front of [ahead, behind]) {
        const options = sdkOptions(front);
        const sandbox = await Sandbox.create({ ...options, timeoutMs: 60_000 });
        rig.answered.push({ sandboxID: sandbox.sandboxId, clientID: key, templateID: "" });
        const info = await sandbox.getInfo();
        assert.equal(info.state, "running");
        assert.ok(info.startedAt <= info.endAt);
        near((info.endAt.getTime() - Date.now()) / 1000, 60, "its end");
        assert.equal((await sandbox.commands.run("echo out")).stdout, "out\n");
        await sandbox.setTimeout(90_000);
        near(((await sandbox.getInfo()).endAt.getTime() - Date.now()) / 1000, 90, "its end behind setTimeout");
        await sandbox.files.write("note", "kept");
        assert.equal(await sandbox.isRunning(), true);
        await sandbox.pause();
        assert.equal((await Sandbox.getInfo(sandbox.sandboxId, options)).state, "paused");
        const elsewhere = await Sandbox.connect(sandbox.sandboxId, sdkOptions(front === ahead ? behind : ahead));
        assert.equal(await elsewhere.files.read("note"), "kept");
        const items = await Sandbox.list(options).nextItems();
        assert.ok(items.some((item) => item.sandboxId === sandbox.sandboxId && item.startedAt <= item.endAt));
        assert.equal(await elsewhere.kill(), true);
      }
    }),
    rigRow(
      context,
      "F7g",
      "nodes that tell times in zones of their own: starts, ends, leases and pages are right",
      async (rig) => {
        await rig.node({ zoneMinutes: 330 });
        await rig.node({ zoneMinutes: -570 });
        const front = await rig.front();
        const made: string[] = [];
        for (let count = 0; count < 8; count += 1) {
          made.push((await rig.created(front, { timeout: 60 })).sandboxID);
          await delay(5);
        }
        await rig.ticks(2);
        for (const id of made) {
          const known = await detail(front, id);
          assert.match(known.startedAt, /Z$/);
          near((Date.parse(known.startedAt) - Date.now()) / 1000, 0, "its start");
          near((Date.parse(known.endAt) - Date.now()) / 1000, 60, "its end");
        }
        const list = await callApi(front.facts, "GET", "/v2/sandboxes?order=asc&limit=100");
        assert.deepEqual(
          (JSON.parse(list.text) as Detail[]).map((item) => item.sandboxID),
          made,
          "oldest first",
        );
        const [first = ""] = made;
        assert.equal((await send(front, verb("connect"), first)).status, 200);
        near(await left(front, first), 60, "left after connect for 60 s");
        await callApi(front.facts, "POST", `/v2/sandboxes/${first}/connect`, { body: { timeout: 200 } });
        near(await left(front, first), 200, "left after connect for 200 s");
        await callApi(front.facts, "POST", `/v2/sandboxes/${first}/connect`, { body: { timeout: 100 } });
        near(await left(front, first), 200, "left after connect for less");
      },
    ),
  ];
}
