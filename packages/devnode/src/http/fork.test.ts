import { describe, expect, test } from "vitest";
import type { ClaimReply } from "@org/sandboxd-client/wire";
import { startFakeNode, type FakeNode, type FakeNodeOptions } from "../testing/fake-node.ts";

const TOKEN = "root-token";
const TENANTS = [
  { name: "acme", token: "acme-token", maxClaims: 3 },
  { name: "bolt", token: "bolt-token" },
];

async function withParent(options: FakeNodeOptions = {}, claim: object = { template: "base" }) {
  const node = await startFakeNode({ token: TOKEN, ...options });
  const parent = await node.api.claim(claim);
  const fork = (body: object, bearer?: string) =>
    node.api.call("POST", `/v1/sandboxes/${parent.id}/fork`, body, bearer);
  return { node, api: node.api, parent, fork, [Symbol.asyncDispose]: () => node[Symbol.asyncDispose]() };
}

const childrenOf = (answer: { json(): Record<string, unknown> }): ClaimReply[] =>
  answer.json()["children"] as ClaimReply[];

const metric = async (node: FakeNode, name: string): Promise<string | undefined> =>
  (await node.api.call("GET", "/metrics")).text.split("\n").find((line) => line.startsWith(`${name} `));

describe("§13.3.18 a fork", () => {
  test.each([
    [{ count: 0 }, "invalid fork count: 0 is not from 1 to 16 (max_fork_count)"],
    [{ count: 17 }, "invalid fork count: 17 is not from 1 to 16 (max_fork_count)"],
    [{ count: -1 }, "invalid fork count: -1 is not from 1 to 16 (max_fork_count)"],
    [{}, "invalid fork count: 0 is not from 1 to 16 (max_fork_count)"],
    [{ count: 1.5 }, "invalid request body"],
    [{ count: 1, on_expire: "explode" }, 'on_expire must be "destroy" or "archive", not "explode"'],
    ["", "invalid request body"],
  ])("of %j is 400", async (body, error) => {
    await using at = await withParent();
    const answer = await at.fork(body as object);
    expect([answer.status, answer.json()]).toEqual([400, { error }]);
    expect(at.node.guests).toHaveLength(1);
  });

  test("makes children with the parent's files, metadata and ways, their own ids, tokens and leases", async () => {
    let time = Date.UTC(2030, 0, 1);
    await using at = await withParent(
      { now: () => time },
      { template: "t", metadata: { a: "b" }, on_expire: "archive", claim_ref: "ns/parent", ttl_seconds: 1000 },
    );
    at.node.guest(at.parent.id).content = "files";
    time += 500_000;
    const answer = await at.fork({ Count: 16, claim_ref_prefix: "ns/", ttl_seconds: 60, unknown: 1 });
    const children = childrenOf(answer);
    expect([answer.status, children.length]).toEqual([200, 16]);
    expect(new Set(children.flatMap((child) => [child.id, child.token])).size).toBe(32);
    const [child] = children;
    expect(child).toEqual({
      id: expect.stringMatching(/^sb_[0-9a-f]{16}$/),
      token: expect.stringMatching(/^[0-9a-f]{32}$/),
      deadline: new Date(time + 60_000).toISOString(),
      owner_addr: at.node.address,
      net_route: "none",
    });
    const row = (await at.api.rows()).find(({ id }) => id === child?.id);
    expect(row).toMatchObject({
      claim_ref: `ns/${child?.id}`,
      metadata: { a: "b" },
      on_expire: "archive",
      key: { template: "t", net: "none", size: "small" },
    });
    // Frozen while it was copied, and running again.
    expect(at.node.guest(child?.id ?? "").content).toBe("files");
    expect(at.node.guest(at.parent.id).frozen).toBe(false);
    expect(await metric(at.node, "sandboxd_forks_total")).toBe("sandboxd_forks_total 1");
    expect(await metric(at.node, 'sandboxd_claims_total{tier="clone"}')).toBe('sandboxd_claims_total{tier="clone"} 16');
  });

  test("gives no name without a prefix, the default lease, and another action when asked to", async () => {
    let time = Date.UTC(2030, 0, 1);
    await using at = await withParent({ now: () => time }, { template: "t", on_expire: "archive", ttl_seconds: 9 });
    time += 1000;
    const [child] = childrenOf(await at.fork({ count: 1, on_expire: "destroy" }));
    const row = (await at.api.rows()).find(({ id }) => id === child?.id);
    expect(row).not.toHaveProperty("claim_ref");
    expect(row).not.toHaveProperty("on_expire");
    expect(child?.deadline).toBe(new Date(time + 300_000).toISOString());
  });

  test("takes the sandbox's token in the body, or none from the operator", async () => {
    await using at = await withParent({ tenants: TENANTS });
    const body = (token?: string) => ({ count: 1, ...(token === undefined ? {} : { token }) });
    const status = async (token?: string, bearer?: string) => (await at.fork(body(token), bearer)).status;
    expect(await status(at.parent.token)).toBe(200);
    expect(await status("")).toBe(200);
    expect(await status()).toBe(200);
    expect(await status(at.parent.token, "bolt-token")).toBe(200);
    expect(await status("", "bolt-token")).toBe(404);
    expect(await status(undefined, "bolt-token")).toBe(404);
    expect(await status("wrong")).toBe(404);
    const header = await at.fork(body(at.parent.token), at.parent.token);
    expect([header.status, header.json()]).toEqual([401, { error: "invalid api token" }]);
    const unknown = await at.api.call("POST", "/v1/sandboxes/sb_0000000000000000/fork", { count: 1 });
    expect([unknown.status, unknown.json()]).toEqual([404, { error: "unknown sandbox" }]);
  });

  test("needs the sandbox's token on an open node", async () => {
    await using node = await startFakeNode();
    const parent = await node.api.claim();
    const path = `/v1/sandboxes/${parent.id}/fork`;
    expect((await node.api.call("POST", path, { count: 1 })).status).toBe(404);
    expect((await node.api.call("POST", path, { count: 1, token: parent.token })).status).toBe(200);
  });
});

describe("a fork", () => {
  test("of a tenant's sandbox is the tenant's, and counts against its cap whoever asks", async () => {
    await using node = await startFakeNode({ token: TOKEN, tenants: TENANTS });
    const parent = (await node.api.call("POST", "/v1/claim", { template: "t" }, "acme-token")).json();
    const path = `/v1/sandboxes/${String(parent["id"])}/fork`;
    const over = await node.api.call("POST", path, { count: 3 });
    expect([over.status, over.json()]).toEqual([
      429,
      { error: "node claim quota reached: tenant acme at 1 live claims, cap 3" },
    ]);
    expect((await node.api.call("POST", path, { count: 2 })).status).toBe(200);
    expect((await node.api.rows()).map((row) => row.tenant)).toEqual(["acme", "acme", "acme"]);
    expect((await node.api.call("POST", path, { count: 1 })).status).toBe(429);
  });

  test("is 429 over the node's cap and while it drains, and never a redirect", async () => {
    await using peer = await startFakeNode({ token: TOKEN, pools: [{ template: "base", warm: 1 }] });
    await peer.warmed();
    await using at = await withParent({ maxClaims: 3, peers: [peer.address] });
    await expect.poll(async () => (await at.api.info()).peers).toEqual([peer.address]);
    const over = await at.fork({ count: 3 });
    expect([over.status, over.json()]).toEqual([429, { error: "node claim quota reached: 1 live claims, cap 3" }]);
    await at.api.call("POST", "/v1/drain");
    const drained = await at.fork({ count: 1 });
    expect([drained.status, drained.json()]).toEqual([429, { error: "node claim quota reached: node draining" }]);
    await at.api.call("DELETE", "/v1/drain");
    expect((await at.fork({ count: 2 })).status).toBe(200);
    expect(at.node.guests).toHaveLength(3);
  });

  test("holds its places while the children start", async () => {
    const gate = Promise.withResolvers<void>();
    let waiting = false;
    await using at = await withParent({ maxClaims: 3, start: async () => (waiting ? await gate.promise : undefined) });
    waiting = true;
    const forked = at.fork({ count: 2 });
    await expect.poll(async () => (await at.api.call("POST", "/v1/claim", { template: "x" })).status).toBe(429);
    gate.resolve();
    expect((await forked).status).toBe(200);
  });

  test("is all or nothing: when one child does not start, none remains", async () => {
    let starts = 0;
    await using at = await withParent({
      start: async () => {
        starts += 1;
        if (starts === 4) {
          throw new Error("no more");
        }
      },
    });
    const answer = await at.fork({ count: 4 });
    expect([answer.status, answer.json()]).toEqual([500, { error: "fork failed" }]);
    expect(at.node.guests.slice(1).every((guest) => guest.destroyed)).toBe(true);
    expect((await at.api.rows()).map((row) => row.id)).toEqual([at.parent.id]);
    expect(at.node.guest(at.parent.id).frozen).toBe(false);
    expect(await metric(at.node, "sandboxd_forks_total")).toBe("sandboxd_forks_total 0");
    expect((await at.fork({ count: 1 })).status).toBe(200);
  });

  test("of a client that leaves remains without children", async () => {
    const gate = Promise.withResolvers<void>();
    let waiting = 0;
    let starts = 0;
    await using at = await withParent({
      start: async () => {
        starts += 1;
        if (starts > 1) {
          waiting += 1;
          await gate.promise;
        }
      },
    });
    const left = new AbortController();
    const forked = fetch(`http://${at.node.address}/v1/sandboxes/${at.parent.id}/fork`, {
      method: "POST",
      headers: { authorization: `Bearer ${TOKEN}` },
      body: '{"count":2}',
      signal: left.signal,
    });
    const refused = expect(forked).rejects.toThrow();
    await expect.poll(() => waiting).toBe(2);
    left.abort();
    await refused;
    gate.resolve();
    await expect.poll(() => at.node.guests.slice(1).every((guest) => guest.destroyed)).toBe(true);
    expect((await at.api.info()).claimed).toBe(1);
  });

  test("of a hibernated parent does not wake it; of an archived or failed one it is 409", async () => {
    let time = Date.UTC(2030, 0, 1);
    await using at = await withParent({ now: () => time }, { template: "t", on_expire: "archive", ttl_seconds: 60 });
    await at.api.call("POST", `/v1/sandboxes/${at.parent.id}/hibernate`);
    expect(childrenOf(await at.fork({ count: 1 }))).toHaveLength(1);
    expect(at.node.guest(at.parent.id).frozen).toBe(true);
    expect((await at.api.rows())[0]).toMatchObject({ id: at.parent.id, hibernated: true });
    time += 61_000;
    await at.node.node.reap();
    const archived = await at.fork({ count: 1 });
    expect([archived.status, archived.json()["error"]]).toEqual([409, expect.stringContaining("archived")]);
    const failed = await at.api.claim();
    at.node.guest(failed.id).end("gone");
    await expect
      .poll(async () => (await at.api.call("POST", `/v1/sandboxes/${failed.id}/fork`, { count: 1 })).status)
      .toBe(409);
  });
});

describe("of an egress-lane sandbox", () => {
  test.each([
    ["fork", { count: 1 }, "egress-lane sandboxes cannot fork, checkpoint, or promote"],
    ["checkpoint", {}, "egress-lane sandboxes cannot fork, checkpoint, or promote"],
    ["promote", { template: "x" }, "egress-lane sandboxes cannot fork, checkpoint, or promote"],
    ["hibernate", {}, "egress-lane sandboxes do not hibernate"],
  ])("%s is 409", async (verb, body, error) => {
    await using at = await withParent({ egressLane: true }, { template: "t", net: "egress" });
    const answer = await at.api.call("POST", `/v1/sandboxes/${at.parent.id}/${verb}`, body);
    expect([answer.status, answer.json()]).toEqual([409, { error }]);
  });
});

describe("while a sandbox is copied", () => {
  async function copying() {
    const at = await withParent();
    const gate = Promise.withResolvers<void>();
    const guest = at.node.guest(at.parent.id);
    guest.copying = gate.promise;
    const path = `/v1/sandboxes/${at.parent.id}`;
    const checkpoint = at.api.call("POST", `${path}/checkpoint`, {});
    await expect.poll(() => guest.frozen).toBe(true);
    return { ...at, guest, gate, path, checkpoint };
  }

  test("a release wins: the copy ends, nothing of it remains", async () => {
    await using at = await copying();
    const release = at.api.call("POST", `${at.path}/release`);
    await expect.poll(async () => (await at.api.rows()).length).toBe(0);
    at.gate.resolve();
    expect((await release).status).toBe(204);
    const answer = await at.checkpoint;
    expect([answer.status, answer.json()]).toEqual([404, { error: "unknown sandbox" }]);
    expect(at.guest.destroyed).toBe(true);
    expect((await at.api.call("GET", "/v1/checkpoints")).json()).toEqual({ checkpoints: [] });
  });

  test("hibernation waits its turn, and instance metadata and passive relays are 409", async () => {
    await using at = await copying();
    const hibernate = at.api.call("POST", `${at.path}/hibernate`);
    expect((await at.api.call("PUT", `${at.path}/instance-metadata`, {})).status).toBe(409);
    expect((await at.api.relay(at.parent.id, 80, TOKEN)).status).toBe(409);
    expect((await at.api.rows())[0]).toMatchObject({ hibernated: false });
    at.gate.resolve();
    expect([(await at.checkpoint).status, (await hibernate).status]).toEqual([200, 204]);
    expect(at.guest.frozen).toBe(true);
  });

  test("a copy that fails leaves it running, and a guest that ends meanwhile makes it 409", async () => {
    await using at = await copying();
    at.gate.reject(new Error("disk full"));
    expect([(await at.checkpoint).status, at.guest.frozen]).toEqual([500, false]);
    const gate = Promise.withResolvers<void>();
    at.guest.copying = gate.promise;
    const again = at.api.call("POST", `${at.path}/checkpoint`, {});
    await expect.poll(() => at.guest.frozen).toBe(true);
    at.guest.end("out of memory");
    gate.resolve();
    expect((await again).status).toBe(409);
    expect((await at.api.call("GET", "/v1/checkpoints")).json()).toEqual({ checkpoints: [] });
  });
});
