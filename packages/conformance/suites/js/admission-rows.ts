import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { isApiError, rejects, type RawReply, type Row, type RowContext } from "./context.ts";

const CREATE = { templateID: "base", timeout: 60 };

const seconds = (reply: RawReply): number => {
  const header = String(reply.headers["retry-after"]);
  assert.match(header, /^[1-9]\d*$/, "Retry-After");
  return Number(header);
};

const wakes = async (context: RowContext): Promise<number> => {
  const counts = await Promise.all(context.nodes.map((node) => node.wakes()));
  return counts.reduce((sum, count) => sum + count, 0);
};

/** Limits of keys, creates that are sent twice, many requests that wake one sandbox. */
export const admissionRows: Readonly<Record<string, Row>> = {
  AD1: async (context) => {
    const { limited } = context.rig.keys;
    const first = await context.create(context.options(limited));
    const refused = await context.raw("POST", "/v2/sandboxes", { key: limited, body: CREATE });
    assert.match(isApiError(refused, 429), /max_sandboxes=1\b.*--e2b-api-key-file/);
    seconds(refused);
    assert.equal(refused.headers["ratelimit"], '"max_sandboxes";r=0');
    const never = context.create({ ...context.options(limited), retries: 0 });
    await rejects(never, context.sdk.RateLimitError, /max_sandboxes=1/);
    // The SDK waits as it is told, and tries again.
    const second = context.create(context.options(limited));
    await delay(200);
    await first.kill();
    assert.equal((await (await second).commands.run("echo room")).stdout, "room\n");
    await (await second).kill();
  },

  AD2: async (context) => {
    const { rated } = context.rig.keys;
    for (let made = 0; ; made += 1) {
      assert.ok(made <= 2, "more than create_per_minute=2");
      const reply = await context.raw("POST", "/v2/sandboxes", { key: rated, body: CREATE });
      if (reply.status !== 201) {
        assert.match(isApiError(reply, 429), /create_per_minute=2\b/);
        assert.ok(seconds(reply) <= 60);
        break;
      }
      const { sandboxID } = reply.body as { sandboxID: string };
      await context.raw("DELETE", `/sandboxes/${sandboxID}`, { key: rated });
    }
    const call = context.create({ ...context.options(rated), retries: 0 });
    await rejects(call, context.sdk.RateLimitError, /create_per_minute=2/);
  },

  AD3: async (context) => {
    const key = `conformance-${context.job.client.replaceAll(".", "-")}-${Date.now()}`;
    const once = { timeoutMs: 60_000, metadata: { job: "once" }, apiHeaders: { "Idempotency-Key": key } };
    const before = await context.claimsMade();
    const made = await Promise.all([context.create(once), context.create(once), context.create(once)]);
    assert.equal(new Set(made.map(({ sandboxId }) => sandboxId)).size, 1, "sandboxes of one key");
    const [first] = made;
    assert.ok(first !== undefined);
    const again = await context.create(once);
    assert.equal(again.sandboxId, first.sandboxId);
    assert.equal((await again.commands.run("echo same")).stdout, "same\n");
    await rejects(context.create({ ...once, timeoutMs: 30_000 }), context.sdk.SandboxError, /^409: .*Idempotency-Key/);
    assert.equal((await context.claimsMade()) - before, 1, "claims of one key");
    await first.kill();
    const next = await context.create(once);
    assert.notEqual(next.sandboxId, first.sandboxId);
    await next.kill();
  },

  AD4: async (context) => {
    const sandbox = await context.create();
    await sandbox.files.write("/home/user/kept.txt", "kept");
    const hundred = async <T>(ask: () => Promise<T>): Promise<T[]> => {
      assert.equal(await sandbox.pause(), true);
      const before = await wakes(context);
      const answers = await Promise.all(Array.from({ length: 100 }, ask));
      assert.equal((await wakes(context)) - before, 1, "wakes");
      assert.equal((await sandbox.getInfo()).state, "running");
      return answers;
    };
    const read = await hundred(() => sandbox.files.read("/home/user/kept.txt"));
    assert.deepEqual([...new Set(read)], ["kept"]);
    const { sandboxId } = sandbox;
    const connected = await hundred(() => context.sdk.Sandbox.connect(sandboxId, context.options()));
    assert.deepEqual([...new Set(connected.map((one) => one.sandboxId))], [sandboxId]);
    await sandbox.kill();
  },
};
