import assert from "node:assert/strict";

import { guestReady, runOverRelay } from "../../src/guest-shell.ts";
import { SkipRow } from "../../src/harness-rows.ts";
import type { Claimed } from "../../src/node-bench.ts";
import { expectJson, expectNodeError, expectStatus, type NodeClient } from "../../src/node-client.ts";
import { onePeer, rootOf, tenantOf } from "../../src/node-target.ts";
import {
  claimsOf,
  expectDone,
  expectLease,
  type Ground,
  once,
  redirected,
  type RowGroup,
  timed,
  warmDefault,
} from "./kit.ts";

const STALE = `sha256:${"0".repeat(64)}`;

interface CheckpointRecord {
  readonly id: string;
  readonly name?: string;
  readonly sandbox_id: string;
  readonly created_at: string;
}

/** Items 18 to 20: fork, checkpoints and templates. */
export function captureRows(ground: Ground): readonly RowGroup[] {
  const { bench, target } = ground;
  const { node, template } = target;
  /** Routes of the should level may be missing: the router's plain 404 says so. */
  const post = async (at: NodeClient, claim: Claimed, name: string, body: object, bearer?: string | null) => {
    const reply = await bench.call(at, "POST", `/v1/sandboxes/${claim.id}/${name}`, {
      body,
      ...(bearer === undefined ? {} : { bearer }),
    });
    if (reply.status === 404 && !reply.text.startsWith("{")) {
      throw new SkipRow(`the node has no route for ${name}`);
    }
    return reply;
  };
  return [forkRows(), checkpointRows(), templateRows(), templateMeshRows()];

  function forkRows(): RowGroup {
    const parent = once(() => bench.claim(node, { template, metadata: { colour: "red" } }));
    const children = (reply: Record<string, unknown>): readonly Claimed[] => reply["children"] as readonly Claimed[];
    return [
      {
        id: "N18a",
        title: "fork of 0, -1 or 17 is 400, and makes nothing",
        run: async () => {
          const claim = await parent();
          const { claimed } = await bench.info(node);
          for (const count of [0, -1, 17]) {
            expectNodeError(
              await post(node, claim, "fork", { token: claim.token, count }),
              400,
              `fork ${count}`,
              /^invalid fork count/,
            );
          }
          assert.equal((await bench.info(node)).claimed, claimed);
        },
      },
      {
        id: "N18b",
        title: "children carry claim_ref_prefix and their id, the parent's metadata, and a lease of their own",
        run: async () => {
          const claim = await parent();
          const prefix = `${bench.label}/child-`;
          const before = await claimsOf(bench, node);
          const body = { token: claim.token, count: 2, ttl_seconds: 90, claim_ref_prefix: prefix };
          const { reply, elapsedMs } = await timed(() => post(node, claim, "fork", body));
          const made = children(expectJson(reply, 200, "fork"));
          assert.equal(made.length, 2);
          for (const child of made) {
            assert.match(child.id, /^sb_[0-9a-f]{16}$/);
            assert.notEqual(child.token, claim.token);
            expectLease(reply, child.deadline, 90, elapsedMs);
            const row = await bench.row(node, child.id);
            assert.equal(row.claim_ref, prefix + child.id);
            assert.deepEqual(row.metadata, { colour: "red" });
            assert.ok(!("from_checkpoint" in row));
          }
          assert.deepEqual(await claimsOf(bench, node), { ...before, clone: before.clone + 2 }, "claims by tier");
          const reply2 = await post(node, claim, "fork", { token: claim.token, count: 1 });
          const [plain] = children(expectJson(reply2, 200, "fork without a prefix"));
          assert.equal((await bench.row(node, plain?.id ?? "")).claim_ref ?? "", "");
        },
      },
      {
        id: "N18c",
        title: "the root token with an empty or no body token works",
        run: async () => {
          rootOf(target);
          const claim = await parent();
          for (const body of [{ token: "", count: 1 }, { count: 1 }]) {
            assert.equal(children(expectJson(await post(node, claim, "fork", body), 200, "fork")).length, 1);
          }
        },
      },
      {
        id: "N18d",
        title: "the sandbox's token in the header is 401; a wrong body token is 404",
        run: async () => {
          rootOf(target);
          const claim = await parent();
          const body = { token: claim.token, count: 1 };
          expectNodeError(await post(node, claim, "fork", body, claim.token), 401, "header", /^invalid api token/);
          expectNodeError(
            await post(node, claim, "fork", { token: "f".repeat(32), count: 1 }),
            404,
            "body",
            /^unknown sandbox/,
          );
        },
      },
      {
        id: "N18e",
        title: "a tenant with an empty body token is 404",
        run: async () => {
          const tenant = tenantOf(target);
          const claim = await parent();
          expectNodeError(
            await post(node, claim, "fork", { token: "", count: 1 }, tenant),
            404,
            "fork",
            /^unknown sandbox/,
          );
        },
      },
      {
        id: "N18f",
        title: "a child has the parent's files, and neither sees what the other writes after",
        run: async () => {
          const claim = await parent();
          await guestReady(node, claim);
          await runOverRelay(node, claim, "echo before > fork-note");
          const [child] = children(
            expectJson(await post(node, claim, "fork", { token: claim.token, count: 1 }), 200, "fork"),
          );
          assert.ok(child !== undefined);
          await guestReady(node, child);
          await runOverRelay(node, child, "echo child >> fork-note");
          assert.equal(await runOverRelay(node, claim, "cat fork-note"), "before\n");
          assert.equal(await runOverRelay(node, child, "cat fork-note"), "before\nchild\n");
        },
      },
      {
        id: "N18g",
        title: "a hibernated parent is forked without waking",
        run: async () => {
          const claim = await parent();
          expectDone(
            await bench.call(node, "POST", `/v1/sandboxes/${claim.id}/hibernate`, { bearer: claim.token }),
            "hibernate",
          );
          const made = children(
            expectJson(await post(node, claim, "fork", { token: claim.token, count: 1 }), 200, "fork"),
          );
          assert.equal((await bench.row(node, claim.id)).hibernated, true, "the parent");
          assert.equal((await bench.row(node, made[0]?.id ?? "")).hibernated, false, "the child");
        },
      },
      {
        id: "N18h",
        title: "a drained node answers 429 to fork",
        run: async () => {
          const claim = await parent();
          expectStatus(await bench.call(node, "POST", "/v1/drain"), 200, "drain");
          expectNodeError(await post(node, claim, "fork", { token: claim.token, count: 1 }), 429, "fork", /draining/);
          expectStatus(await bench.call(node, "DELETE", "/v1/drain"), 200, "undrain");
        },
      },
    ];
  }

  function checkpointRows(): RowGroup {
    const source = once(async () => {
      const claim = await bench.claim(node, { template });
      const name = `${bench.label}.point`;
      const reply = expectJson(await post(node, claim, "checkpoint", { token: claim.token, name }), 200, "checkpoint");
      return { claim, name, checkpoint: reply["checkpoint"] as CheckpointRecord };
    });
    const branch = (at: NodeClient, id: string, text: string) =>
      bench.call(at, "POST", `/v1/checkpoints/${id}/claim`, { text });
    const list = async (at: NodeClient): Promise<readonly CheckpointRecord[]> => {
      const reply = expectJson(await bench.call(at, "GET", "/v1/checkpoints"), 200, "checkpoints");
      return (reply["checkpoints"] as readonly CheckpointRecord[] | null) ?? [];
    };
    return [
      {
        id: "N19a",
        title: "a checkpoint names itself, its sandbox and its key; each call makes another one",
        run: async () => {
          const { claim, name, checkpoint } = await source();
          assert.match(checkpoint.id, /^ck_[0-9a-f]{16}$/);
          assert.deepEqual([checkpoint.name, checkpoint.sandbox_id], [name, claim.id]);
          assert.ok(Number.isFinite(Date.parse(checkpoint.created_at)), checkpoint.created_at);
          const again = expectJson(await post(node, claim, "checkpoint", { token: claim.token }), 200, "checkpoint");
          assert.notEqual((again["checkpoint"] as CheckpointRecord).id, checkpoint.id);
          assert.equal((await bench.row(node, claim.id)).hibernated, false, "the source runs on");
        },
      },
      {
        id: "N19b",
        title: "a claim of it with an empty body is 400",
        run: async () => {
          const { checkpoint } = await source();
          expectNodeError(await branch(node, checkpoint.id, ""), 400, "claim", /^invalid request body/);
        },
      },
      {
        id: "N19c",
        title: "a claim of it with {} is 200, tells from_checkpoint, counts as a clone, and has the files",
        run: async () => {
          const { claim } = await source();
          await guestReady(node, claim);
          await runOverRelay(node, claim, "echo kept > point-note");
          const reply = expectJson(await post(node, claim, "checkpoint", { token: claim.token }), 200, "checkpoint");
          const { id } = reply["checkpoint"] as CheckpointRecord;
          const before = await claimsOf(bench, node);
          const made = expectJson(await branch(node, id, "{}"), 200, "claim") as unknown as Claimed;
          assert.equal(made.from_checkpoint, id);
          const row = await bench.row(node, made.id);
          assert.deepEqual([row.from_checkpoint, row.claim_ref ?? ""], [id, ""]);
          assert.deepEqual(await claimsOf(bench, node), { ...before, clone: before.clone + 1 }, "claims by tier");
          await guestReady(node, made);
          assert.equal(await runOverRelay(node, made, "cat point-note"), "kept\n");
        },
      },
      {
        id: "N19d",
        title: "a claim of an unknown one is 404, a bad name is 400",
        run: async () => {
          const { claim } = await source();
          expectNodeError(await branch(node, "ck_0000000000000000", "{}"), 404, "claim", /^unknown checkpoint/);
          expectNodeError(
            await post(node, claim, "checkpoint", { token: claim.token, name: "-no" }),
            400,
            "a bad name",
          );
        },
      },
      {
        id: "N19e",
        title: "the list has it, newest first; a tenant does not see it",
        run: async () => {
          const { claim, checkpoint } = await source();
          // Two records of one moment have no order.
          await new Promise((resolve) => setTimeout(resolve, 20));
          const reply = expectJson(await post(node, claim, "checkpoint", { token: claim.token }), 200, "checkpoint");
          const newer = (reply["checkpoint"] as CheckpointRecord).id;
          const ids = (await list(node)).map((record) => record.id);
          assert.ok(ids.includes(newer) && ids.indexOf(newer) < ids.indexOf(checkpoint.id), ids.join(" "));
          if (target.tenantToken !== undefined) {
            const seen = await bench.call(node, "GET", "/v1/checkpoints", { bearer: target.tenantToken });
            assert.ok(!expectJson(seen, 200, "a tenant's list") || !seen.text.includes(checkpoint.id));
          }
        },
      },
      {
        id: "N19f",
        title: "another node of the mesh redirects a claim of it to its owner, and says 404 with no_redirect",
        run: async () => {
          const peer = onePeer(target);
          const { checkpoint } = await source();
          const { redirect } = await redirected("a claim of a checkpoint", () =>
            branch(peer.node, checkpoint.id, "{}"),
          );
          assert.ok(redirect.includes(target.clientAddress ?? node.address), redirect.join(", "));
          expectNodeError(
            await branch(peer.node, checkpoint.id, '{"no_redirect":true}'),
            404,
            "claim at the peer with no_redirect (it has checkpoint_peer_heal when it delivers)",
            /^unknown checkpoint/,
          );
        },
      },
      {
        id: "N19g",
        title: "a drained node answers 429 to a claim of it",
        run: async () => {
          const { checkpoint } = await source();
          expectStatus(await bench.call(node, "POST", "/v1/drain"), 200, "drain");
          expectNodeError(await branch(node, checkpoint.id, "{}"), 429, "claim", /draining/);
          expectStatus(await bench.call(node, "DELETE", "/v1/drain"), 200, "undrain");
        },
      },
      {
        id: "N19h",
        title: "delete: 204, then 404, and it is gone from the list",
        run: async () => {
          const { checkpoint } = await source();
          const remove = () => bench.call(node, "DELETE", `/v1/checkpoints/${checkpoint.id}`);
          if (target.tenantToken !== undefined) {
            const path = `/v1/checkpoints/${checkpoint.id}`;
            expectStatus(
              await bench.call(node, "DELETE", path, { bearer: target.tenantToken }),
              404,
              "a tenant's delete",
            );
          }
          expectDone(await remove(), "delete");
          expectNodeError(await remove(), 404, "delete again", /^unknown checkpoint/);
          assert.ok(!(await list(node)).some((record) => record.id === checkpoint.id));
        },
      },
    ];
  }

  function query(name: string, more: Readonly<Record<string, string>> = {}): string {
    return new URLSearchParams({ template: name, ...more }).toString();
  }

  async function promote(at: NodeClient, claim: Claimed, name: string): Promise<string> {
    const reply = expectJson(await post(at, claim, "promote", { token: claim.token, template: name }), 200, "promote");
    assert.deepEqual(reply["key"], { template: name, net: "none", size: "small" });
    assert.match(String(reply["content_digest"]), /^sha256:[0-9a-f]+$/);
    return String(reply["content_digest"]);
  }

  function templateRows(): RowGroup {
    const source = once(() => bench.claim(node, { template }));
    const promoted = once(async () => {
      const claim = await source();
      const name = bench.templateName();
      return { claim, name, digest: await promote(node, claim, name) };
    });
    const labels = (name: string, text: string, more: Readonly<Record<string, string>> = {}) =>
      bench.call(node, "PUT", `/v1/templates/labels?${query(name, more)}`, { text });
    const listed = async (name: string) =>
      ((await bench.info(node)).templates ?? []).find(({ key }) => key.template === name);
    return [
      {
        id: "N20a",
        title: "promote to the name of a configured pool is 409; a bad name is 400",
        run: async () => {
          await warmDefault(ground);
          const claim = await source();
          expectNodeError(
            await post(node, claim, "promote", { token: claim.token, template }),
            409,
            "promote",
            /^template belongs to a configured pool/,
          );
          expectNodeError(
            await post(node, claim, "promote", { token: claim.token, template: "-no" }),
            400,
            "a bad name",
          );
        },
      },
      {
        id: "N20b",
        title: "a promoted template is in info, and is claimed as a clone with its digest",
        run: async () => {
          const { name, digest } = await promoted();
          assert.equal((await listed(name))?.content_digest, digest);
          const before = await claimsOf(bench, node);
          const body = { template: name, require_promoted: true, no_redirect: true, ttl_seconds: 60 };
          const reply = expectJson(await bench.call(node, "POST", "/v1/claim", { body }), 200, "claim");
          assert.equal(reply["template_digest"], digest);
          assert.deepEqual(await claimsOf(bench, node), { ...before, clone: before.clone + 1 }, "claims by tier");
        },
      },
      {
        id: "N20c",
        title: "labels: replaced as a whole, strict, 404 and 412",
        run: async () => {
          const { name, digest } = await promoted();
          expectDone(await labels(name, '{"labels":{"stage":"test"}}', { digest }), "set labels");
          assert.deepEqual((await listed(name))?.labels, { stage: "test" });
          expectNodeError(
            await labels(name, '{"labels":{},"colour":1}'),
            400,
            "an unknown member",
            /^invalid request body/,
          );
          expectStatus(await labels(name, '{"labels":{"a":"b"}}', { digest: STALE }), 412, "a stale digest");
          expectNodeError(await labels(bench.templateName(), '{"labels":{}}'), 404, "no template", /^unknown template/);
          assert.deepEqual((await listed(name))?.labels, { stage: "test" }, "after the refusals");
          expectDone(await labels(name, '{"labels":null}'), "clear labels");
          assert.deepEqual((await listed(name))?.labels ?? {}, {});
        },
      },
      {
        id: "N20d",
        title: "delete with a stale digest is 412, with the right one 204, then 404; of a pool 409",
        run: async () => {
          const { name, digest } = await promoted();
          const remove = (more: Readonly<Record<string, string>>) =>
            bench.call(node, "DELETE", `/v1/templates?${query(name, { no_redirect: "1", ...more })}`);
          expectStatus(await remove({ digest: STALE }), 412, "a stale digest");
          assert.ok((await listed(name)) !== undefined, "it is still there");
          expectDone(await remove({ digest }), "the right digest");
          expectNodeError(await remove({}), 404, "again", /^unknown template/);
          assert.equal(await listed(name), undefined);
          await warmDefault(ground);
          const pool = await bench.call(node, "DELETE", `/v1/templates?${query(template, { no_redirect: "1" })}`);
          expectNodeError(pool, 409, "of a pool", /^template belongs to a configured pool/);
        },
      },
      {
        id: "N20e",
        title: "a tenant's promote of the operator's template is 409, and so it cannot delete it",
        run: async () => {
          const tenant = tenantOf(target);
          const name = bench.templateName();
          await promote(node, await source(), name);
          const own = await bench.claim(node, { template }, { bearer: tenant });
          const body = { token: own.token, template: name };
          expectNodeError(
            await post(node, own, "promote", body, tenant),
            409,
            "promote",
            /^template owned by another tenant/,
          );
          const path = `/v1/templates?${query(name, { no_redirect: "1" })}`;
          expectStatus(await bench.call(node, "DELETE", path, { bearer: tenant }), 404, "delete");
        },
      },
    ];
  }

  function templateMeshRows(): RowGroup {
    const elsewhere = once(async () => {
      const peer = onePeer(target);
      const name = bench.templateName();
      await promote(peer.node, await bench.claim(peer.node, { template }), name);
      return { peer, name };
    });
    return [
      {
        id: "N20f",
        title: "delete on a node without it: 200 with a redirect to the owner, with no_redirect=1 404",
        run: async () => {
          const { peer, name } = await elsewhere();
          const { redirect } = await redirected("a delete", () =>
            bench.call(node, "DELETE", `/v1/templates?${query(name)}`),
          );
          assert.ok(redirect.includes(peer.clientAddress ?? peer.node.address), redirect.join(", "));
          const here = await bench.call(node, "DELETE", `/v1/templates?${query(name, { no_redirect: "1" })}`);
          expectNodeError(here, 404, "with no_redirect", /^unknown template/);
          expectDone(
            await bench.call(peer.node, "DELETE", `/v1/templates?${query(name, { no_redirect: "1" })}`),
            "at the owner",
          );
        },
      },
    ];
  }
}
