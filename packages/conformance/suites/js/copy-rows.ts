import assert from "node:assert/strict";

import { isApiError, rejects, type Row, type RowContext, type SandboxHandle } from "./context.ts";

interface Forked {
  readonly sandbox: { readonly sandboxID: string; readonly envdAccessToken: string };
}

/** A name that no other client of this run uses. */
const named = (context: RowContext, what: string): string =>
  `${what}-${context.job.client.replaceAll(".", "-")}-${context.rig.mode}`;

const tokenOf = async (context: RowContext, sandbox: SandboxHandle): Promise<string> => {
  const reply = await context.raw("POST", `/sandboxes/${sandbox.sandboxId}/connect`, { body: {} });
  return (reply.body as { envdAccessToken: string }).envdAccessToken;
};

/** Rows about copies of sandboxes: forks, snapshots, templates made of them. */
export const copyRows: Readonly<Record<string, Row>> = {
  S14: async (context) => {
    const secret = context.rig.mode === "secret";
    const parent = await context.create(secret ? { envs: { GREETING: "inherited" }, metadata: { job: "7" } } : {});
    const path = `/sandboxes/${parent.sandboxId}/fork`;
    const reply = await context.raw("POST", path, { body: { count: 2 } });
    assert.equal(reply.status, 201);
    const children = (reply.body as readonly Forked[]).map(({ sandbox }) => sandbox);
    const token = await tokenOf(context, parent);
    assert.equal(new Set([token, ...children.map((child) => child.envdAccessToken)]).size, 3, "three tokens");
    assert.equal(await context.daemonStatus(parent.sandboxId, token), 200, "the parent's token still opens it");
    for (const child of children) {
      assert.equal(await context.daemonStatus(child.sandboxID, child.envdAccessToken), 200, "its own token");
      assert.equal(await context.daemonStatus(child.sandboxID, token), 401, "the parent's token");
      assert.match(String((await context.onNode(child.sandboxID)).claim_ref), /^ns1\/sb_/);
      const handle = await context.sdk.Sandbox.connect(child.sandboxID, context.options());
      const seen = await handle.commands.run('echo "$GREETING"; whoami; pwd');
      assert.equal(seen.stdout, `${secret ? "inherited" : ""}\nuser\n/home/user\n`);
      const stranger = context.sdk.Sandbox.connect(child.sandboxID, context.options(context.rig.keys.two));
      await rejects(stranger, context.sdk.SandboxNotFoundError);
      assert.equal(await handle.kill(), true);
    }
    assert.match(isApiError(await context.raw("POST", path, { body: { count: 1_000 } }), 400), /max_fork_count/);
    await parent.pause();
    isApiError(await context.raw("POST", path), 409);
    assert.equal((await parent.getInfo()).state, "paused");
    await parent.kill();
  },

  S15: async (context) => {
    const { Sandbox } = context.sdk;
    const source = await context.create();
    const two = context.options(context.rig.keys.two);
    const first = await source.createSnapshot();
    assert.deepEqual(first.names, []);
    const name = named(context, "paged");
    const second = await source.createSnapshot({ name });
    const third = await source.createSnapshot({ name: `${name}:v2` });
    const newestFirst = [third, second, first].map(({ snapshotId }) => snapshotId);
    const pages = Sandbox.listSnapshots({ ...context.options(), sandboxId: source.sandboxId, limit: 2 });
    const seen: string[][] = [];
    while (pages.hasNext) {
      seen.push((await pages.nextItems()).map(({ snapshotId }) => snapshotId));
    }
    assert.deepEqual(seen, [newestFirst.slice(0, 2), newestFirst.slice(2)]);
    const byName = await context.raw("GET", `/snapshots?name=${encodeURIComponent(name)}`);
    assert.deepEqual(byName.body, [{ snapshotID: second.snapshotId, names: [name] }]);
    isApiError(await context.raw("GET", "/snapshots?limit=0"), 400);
    isApiError(await context.raw("GET", "/snapshots?nextToken=not-a-token"), 400);
    await rejects(source.createSnapshot({ name: "n".repeat(60) }), context.sdk.SandboxError, /^400: .* 59 /);
    await rejects(Sandbox.createSnapshot(source.sandboxId, two), context.sdk.SandboxNotFoundError);
    const stolen = { body: { templateID: second.snapshotId }, key: context.rig.keys.two };
    isApiError(await context.raw("POST", "/v2/sandboxes", stolen), 404);
    for (const id of newestFirst) {
      assert.equal(await Sandbox.deleteSnapshot(id, context.options()), true);
    }
    isApiError(await context.raw("POST", "/v2/sandboxes", { body: { templateID: second.snapshotId } }), 404);
    await source.kill();
  },

  S16: async (context) => {
    const { Template } = context.sdk;
    const two = context.options(context.rig.keys.two);
    const name = named(context, "built");
    const source = await context.create();
    await source.files.write("/home/user/from-template.txt", name);
    await context.promote(source.sandboxId, name);
    await source.kill();
    assert.equal(await Template.exists(name, context.options()), true);
    assert.equal(await Template.exists(name, two), false, "not in another namespace");
    assert.deepEqual(await Template.getTags(name, context.options()), []);
    const assigned = await Template.assignTags(name, ["v1", "stable"], context.options());
    assert.deepEqual(assigned.tags, ["v1", "stable"]);
    const tags = await Template.getTags(name, context.options());
    assert.deepEqual(
      tags.map(({ tag, buildId, createdAt }) => [tag, buildId, createdAt instanceof Date]),
      ["stable", "v1"].map((tag) => [tag, assigned.buildId, true]),
    );
    await Template.assignTags(`${name}:v1`, "production", context.options());
    await Template.removeTags(name, ["stable", "production"], context.options());
    assert.equal((await Template.getTags(name, context.options())).length, 1);
    await assert.rejects(Template.removeTags(name, "stable", context.options()), /404/);
    await assert.rejects(Template.assignTags(`${name}:nope`, "x", context.options()), /404/);
    await assert.rejects(Template.assignTags(name, "x", two), /404/);
    for (const template of [name, `${name}:v1`, `${name}:default`]) {
      const sandbox = await context.create({ template });
      assert.equal((await sandbox.getInfo()).templateId, name, template);
      assert.equal(await sandbox.files.read("/home/user/from-template.txt"), name);
      assert.equal((await sandbox.commands.run("pwd")).exitCode, 0);
      await sandbox.kill();
    }
    isApiError(await context.raw("POST", "/v2/sandboxes", { body: { templateID: `${name}:nope` } }), 404);
    isApiError(
      await context.raw("POST", "/v2/sandboxes", { body: { templateID: name }, key: context.rig.keys.two }),
      404,
    );
    const detail = await context.raw("GET", `/templates/${name}`);
    const { builds, names } = detail.body as { builds: readonly { buildID: string }[]; names: readonly string[] };
    assert.deepEqual([builds.map(({ buildID }) => buildID), names], [[assigned.buildId], [name, `${name}:v1`]]);
    const patched = await context.raw("PATCH", `/v2/templates/${name}`, { body: { public: true } });
    assert.deepEqual([patched.status, patched.body], [200, { names: [name, `${name}:v1`] }]);
    assert.match(isApiError(await context.raw("GET", "/templates/base"), 404), /is a pool image, not a built template/);
    isApiError(await context.raw("DELETE", `/templates/${name}`, { key: context.rig.keys.two }), 404);
    assert.equal((await context.raw("DELETE", `/templates/${name}`)).status, 204);
    assert.equal(await Template.exists(name, context.options()), false, "gone at once");
    isApiError(await context.raw("DELETE", `/templates/${name}`), 404);
  },
};
