import { describe, expect, test } from "vitest";
import { startFakeNode, type FakeNode } from "../testing/fake-node.ts";

const TOKEN = "root-token";
const POOL = { template: "base", warm: 2 };

async function metric(node: FakeNode, line: string): Promise<number | undefined> {
  const { text } = await node.api.call("GET", "/metrics");
  const match = new RegExp(`^${line.replaceAll(/[{}]/g, "\\$&")} (.*)$`, "m").exec(text);
  return match === null ? undefined : Number(match[1]);
}

/** Polls until `check` passes: for what a poll of the peers brings. */
async function until(check: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await check())) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

describe("a claim", () => {
  test("takes a warm guest, grants 300 s, counts and is refilled", async () => {
    await using node = await startFakeNode({ token: TOKEN, pools: [POOL] });
    await node.warmed();
    const before = Date.now();
    const claim = await node.api.claim({ template: "base" });
    expect(claim.id).toMatch(/^sb_[0-9a-f]{16}$/);
    expect(claim.token).toMatch(/^[0-9a-f]{32}$/);
    expect(claim.owner_addr).toBe(node.address);
    expect(claim.net_route).toBe("none");
    expect(Date.parse(claim.deadline) - before).toBeGreaterThanOrEqual(299_000);
    expect(Date.parse(claim.deadline) - before).toBeLessThan(330_000);
    expect(await metric(node, 'sandboxd_claims_total{tier="warm"}')).toBe(1);
    expect(await metric(node, 'sandboxd_claims_total{tier="cold"}')).toBe(0);
    await node.warmed();
    const [pool] = (await node.api.info()).pools;
    expect(pool).toMatchObject({
      key: { template: "base", net: "none", size: "small" },
      warm: 2,
      target: 2,
      golden: true,
    });
  });

  test.each([
    ["a negative lease is the default", -5, 300],
    ["none is the default", undefined, 300],
    ["null is the default", null, 300],
    ["more than a day is clamped", 999_999, 86_400],
    ["a short one is granted", 7, 7],
  ])("%s", async (_, ttl, granted) => {
    const start = Date.UTC(2030, 0, 1);
    await using node = await startFakeNode({ token: TOKEN, now: () => start });
    const claim = await node.api.claim({ template: "base", ttl_seconds: ttl });
    expect(Date.parse(claim.deadline)).toBe(start + granted * 1000);
  });

  test("counts the first guest of a pool as cold and later ones as clones", async () => {
    await using node = await startFakeNode({ token: TOKEN, pools: [{ template: "base", warm: 0 }] });
    expect((await node.api.info()).pools[0]?.golden).toBe(false);
    await node.api.claim();
    await node.api.claim();
    expect(await metric(node, 'sandboxd_claims_total{tier="cold"}')).toBe(1);
    expect(await metric(node, 'sandboxd_claims_total{tier="clone"}')).toBe(1);
  });

  const long = "x".repeat(513);
  test.each([
    ["an empty body", "", "invalid request body"],
    ["broken JSON", "{", "invalid request body"],
    ["a list", "[]", "invalid request body"],
    ["a template that is no text", '{"template":5}', "invalid request body"],
    ["two MiB", `{"template":"${"x".repeat(2 * 1024 * 1024)}"}`, "invalid request body"],
    ["no template", "{}", "invalid pool key: template is empty"],
    ["an unknown net", '{"template":"b","net":"wifi"}', 'invalid pool key: unknown net "wifi"'],
    ["an unknown size", '{"template":"b","size":"huge"}', 'invalid pool key: unknown size "huge"'],
    [
      "an unknown action",
      '{"template":"b","on_expire":"sell"}',
      'on_expire must be "destroy" or "archive", not "sell"',
    ],
    ["a key with =", '{"template":"b","metadata":{"a=b":"c"}}', "metadata keys are printable ASCII without = and &"],
    ["a long value", `{"template":"b","metadata":{"a":"${long}"}}`, "metadata values have at most 512 bytes"],
    ["a control character", '{"template":"b","metadata":{"a":"\\u0007"}}', "metadata values are printable UTF-8"],
    ["volumes", '{"template":"b","volumes":[{"name":"v"}]}', "invalid volume request: unknown or unavailable volume"],
    ["variables", '{"template":"b","env":{"A":{"value":"x"}}}', "env is not supported by this node"],
  ])("answers 400 to %s", async (_, body, message) => {
    await using node = await startFakeNode({ token: TOKEN });
    const answer = await node.api.call("POST", "/v1/claim", body);
    expect(answer.status).toBe(400);
    expect(answer.json()).toEqual({ error: message });
    expect(node.guests).toHaveLength(0);
  });

  test("matches names without case and ignores unknown ones", async () => {
    await using node = await startFakeNode({ token: TOKEN });
    const claim = await node.api.claim({ Template: "base", CLAIM_REF: "ns/a", Metadata: { Key: "V" }, colour: "red" });
    const [row] = await node.api.rows();
    expect(row).toMatchObject({ id: claim.id, claim_ref: "ns/a", metadata: { Key: "V" } });
  });

  test("of the egress lane is 409 on a node without one", async () => {
    await using node = await startFakeNode({ token: TOKEN });
    const answer = await node.api.call("POST", "/v1/claim", { template: "base", net: "egress" });
    expect([answer.status, answer.json()]).toEqual([
      409,
      { error: "node has no egress attachment (bridge or network)" },
    ]);
  });

  test("of the egress lane cannot be archived, and may be shut", async () => {
    await using node = await startFakeNode({ token: TOKEN, egressLane: true });
    const refused = await node.api.call("POST", "/v1/claim", { template: "b", net: "egress", on_expire: "archive" });
    expect(refused.status).toBe(409);
    const open = await node.api.claim({ template: "b", net: "egress" });
    const shut = await node.api.claim({ template: "b", net: "egress", egress: false });
    expect([open.net_route, shut.net_route]).toEqual(["relay", "none"]);
    expect(node.guest(open.id).egress).toBeUndefined();
    expect(node.guest(shut.id).egress).toBe(false);
  });

  test("of a promoted template is 404 although a pool serves the key", async () => {
    await using node = await startFakeNode({ token: TOKEN, pools: [POOL] });
    await node.warmed();
    const answer = await node.api.call("POST", "/v1/claim", { template: "base", require_promoted: true });
    expect([answer.status, answer.json()]).toEqual([404, { error: "unknown template" }]);
  });

  test("is 500 when the guest does not start, and when the node refuses unknown keys", async () => {
    await using failing = await startFakeNode({ token: TOKEN, start: () => Promise.reject(new Error("no")) });
    expect((await failing.api.call("POST", "/v1/claim", { template: "b" })).json()).toEqual({
      error: "provisioning failed",
    });
    await using refusing = await startFakeNode({ token: TOKEN, refuseUnpooled: true });
    expect((await refusing.api.call("POST", "/v1/claim", { template: "b" })).status).toBe(500);
    expect(refusing.guests).toHaveLength(0);
  });

  test("beyond the node's cap is 429, paused ones counted", async () => {
    await using node = await startFakeNode({ token: TOKEN, maxClaims: 1 });
    const claim = await node.api.claim();
    await node.api.call("POST", `/v1/sandboxes/${claim.id}/hibernate`);
    const full = await node.api.call("POST", "/v1/claim", { template: "base" });
    expect([full.status, full.json()]).toEqual([429, { error: "node claim quota reached: 1 live claims, cap 1" }]);
    await node.api.call("POST", `/v1/sandboxes/${claim.id}/release`);
    await node.api.claim();
  });

  test("beyond the cap while guests still start is 429", async () => {
    const gate = Promise.withResolvers<void>();
    await using node = await startFakeNode({ token: TOKEN, maxClaims: 1, start: () => gate.promise });
    const first = node.api.claim();
    await until(async () => (await node.api.call("POST", "/v1/claim", { template: "base" })).status === 429);
    gate.resolve();
    await first;
  });

  test("beyond the tenant's cap is 429 and names it", async () => {
    const tenants = [{ name: "acme", token: "acme-token", maxClaims: 1 }];
    await using node = await startFakeNode({ token: TOKEN, tenants });
    expect((await node.api.call("POST", "/v1/claim", { template: "b" }, "acme-token")).status).toBe(200);
    const full = await node.api.call("POST", "/v1/claim", { template: "b" }, "acme-token");
    expect(full.json()).toEqual({ error: "node claim quota reached: tenant acme at 1 live claims, cap 1" });
    await node.api.claim();
    expect(await metric(node, 'sandboxd_tenant_claims{tenant="acme"}')).toBe(1);
  });
});

describe("a node in a mesh", () => {
  test("redirects a claim to a warm peer by its client address and counts nothing", async () => {
    await using warm = await startFakeNode({ token: TOKEN, pools: [POOL] });
    await warm.warmed();
    await using cold = await startFakeNode({ token: TOKEN, peers: [warm.address] });
    await until(async () => (await cold.api.info()).peers.length === 1);
    expect((await cold.api.info()).peers).toEqual([warm.address]);
    expect((await cold.api.call("GET", "/v1/peers")).json()).toEqual({ peers: [warm.address] });
    const answer = await cold.api.call("POST", "/v1/claim", { template: "base" });
    expect([answer.status, answer.json()]).toEqual([200, { redirect: [warm.address] }]);
    expect(await metric(cold, 'sandboxd_claims_total{tier="cold"}')).toBe(0);
    const here = await cold.api.call("POST", "/v1/claim", { template: "base", no_redirect: true });
    expect(here.json()["owner_addr"]).toBe(cold.address);
  });

  test("names at most two peers, the better stocked first", async () => {
    const pools = [1, 3, 2].map((count) => [{ template: "base", warm: count }]);
    await using a = await startFakeNode({ token: TOKEN, pools: pools[0] ?? [] });
    await using b = await startFakeNode({ token: TOKEN, pools: pools[1] ?? [] });
    await using c = await startFakeNode({ token: TOKEN, pools: pools[2] ?? [] });
    await Promise.all([a, b, c].map((node) => node.warmed()));
    let roll = 0;
    await using cold = await startFakeNode({
      token: TOKEN,
      peers: [a.address, b.address, c.address],
      random: () => [0, 0][roll++ % 2] ?? 0,
    });
    await until(async () => (await cold.api.info()).peers.length === 3);
    const answer = await cold.api.call("POST", "/v1/claim", { template: "base" });
    expect(answer.json()["redirect"]).toEqual([b.address, a.address]);
  });

  test("redirects when drained or full, and is 429 when nobody is warm or the claim must stay", async () => {
    await using warm = await startFakeNode({ token: TOKEN, pools: [POOL] });
    await warm.warmed();
    await using full = await startFakeNode({ token: TOKEN, peers: [warm.address], pools: [POOL], maxClaims: 1 });
    await full.warmed();
    await until(async () => (await full.api.info()).peers.length === 1);
    await full.api.claim();
    const elsewhere = await full.api.call("POST", "/v1/claim", { template: "base" });
    expect(elsewhere.json()).toEqual({ redirect: [warm.address] });
    expect((await full.api.call("POST", "/v1/claim", { template: "base", no_redirect: true })).status).toBe(429);
    expect((await full.api.call("POST", "/v1/claim", { template: "other" })).status).toBe(429);
    await full.api.call("POST", "/v1/drain");
    const drained = await full.api.call("POST", "/v1/claim", { template: "base", no_redirect: true });
    expect(drained.json()).toEqual({ error: "node claim quota reached: node draining" });
    expect((await full.api.call("POST", "/v1/claim", { template: "base" })).json()).toEqual({
      redirect: [warm.address],
    });
  });

  test("keeps a drained peer in sight but sends nobody there", async () => {
    await using peer = await startFakeNode({ token: TOKEN, pools: [POOL] });
    await peer.warmed();
    await using node = await startFakeNode({ token: TOKEN, peers: [peer.address] });
    await until(async () => "redirect" in (await node.api.call("POST", "/v1/claim", { template: "base" })).json());
    const drained = await peer.api.call("POST", "/v1/drain");
    expect(drained.json()).toMatchObject({ draining: true, pools: [{ warm: 0, target: 2 }] });
    await until(async () => "id" in (await node.api.call("POST", "/v1/claim", { template: "base" })).json());
    expect((await node.api.info()).peers).toEqual([peer.address]);
    expect((await peer.api.call("DELETE", "/v1/drain")).json()).not.toHaveProperty("draining");
    await peer.warmed();
  });

  test("loses a peer that stopped answering, and itself is never its own peer", async () => {
    const peer = await startFakeNode({ token: TOKEN, pools: [POOL] });
    await using node = await startFakeNode({ token: TOKEN });
    node.setPeers([peer.address, node.address]);
    await until(async () => (await node.api.info()).peers.length === 1);
    await peer[Symbol.asyncDispose]();
    await until(async () => (await node.api.info()).peers.length === 0);
    await node.api.claim();
  });
});

/** Sends a claim and hangs up when `when` resolves. */
async function claimAndLeave(node: FakeNode, when: Promise<unknown>): Promise<void> {
  const left = new AbortController();
  const call = fetch(`http://${node.address}/v1/claim`, {
    method: "POST",
    headers: { authorization: `Bearer ${TOKEN}` },
    body: JSON.stringify({ template: "base" }),
    signal: left.signal,
  });
  await when;
  left.abort();
  await call.catch(() => undefined);
}

test("a claim that is not UTF-8 is a bad body", async () => {
  await using node = await startFakeNode({ token: TOKEN });
  const body = Buffer.from('{"template":"\u00ff"}', "latin1");
  const headers = { authorization: `Bearer ${TOKEN}` };
  const answer = await fetch(`http://${node.address}/v1/claim`, { method: "POST", headers, body });
  expect([answer.status, await answer.json()]).toEqual([400, { error: "invalid request body" }]);
});

test("a client that leaves before its claim is answered leaves no sandbox behind", async () => {
  const gate = Promise.withResolvers<void>();
  let started = 0;
  await using node = await startFakeNode({
    token: TOKEN,
    start: () => {
      started += 1;
      return gate.promise;
    },
  });
  // Four guests may start at a time: the other claims wait for their turn.
  const running = Promise.withResolvers<void>();
  const clients = Array.from({ length: 10 }, () => claimAndLeave(node, running.promise));
  await until(() => started === 4);
  running.resolve();
  await Promise.all(clients);
  // The node has seen the ends of connections that came before these requests.
  for (let turn = 0; turn < 3; turn += 1) {
    await node.api.info();
  }
  gate.resolve();
  // Who stays is served, behind everybody who left.
  const { id } = await node.api.claim();
  await until(async () => (await node.api.rows()).every((row) => row.id === id));
  await until(() => node.guests.every((guest) => guest.destroyed || guest.id === id));
  expect(node.guests.length).toBe(5);
  expect((await node.api.rows()).map((row) => row.id)).toEqual([id]);
});
