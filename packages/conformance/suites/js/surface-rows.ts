import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { isApiError, rejects, type Row, type RowContext, type SandboxHandle } from "./context.ts";

/** How late a node may notice the end of a lease. */
const REAP_MS = 7_000;

const until = async (what: string, probe: () => Promise<boolean>, limitMs: number): Promise<void> => {
  const deadline = Date.now() + limitMs;
  while (!(await probe())) {
    assert.ok(Date.now() < deadline, `${what} did not happen within ${limitMs} ms`);
    await delay(250);
  }
};

const running = async (context: RowContext): Promise<SandboxHandle> => {
  const sandbox = await context.shared();
  assert.equal((await sandbox.getInfo()).state, "running");
  return sandbox;
};

/** The verbs beside the base matrix: snapshots, forks, metrics, refusals, ends of life. */
export const surfaceRows: Readonly<Record<string, Row>> = {
  S1: async (context) => {
    const options = { envs: { GREETING: "from create", E2B_SANDBOX_ID: "forged" } };
    if (context.rig.mode === "seed") {
      await rejects(context.create(options), context.sdk.SandboxError, /^400: .*envVars/);
      return;
    }
    const sandbox = await context.create(options);
    const seen = await sandbox.commands.run('echo "$GREETING"');
    assert.equal(seen.stdout, "from create\n");
    const over = await sandbox.commands.run('echo "$GREETING"', { envs: { GREETING: "from run" } });
    assert.equal(over.stdout, "from run\n");
    await sandbox.kill();
  },

  S2: async (context) => {
    const sandbox = await running(context);
    const samples = await sandbox.getMetrics();
    assert.equal(samples.length, 1);
    for (const [name, value] of Object.entries(samples[0] ?? {})) {
      assert.ok(name === "timestamp" ? value instanceof Date : Number.isFinite(value), `${name}: ${String(value)}`);
    }
    assert.ok((samples[0]?.cpuCount ?? 0) > 0 && (samples[0]?.memTotal ?? 0) > 0, "sizes are known");
    const batch = await context.raw("GET", `/sandboxes/metrics?sandbox_ids=${sandbox.sandboxId},sb-0000000000000000`);
    assert.deepEqual(Object.keys((batch.body as { sandboxes: object }).sandboxes), [sandbox.sandboxId]);
    isApiError(await context.raw("GET", "/sandboxes/metrics?sandbox_ids=a,,b"), 400);
    const old = { start: new Date("2001-01-01"), end: new Date("2001-01-02") };
    assert.deepEqual(await sandbox.getMetrics(old), []);
    await sandbox.pause();
    assert.deepEqual(await sandbox.getMetrics(), [], "paused");
    assert.equal((await sandbox.getInfo()).state, "paused", "reading metrics must not wake it");
    await sandbox.connect();
    const unknown = context.sdk.Sandbox.getMetrics("sb-0000000000000000", context.options());
    await rejects(unknown, context.sdk.SandboxNotFoundError);
  },

  S3: async (context) => {
    const { Sandbox } = context.sdk;
    const sandbox = await running(context);
    await sandbox.files.write("/home/user/in-snapshot.txt", "snap");
    const name = `snap-${context.job.client.replaceAll(".", "-")}`;
    const snapshot = await sandbox.createSnapshot({ name });
    assert.match(snapshot.snapshotId, /^ck_/);
    assert.deepEqual(snapshot.names, [name]);
    assert.equal((await sandbox.getInfo()).state, "running", "the source keeps running");
    const listed = await Sandbox.listSnapshots({ ...context.options(), sandboxId: sandbox.sandboxId }).nextItems();
    assert.ok(
      listed.some((item) => item.snapshotId === snapshot.snapshotId),
      "listed",
    );
    const others = await Sandbox.listSnapshots(context.options(context.rig.keys.two)).nextItems();
    assert.ok(!others.some((item) => item.snapshotId === snapshot.snapshotId), "not in another namespace");
    await sandbox.files.write("/home/user/in-snapshot.txt", "changed");
    const copy = await context.create({ template: snapshot.snapshotId });
    assert.equal(await copy.files.read("/home/user/in-snapshot.txt"), "snap");
    await copy.kill();
    assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId, context.options(context.rig.keys.two)), false);
    assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId, context.options()), true);
    assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId, context.options()), false);
    await rejects(Sandbox.createSnapshot("sb-0000000000000000", context.options()), context.sdk.SandboxNotFoundError);
  },

  S4: async (context) => {
    const parent = await running(context);
    await parent.files.write("/home/user/forked.txt", "inherited");
    const children = await parent.fork({ count: 2, timeoutMs: 60_000 });
    assert.equal(children.length, 2);
    for (const child of children) {
      assert.ok(!(child instanceof Error), child instanceof Error ? child.message : "");
      assert.equal(await child.files.read("/home/user/forked.txt"), "inherited");
      assert.notEqual(child.sandboxId, parent.sandboxId);
      await child.files.write("/home/user/forked.txt", child.sandboxId);
    }
    assert.equal(await parent.files.read("/home/user/forked.txt"), "inherited", "children have their own files");
    for (const child of children) {
      assert.ok(!(child instanceof Error));
      assert.equal(await child.files.read("/home/user/forked.txt"), child.sandboxId);
      assert.equal(await child.kill(), true);
    }
    const missing = context.sdk.Sandbox.fork("sb-0000000000000000", context.options());
    await rejects(missing, context.sdk.SandboxNotFoundError);
  },

  S5: async (context) => {
    const sandbox = await context.create();
    const run = rejects(
      sandbox.commands.run("sleep 30"),
      context.sdk.TimeoutError,
      /killed or reached its end of life/,
    );
    await delay(500);
    assert.equal(await sandbox.kill(), true);
    await run;
  },

  S6: async (context) => {
    const sandbox = await context.create();
    assert.equal((await sandbox.commands.run("echo up")).stdout, "up\n");
    assert.equal(await sandbox.isRunning(), true);
    await sandbox.kill();
    assert.equal(await sandbox.isRunning(), false);
    await rejects(sandbox.commands.run("true"), context.sdk.SandboxNotFoundError);
    await rejects(sandbox.files.read("/etc/hostname"), context.sdk.TimeoutError);
    await rejects(sandbox.getInfo(), context.sdk.SandboxNotFoundError);
    const gone = await context.raw("GET", `/sandboxes/${sandbox.sandboxId}`);
    assert.match(isApiError(gone, 404), /^sandbox not found: it was killed at \d{4}-/);
    const stranger = await context.raw("GET", `/sandboxes/${sandbox.sandboxId}`, { key: context.rig.keys.two });
    assert.equal(isApiError(stranger, 404), "sandbox not found");
    await rejects(sandbox.setTimeout(1_000), context.sdk.SandboxNotFoundError);
    await rejects(sandbox.pause(), context.sdk.SandboxNotFoundError);
    await rejects(sandbox.connect(), context.sdk.SandboxNotFoundError);
  },

  S7: async (context) => {
    const sandbox = await context.create({ timeoutMs: 3_000, lifecycle: { onTimeout: "pause" } });
    await sandbox.files.write("/home/user/outlives.txt", "still here");
    await sandbox.connect({ timeoutMs: 3_000 });
    await sandbox.connect({ timeoutMs: 2_000 });
    await until("paused at expiry", async () => (await sandbox.getInfo()).state === "paused", 3_000 + REAP_MS);
    const again = await context.sdk.Sandbox.connect(sandbox.sandboxId, { ...context.options(), timeoutMs: 60_000 });
    assert.equal(await again.files.read("/home/user/outlives.txt"), "still here");
    await again.kill();
  },

  S8: async (context) => {
    const sandbox = await running(context);
    await sandbox.commands.run("echo before > /tmp/before");
    assert.equal(await sandbox.pause(), true);
    const woken = await Promise.all(
      Array.from({ length: 5 }, () => sandbox.commands.run("cat /tmp/before").then((result) => result.stdout)),
    );
    assert.deepEqual(
      woken,
      Array.from({ length: 5 }, () => "before\n"),
    );
    assert.equal((await sandbox.getInfo()).state, "running");
  },

  S9: async (context) => {
    const before = await context.claimsMade();
    const refusals: readonly [string, object][] = [
      ["volumeMounts", { volumeMounts: { "/data": "a-volume" } }],
      ["iam", { iam: { tokens: { aws: { audience: "a", tokenType: "JWT-SVID" } } } }],
      ["network", { network: { allowPublicTraffic: false } }],
      ["autoPauseMemory", { lifecycle: { onTimeout: { action: "pause", keepMemory: false } } }],
      ["mcp", { mcp: { exa: { apiKey: "x" } } }],
    ];
    for (const [name, options] of refusals) {
      await rejects(
        context.create({ template: "base", ...options }),
        context.sdk.SandboxError,
        new RegExp(`^400: .*${name}`),
      );
    }
    const bodies: readonly object[] = [
      {},
      { templateID: "  " },
      { templateID: "base", timeout: -1 },
      { templateID: "base", timeout: 1.5 },
      { templateID: "base", timeout: "60" },
      { templateID: "base", secure: false },
      { templateID: "base", metadata: { a: 1 } },
    ];
    for (const path of ["/sandboxes", "/v2/sandboxes"]) {
      for (const body of bodies) {
        isApiError(await context.raw("POST", path, { body }), 400);
      }
      isApiError(await context.raw("POST", path, { body: { templateID: "never-built" } }), 404);
    }
    assert.equal(await context.claimsMade(), before, "claims made");
    const sandbox = await running(context);
    await rejects(sandbox.pause({ keepMemory: false }), context.sdk.SandboxError, /^400: .*memory/);
    await rejects(sandbox.connect({ onResume: "reboot" }), context.sdk.SandboxError, /^400: .*memory/);
    assert.equal((await sandbox.getInfo()).state, "running");
  },

  S10: async (context) => {
    const sandbox = await running(context);
    await rejects(sandbox.updateNetwork({ denyOut: ["1.1.1.1"] }), context.sdk.SandboxError, /^400: .*network/);
    const unknown = context.sdk.Sandbox.updateNetwork("sb-0000000000000000", {}, context.options());
    await rejects(unknown, context.sdk.SandboxNotFoundError);
  },

  S11: async (context) => {
    const sandbox = await context.create({ metadata: { job: "7" } });
    const before = await sandbox.getInfo();
    await sandbox.pause();
    const paused = await sandbox.getInfo();
    assert.deepEqual({ ...paused, state: "running" }, before);
    await sandbox.connect({ timeoutMs: 1_000 });
    const after = await sandbox.getInfo();
    assert.deepEqual(after, before);
    await sandbox.kill();
  },

  S12: async (context) => {
    const sandbox = await context.create({ timeoutMs: 1_000 });
    const gone = async (): Promise<boolean> =>
      sandbox.getInfo().then(
        () => false,
        (error: unknown) => error instanceof context.sdk.SandboxNotFoundError,
      );
    await until("gone after its lease", gone, 1_000 + REAP_MS);
    const reason = await context.raw("GET", `/sandboxes/${sandbox.sandboxId}`);
    assert.match(isApiError(reason, 404), /^sandbox not found: its lease ended at \d{4}-/);
    assert.equal(await sandbox.isRunning(), false);
    await context.poll();
    const items = await context.sdk.Sandbox.list(context.options()).nextItems();
    assert.ok(!items.some((item) => item.sandboxId === sandbox.sandboxId), "not listed");
  },
};
