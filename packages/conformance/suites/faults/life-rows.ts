import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { RateLimitError, Sandbox } from "e2b-2.51";

import { callApi, type Created, expectError, type Reply, runInGuest } from "../../src/api.ts";
import type { Front } from "../../src/front.ts";
import { waitFor } from "../../src/polling.ts";
import { type FaultContext, type FaultRow, rigRow, sdkOptions, send, verb } from "./context.ts";

const stateOf = async (front: Front, id: string): Promise<string> => {
  const reply = await send(front, verb("get"), id);
  assert.equal(reply.status, 200, `get answered ${reply.status} ${reply.text}`);
  return (JSON.parse(reply.text) as { state: string }).state;
};

/** Sends a pause and a connect at the same instant, each through a front. Answers which one answered last. */
const race = async (pausing: Front, waking: Front, id: string, timeout: number): Promise<"paused" | "running"> => {
  let last: "paused" | "running" = "running";
  const pause = async (): Promise<void> => {
    const { status, text } = await send(pausing, verb("pause"), id);
    assert.ok([204, 409].includes(status), `pause answered ${status} ${text}`);
    last = "paused";
  };
  const connect = async (): Promise<void> => {
    const { status, text } = await callApi(waking.facts, "POST", `/v2/sandboxes/${id}/connect`, { body: { timeout } });
    assert.ok([200, 201].includes(status), `connect answered ${status} ${text}`);
    last = "running";
  };
  await Promise.all(timeout % 2 === 0 ? [pause(), connect()] : [connect(), pause()]);
  return last;
};

const createOnce = (front: Front, key: string, body: object): Promise<Reply> =>
  callApi(front.facts, "POST", "/v2/sandboxes", {
    body: { templateID: "base", timeout: 120, ...body },
    headers: { "idempotency-key": key },
  });

/** F23 to F26: pauses against connects, creates that are repeated, why a sandbox is gone, limits. */
export function lifeRows(context: FaultContext): readonly FaultRow[] {
  const { isolation } = context;
  return [
    rigRow(
      context,
      "F23",
      "a pause and a connect at the same instant, 200 times: the sandbox is what the last answer said",
      async (rig) => {
        const { key, admin } = await rig.guestNode({ warm: 2, isolation });
        const at = { seeds: key, nodeAddresses: [admin.address], mode: "secret" as const };
        const front = await rig.front(at);
        const sandbox = await rig.created(front, { timeout: 300 });
        const { sandboxID } = sandbox;
        await runInGuest(front.facts, sandbox, "echo kept > note");
        const seen = new Set<string>();
        for (let round = 0; round < 200; round += 1) {
          // Some connects renew the lease, some do not.
          const last = await race(front, front, sandboxID, round % 3 === 0 ? 400 + round : 1 + (round % 2));
          assert.equal(await stateOf(front, sandboxID), last, `round ${round}`);
          seen.add(last);
        }
        assert.equal(seen.size, 2, "both were last at times");
        const other = await rig.front(at);
        for (let round = 0; round < 40; round += 1) {
          await race(front, other, sandboxID, 400 + round);
          assert.equal(await stateOf(front, sandboxID), await stateOf(other, sandboxID), `replicas, round ${round}`);
        }
        assert.equal((await send(other, verb("connect"), sandboxID)).status < 300, true);
        assert.equal(await runInGuest(other.facts, sandbox, "cat note"), "kept\n");
        assert.equal((await send(front, verb("kill"), sandboxID)).status, 204);
      },
    ),
    rigRow(
      context,
      "F24",
      "a create with an Idempotency-Key is one sandbox behind a SIGKILL of its front, and at a replica",
      async (rig) => {
        const { key, admin } = await rig.guestNode({ warm: 3, isolation });
        const at = { seeds: key, nodeAddresses: [admin.address], mode: "secret" as const };
        const first = await rig.front(at);
        const body = { envVars: { GREETING: "once" } };
        const made = await createOnce(first, "life-1", body);
        assert.equal(made.status, 201, made.text);
        const sandbox = JSON.parse(made.text) as Created;
        rig.secrets.push(sandbox.envdAccessToken ?? "", "life-1");
        first.process.signal("SIGKILL");
        await first.process.ended;
        rig.fronts.length = 0;
        const fronts = [await rig.front(at), await rig.front(at)];
        for (const front of fronts) {
          const again = await createOnce(front, "life-1", body);
          assert.deepEqual([again.status, JSON.parse(again.text)], [201, sandbox]);
          assert.equal(again.headers["idempotent-replayed"], "true");
          expectError(await createOnce(front, "life-1", { envVars: { GREETING: "twice" } }), 409, "another body");
          assert.equal(await runInGuest(front.facts, sandbox, 'echo "$GREETING"'), "once\n");
        }
        const [one, two] = fronts;
        assert.ok(one !== undefined && two !== undefined);
        assert.equal((await admin.sandboxes()).length, 1, "sandboxes");
        assert.equal((await send(two, verb("kill"), sandbox.sandboxID)).status, 204);
        const next = await createOnce(one, "life-1", body);
        assert.equal(next.status, 201, next.text);
        const { sandboxID, envdAccessToken = "" } = JSON.parse(next.text) as Created;
        rig.secrets.push(envdAccessToken);
        assert.notEqual(sandboxID, sandbox.sandboxID, "a new one after the first was killed at a replica");
        assert.equal((await send(one, verb("kill"), sandboxID)).status, 204);
      },
    ),
    rigRow(context, "F25", "the 404 of a sandbox says that it was killed, or that its node is lost", async (rig) => {
      const a = await rig.node();
      const b = await rig.node({ pools: [] });
      const front = await rig.front();
      const killed = await rig.created(front);
      const lost = await rig.created(front);
      assert.equal(lost.clientID, a.address);
      assert.equal((await send(front, verb("kill"), killed.sandboxID)).status, 204);
      const reason = async (id: string, key?: string): Promise<string> =>
        expectError(await callApi(front.facts, "GET", `/sandboxes/${id}`, key === undefined ? {} : { key }), 404, id);
      assert.match(await reason(killed.sandboxID), /^sandbox not found: it was killed at \d{4}-/);
      assert.equal(await reason(killed.sandboxID, front.facts.keys.two), "sandbox not found");
      await a.kill();
      const gone = async (): Promise<boolean> => (await send(front, verb("get"), lost.sandboxID)).status === 404;
      await waitFor("a 404 once the node is given up", gone, 15_000, 200);
      assert.match(await reason(lost.sandboxID), new RegExp(`^sandbox not found: its node ${a.address} is lost; `));
      assert.equal(await reason("sb-0000000000000000"), "sandbox not found");
      await a.restart(() => false);
      await delay(100);
      assert.ok(b.process.running());
    }),
    rigRow(
      context,
      "F26",
      "a create over create_per_minute: the SDK waits the minute out and succeeds",
      async (rig) => {
        await rig.node();
        const front = await rig.front();
        const { rated: apiKey } = front.facts.keys;
        const options = { ...sdkOptions(front), apiKey, timeoutMs: 120_000 };
        const begun = performance.now();
        const made = [await Sandbox.create(options), await Sandbox.create(options)];
        // Its own limit for a request leaves no time for the wait that it is told.
        await assert.rejects(Sandbox.create({ ...options, requestTimeoutMs: 20_000 }), RateLimitError);
        made.push(await Sandbox.create({ ...options, requestTimeoutMs: 90_000 }));
        const tookMs = performance.now() - begun;
        assert.ok(tookMs >= 59_000 && tookMs < 80_000, `the third came after ${Math.round(tookMs)} ms`);
        assert.equal(new Set(made.map(({ sandboxId }) => sandboxId)).size, 3);
        for (const { sandboxId } of made) {
          assert.equal(await Sandbox.kill(sandboxId, options), true);
        }
      },
    ),
  ];
}
