import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { isApiError, rejects, type Row, type RowContext } from "./context.ts";

const FILE = "/home/user/kept.txt";
const TEXT = "kept over a pause: é漢🙂\n";

/** What a process that knows only the key finds behind a sandbox id. */
export interface Reconnected {
  readonly running: boolean;
  readonly stdout: string;
  readonly file: string;
}

/** Connects to a sandbox as a fresh process does, and uses it. */
export async function reconnect(context: RowContext, sandboxId: string): Promise<Reconnected> {
  const sandbox = await context.sdk.Sandbox.connect(sandboxId, context.options());
  const running = await sandbox.isRunning();
  const { stdout } = await sandbox.commands.run("echo fresh");
  return { running, stdout, file: await sandbox.files.read(FILE) };
}

let fresh: Promise<Reconnected> | undefined;

const reconnectElsewhere = (context: RowContext, sandboxId: string): Promise<Reconnected> => {
  fresh ??= (async () => {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [fileURLToPath(new URL("../js-client.ts", import.meta.url))],
      { env: { ...process.env, CONFORMANCE_JOB: JSON.stringify({ ...context.job, reconnect: sandboxId }) } },
    );
    return JSON.parse(stdout) as Reconnected;
  })();
  return fresh;
};

const near = (actual: number, expected: number, tolerance: number, what: string): void =>
  assert.ok(Math.abs(actual - expected) <= tolerance, `${what}: ${actual} is not within ${tolerance} of ${expected}`);

/** §14.1 of the control-plane contract. */
export const baseRows: Readonly<Record<string, Row>> = {
  B1: async (context) => {
    const sandbox = await context.sdk.Sandbox.create(context.rig.image, {
      timeoutMs: 300_000,
      ...context.options(),
      ...context.lane,
    });
    context.share(sandbox);
    assert.match(sandbox.sandboxId, /^sb-[0-9a-f]+$/);
    assert.equal(sandbox.sandboxDomain, context.rig.domain);
  },

  B2: async (context) => {
    const row = await context.onNode((await context.shared()).sandboxId);
    assert.deepEqual(row.key, { template: context.rig.image, net: "none", size: "small" });
    assert.match(row.claim_ref ?? "", /^ns1\/e2b-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
  },

  B3: async (context) => {
    const result = await (await context.shared()).commands.run("echo hi");
    assert.equal(result.stdout, "hi\n");
    assert.equal(result.exitCode, 0);
  },

  B4: async (context) => {
    const sandbox = await context.shared();
    await sandbox.files.write(FILE, TEXT);
    assert.equal(await sandbox.files.read(FILE), TEXT);
  },

  B5: async (context) => {
    const sandbox = await context.shared();
    const info = await sandbox.getInfo();
    assert.equal(info.sandboxId, sandbox.sandboxId);
    assert.equal(info.templateId, context.rig.image);
    assert.equal(info.name, "base");
    assert.equal(info.state, "running");
    assert.ok(info.endAt > info.startedAt, "it ends after it started");
    near(info.endAt.getTime() - Date.now(), 300_000, 15_000, "time left");
  },

  B6: async (context) => {
    const sandbox = await context.shared();
    for (const when of ["at once", "after a poll"]) {
      const items = await context.sdk.Sandbox.list(context.options()).nextItems();
      const found = items.find((item) => item.sandboxId === sandbox.sandboxId);
      assert.equal(found?.state, "running", when);
      await context.poll();
    }
  },

  B7: async (context) => {
    const sandbox = await context.shared();
    assert.equal(await sandbox.pause(), true, "first pause");
    assert.equal(await sandbox.pause(), false, "second pause");
    assert.equal((await sandbox.getInfo()).state, "paused");
  },

  B8: async (context) => {
    const sandbox = await context.shared();
    assert.equal(await sandbox.isRunning(), false);
    assert.equal((await sandbox.getInfo()).state, "paused", "asking for its health must not wake it");
  },

  B9: async (context) => {
    const seen = await reconnectElsewhere(context, (await context.shared()).sandboxId);
    assert.equal(seen.running, true);
  },

  B10: async (context) => {
    const seen = await reconnectElsewhere(context, (await context.shared()).sandboxId);
    assert.equal(seen.stdout, "fresh\n");
    assert.equal(seen.file, TEXT);
  },

  B11: async (context) => {
    const { Sandbox, SandboxNotFoundError } = context.sdk;
    const { sandboxId } = await context.shared();
    const other = context.options(context.rig.keys.two);
    await rejects(Sandbox.getInfo(sandboxId, other), SandboxNotFoundError);
    await rejects(Sandbox.connect(sandboxId, other), SandboxNotFoundError);
    await rejects(Sandbox.setTimeout(sandboxId, 1_000, other), SandboxNotFoundError);
    await rejects(Sandbox.pause(sandboxId, other), SandboxNotFoundError);
    assert.equal(await Sandbox.kill(sandboxId, other), false);
    assert.deepEqual(await Sandbox.list(other).nextItems(), []);
    assert.equal((await Sandbox.getInfo(sandboxId, context.options())).state, "running", "still alive");
  },

  B12: async (context) => {
    const { Sandbox, AuthenticationError } = context.sdk;
    const wrong = "e2b_ffffffffffffffffffffffffffffffff";
    await rejects(Sandbox.create({ ...context.options(wrong), ...context.lane }), AuthenticationError);
    await rejects(Sandbox.list(context.options(wrong)).nextItems(), AuthenticationError);
    isApiError(await context.raw("GET", "/v2/sandboxes", { key: wrong }), 401);
    isApiError(await context.raw("GET", "/v2/sandboxes", { key: null }), 401);
  },

  B13: async (context) => {
    const before = await context.claimsMade();
    await rejects(
      context.create({ network: { denyOut: ["10.0.0.0/8"] } }),
      context.sdk.SandboxError,
      /^400: .*network/,
    );
    assert.equal(await context.claimsMade(), before, "claims made");
  },

  B14: async (context) => {
    const sandbox = await context.shared();
    await sandbox.setTimeout(60_000);
    near((await sandbox.getInfo()).endAt.getTime() - Date.now(), 60_000, 5_000, "time left");
  },

  B15: async (context) => {
    const sandbox = await context.shared();
    const before = (await sandbox.getInfo()).endAt.getTime();
    await sandbox.connect({ timeoutMs: 10_000 });
    near((await sandbox.getInfo()).endAt.getTime(), before, 1_000, "end after a shorter connect");
    await sandbox.connect({ timeoutMs: 600_000 });
    near((await sandbox.getInfo()).endAt.getTime() - Date.now(), 600_000, 5_000, "time left after a longer connect");
  },

  B16: async (context) => {
    const sandbox = await context.shared();
    assert.equal(await sandbox.kill(), true);
    await rejects(sandbox.getInfo(), context.sdk.SandboxNotFoundError);
    assert.equal(await sandbox.kill(), false, "second kill");
  },

  B17: async (context) => {
    const options = { timeoutMs: 30_000, ...context.options() };
    if (context.job.client === "js-2.50") {
      await rejects(context.sdk.Sandbox.create(options), context.sdk.ServiceBusyError);
    } else {
      const sandbox = await context.sdk.Sandbox.create(options);
      assert.equal(await sandbox.kill(), true);
    }
  },
};
