import { cpSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { ClaimReply } from "@org/sandboxd-client/wire";
import type { Api } from "../testing/api.ts";
import { startFakeNode, type FakeNode } from "../testing/fake-node.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const TOKEN = "root-token";
const TENANTS = [
  { name: "acme", token: "acme-token" },
  { name: "bolt", token: "bolt-token" },
];

async function promote(
  node: FakeNode,
  template: string,
  { content = "files", claim = {}, bearer = TOKEN }: { content?: string; claim?: object; bearer?: string } = {},
): Promise<string> {
  const source = await node.api.call("POST", "/v1/claim", { template: "source", no_redirect: true, ...claim }, bearer);
  const id = String(source.json()["id"]);
  node.guest(id).content = content;
  const answer = await node.api.call("POST", `/v1/sandboxes/${id}/promote`, { template });
  await node.api.call("POST", `/v1/sandboxes/${id}/release`);
  expect([answer.status, answer.text]).toEqual([200, expect.stringContaining("sha256:")]);
  return String(answer.json()["content_digest"]);
}

const claimFrom = async (api: Api, body: object, bearer?: string): Promise<ClaimReply> =>
  (await api.call("POST", "/v1/claim", body, bearer)).json() as unknown as ClaimReply;

const remove = (api: Api, query: string, bearer?: string) =>
  api.call("DELETE", `/v1/templates?${query}`, undefined, bearer);
const label = (api: Api, query: string, body: unknown, bearer?: string) =>
  api.call("PUT", `/v1/templates/labels?${query}`, body, bearer);

describe("a promoted template", () => {
  test("has the sandbox's lane and size, and is cloned by later claims of exactly that key", async () => {
    const time = Date.UTC(2030, 0, 1);
    await using node = await startFakeNode({ token: TOKEN, now: () => time });
    const source = await node.api.claim({ template: "source", size: "large" });
    node.guest(source.id).content = "files";
    const answer = await node.api.call("POST", `/v1/sandboxes/${source.id}/promote`, { template: "team/app:1" });
    const key = { template: "team/app:1", net: "none", size: "large" };
    const digest = answer.json()["content_digest"];
    expect([answer.status, answer.json()]).toEqual([
      200,
      { key, content_digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) },
    ]);
    const info = await node.api.info();
    expect(info.templates).toEqual([
      {
        key,
        content_digest: digest,
        created_at: new Date(time).toISOString(),
        cpu_count: 4,
        mem_total_bytes: 4_294_967_296,
      },
    ]);
    expect(info.pools).toEqual([]);
    const clone = await node.api.claim({ template: "team/app:1", size: "large" });
    expect([clone.template_digest, node.guest(clone.id).content]).toEqual([digest, "files"]);
    const other = await node.api.claim({ template: "team/app:1" });
    expect([other.template_digest, node.guest(other.id).content]).toEqual([undefined, ""]);
    const metrics = (await node.api.call("GET", "/metrics")).text;
    expect(metrics).toContain("\nsandboxd_promotes_total 1\n");
    expect(metrics).toContain('sandboxd_claims_total{tier="clone"} 1\n');
    expect(metrics).toContain('sandboxd_claims_total{tier="cold"} 2\n');
  });

  test("is replaced by the next one, without its labels; the same bytes have the same digest", async () => {
    await using node = await startFakeNode({ token: TOKEN });
    const first = await promote(node, "app");
    expect((await label(node.api, "template=app", { labels: { a: "b" } })).status).toBe(204);
    expect(await promote(node, "app")).toBe(first);
    const other = await promote(node, "app", { content: "other files" });
    expect(other).not.toBe(first);
    expect(await node.api.info()).toMatchObject({ templates: [{ content_digest: other }] });
    expect((await node.api.info()).templates[0]).not.toHaveProperty("labels");
    const clone = await node.api.claim({ template: "app" });
    expect(node.guest(clone.id).content).toBe("other files");
  });

  test("outlives the node in its state folder, with its labels", async () => {
    await using state = temporaryFolder();
    let before: unknown;
    {
      await using node = await startFakeNode({ token: TOKEN, stateDir: state.path });
      await promote(node, "gone");
      await promote(node, "app", { content: "old" });
      await promote(node, "app", { content: "new" });
      await label(node.api, "template=app", { labels: { a: "b" } });
      await remove(node.api, "template=gone");
      before = (await node.api.info()).templates;
    }
    await using node = await startFakeNode({ token: TOKEN, stateDir: state.path });
    expect((await node.api.info()).templates).toEqual(before);
    expect(before).toMatchObject([{ key: { template: "app" }, labels: { a: "b" } }]);
    const clone = await node.api.claim({ template: "app", require_promoted: true });
    expect(node.guest(clone.id).content).toBe("new");
  });

  test.each(["", "-x", "a b", "x".repeat(64), "../x"])("cannot be named %j", async (template) => {
    await using node = await startFakeNode({ token: TOKEN });
    const source = await node.api.claim();
    const answer = await node.api.call("POST", `/v1/sandboxes/${source.id}/promote`, { template });
    expect([answer.status, answer.json()["error"]]).toEqual([400, expect.stringContaining("template name")]);
  });

  test("of a tenant is cloned by it and the operator, and can be neither replaced nor deleted by others", async () => {
    await using node = await startFakeNode({ token: TOKEN, tenants: TENANTS });
    const digest = await promote(node, "app", { bearer: "acme-token" });
    expect((await node.api.info()).templates).toMatchObject([{ tenant: "acme" }]);
    const claim = { template: "app" };
    expect((await claimFrom(node.api, claim, "acme-token")).template_digest).toBe(digest);
    expect((await claimFrom(node.api, claim, TOKEN)).template_digest).toBe(digest);
    expect(await claimFrom(node.api, claim, "bolt-token")).not.toHaveProperty("template_digest");
    const wanted = await node.api.call("POST", "/v1/claim", { ...claim, require_promoted: true }, "bolt-token");
    expect(wanted.status).toBe(404);
    for (const bearer of ["bolt-token", TOKEN]) {
      const source = await claimFrom(node.api, { template: "t" }, bearer);
      const taken = await node.api.call("POST", `/v1/sandboxes/${source.id}/promote`, { template: "app" });
      expect([taken.status, taken.json()]).toEqual([409, { error: "template owned by another tenant" }]);
    }
    expect((await remove(node.api, "template=app", "bolt-token")).status).toBe(404);
    expect((await label(node.api, "template=app", {}, "bolt-token")).status).toBe(404);
    expect((await remove(node.api, "template=app", "acme-token")).status).toBe(204);
  });

  test("of the operator is cloned by tenants, who cannot delete it", async () => {
    await using node = await startFakeNode({ token: TOKEN, tenants: TENANTS });
    const digest = await promote(node, "app");
    expect((await claimFrom(node.api, { template: "app" }, "acme-token")).template_digest).toBe(digest);
    expect((await remove(node.api, "template=app", "acme-token")).status).toBe(404);
    expect((await remove(node.api, "template=app")).status).toBe(204);
    expect(await claimFrom(node.api, { template: "app" })).not.toHaveProperty("template_digest");
  });

  test("fills a pool that is configured afterwards, and is hidden and kept by it", async () => {
    await using node = await startFakeNode({ token: TOKEN });
    await promote(node, "app");
    await node.api.call("PUT", "/v1/pools", { pools: [{ template: "app", warm: 1 }] });
    await node.warmed();
    const warm = await node.api.claim({ template: "app" });
    expect([node.guest(warm.id).content, warm.template_digest]).toEqual(["files", undefined]);
    expect((await node.api.info()).templates).toEqual([]);
    for (const answer of [await remove(node.api, "template=app"), await label(node.api, "template=app", {})]) {
      expect([answer.status, answer.json()]).toEqual([409, { error: "template belongs to a configured pool" }]);
    }
    const wanted = await node.api.claim({ template: "app", require_promoted: true });
    expect(wanted.template_digest).toMatch(/^sha256:/);
  });

  test("serves a key that a node refuses otherwise", async () => {
    await using node = await startFakeNode({
      token: TOKEN,
      refuseUnpooled: true,
      pools: [{ template: "source", warm: 0 }],
    });
    await promote(node, "app");
    expect((await node.api.claim({ template: "app" })).template_digest).toMatch(/^sha256:/);
    expect((await node.api.call("POST", "/v1/claim", { template: "other" })).status).toBe(500);
  });
});

describe("§13.3.20", () => {
  test("a promotion to a pooled name is 409", async () => {
    await using node = await startFakeNode({ token: TOKEN, pools: [{ template: "base", warm: 0 }] });
    const source = await node.api.claim({ template: "other" });
    const answer = await node.api.call("POST", `/v1/sandboxes/${source.id}/promote`, { template: "base" });
    expect([answer.status, answer.json()]).toEqual([409, { error: "template belongs to a configured pool" }]);
    expect((await node.api.info()).templates).toEqual([]);
  });

  test("a deletion with another digest is 412, with the right one or none 204, and then 404", async () => {
    await using node = await startFakeNode({ token: TOKEN });
    const digest = await promote(node, "app", { claim: { size: "medium" } });
    const stale = await remove(node.api, `template=app&size=medium&digest=sha256:${"0".repeat(64)}`);
    expect([stale.status, stale.json()["error"]]).toEqual([412, expect.any(String)]);
    expect((await remove(node.api, "template=app")).json()).toEqual({ error: "unknown template" });
    expect((await remove(node.api, `template=app&net=none&size=medium&digest=${digest}`)).status).toBe(204);
    expect((await remove(node.api, "template=app&size=medium")).status).toBe(404);
  });

  test("a deletion on a node that does not hold it names those that do, unless it may not", async () => {
    await using holder = await startFakeNode({ token: TOKEN, tenants: TENANTS });
    await promote(holder, "app");
    await using node = await startFakeNode({ token: TOKEN, tenants: TENANTS, peers: [holder.address] });
    await expect
      .poll(async () => (await remove(node.api, "template=app")).json())
      .toEqual({ redirect: [holder.address] });
    expect((await remove(node.api, "template=app&no_redirect=1")).status).toBe(404);
    expect((await remove(node.api, "template=app&no_redirect=")).status).toBe(200);
    expect((await remove(node.api, "template=app", "acme-token")).status).toBe(404);
    expect((await remove(node.api, "template=other")).status).toBe(404);
    expect((await remove(holder.api, "template=app&no_redirect=1")).status).toBe(204);
    await expect.poll(async () => (await remove(node.api, "template=app")).status).toBe(404);
  });
});

describe("a template that was replaced", () => {
  test("does not come back when its node was killed in between and the newer one is deleted", async () => {
    await using state = temporaryFolder();
    const shelfOf = () => join(state.path, "captures", readdirSync(join(state.path, "captures"))[0] ?? "");
    {
      await using node = await startFakeNode({ token: TOKEN, stateDir: state.path });
      await promote(node, "app", { content: "old" });
      const [old = ""] = readdirSync(shelfOf()).filter((name) => name !== "lock");
      cpSync(join(shelfOf(), old), join(state.path, "old"), { recursive: true });
      await promote(node, "app", { content: "new" });
      cpSync(join(state.path, "old"), join(shelfOf(), "0ld"), { recursive: true });
    }
    {
      await using node = await startFakeNode({ token: TOKEN, stateDir: state.path });
      expect((await node.api.info()).templates).toHaveLength(1);
      const clone = await claimFrom(node.api, { template: "app" });
      expect(node.guest(clone.id).content).toBe("new");
      expect((await remove(node.api, "template=app")).status).toBe(204);
    }
    await using node = await startFakeNode({ token: TOKEN, stateDir: state.path });
    expect((await node.api.info()).templates).toEqual([]);
  });
});

describe("§13.3.7 a claim that requires a promoted template", () => {
  test("is redirected to its holders, with the requirement, and never past the node's own", async () => {
    await using holder = await startFakeNode({ token: TOKEN, tenants: TENANTS });
    await promote(holder, "app");
    await promote(holder, "private", { bearer: "acme-token" });
    await using node = await startFakeNode({
      token: TOKEN,
      tenants: TENANTS,
      peers: [holder.address],
    });
    const claim = (body: object, bearer?: string) => node.api.call("POST", "/v1/claim", body, bearer);
    const redirect = { redirect: [holder.address], require_promoted: true };
    await expect.poll(async () => (await claim({ template: "app", require_promoted: true })).json()).toEqual(redirect);
    expect((await claim({ template: "app" })).json()).toEqual(redirect);
    expect((await claim({ template: "app" }, "acme-token")).json()).toEqual(redirect);
    expect((await claim({ template: "private" }, "acme-token")).json()).toEqual(redirect);
    expect((await claim({ template: "private", require_promoted: true }, "bolt-token")).status).toBe(404);
    const here = await claim({ template: "app", require_promoted: true, no_redirect: true });
    expect([here.status, here.json()]).toEqual([404, { error: "unknown template" }]);
    expect((await claim({ template: "app", no_redirect: true })).json()).toHaveProperty("id");
    const followed = await claimFrom(holder.api, { template: "app", require_promoted: true, no_redirect: true });
    expect(followed.template_digest).toMatch(/^sha256:/);
    await promote(node, "app");
    expect((await claim({ template: "app", require_promoted: true })).json()).toHaveProperty("template_digest");
  });

  test("never takes a warm guest, and is 429 on a drained holder", async () => {
    await using node = await startFakeNode({ token: TOKEN, pools: [{ template: "base", warm: 1 }] });
    await node.warmed();
    await promote(node, "app");
    const claim = (template: string) => node.api.call("POST", "/v1/claim", { template, require_promoted: true });
    expect((await claim("base")).status).toBe(404);
    expect((await node.api.info()).pools[0]?.warm).toBe(1);
    await node.api.call("POST", "/v1/drain");
    expect((await claim("app")).status).toBe(429);
  });
});

describe("labels", () => {
  test("are replaced as a whole, cleared, and kept to a build", async () => {
    await using node = await startFakeNode({ token: TOKEN });
    const digest = await promote(node, "app");
    const labels = async () => (await node.api.info()).templates[0]?.labels;
    for (const [body, expected] of [
      [{ labels: { a: "1", A: "2" } }, { a: "1", A: "2" }],
      [{ Labels: { b: "3" } }, { b: "3" }],
      [{ labels: {} }, undefined],
      [{ labels: { c: "4" } }, { c: "4" }],
      [{ labels: null }, undefined],
    ] as const) {
      expect((await label(node.api, `template=app&digest=${digest}`, body)).status).toBe(204);
      expect(await labels()).toEqual(expected);
    }
    expect((await label(node.api, "template=app&digest=sha256:00", { labels: { x: "y" } })).status).toBe(412);
    expect((await label(node.api, "template=other", { labels: {} })).status).toBe(404);
    expect((await label(node.api, "template=app", { labels: {} }, "wrong")).status).toBe(401);
    expect(await labels()).toBeUndefined();
  });

  test.each([
    ["", "invalid request body"],
    ['{"labels":{},"more":1}', 'invalid request body: Unrecognized key: "more"'],
    ['{"labels":{"a":"1","a":"2"}}', 'invalid request body: repeated member "a"'],
    ['{"labels":{},"LABELS":{}}', 'invalid request body: repeated member "labels"'],
    ['{"labels":{"a=b":"1"}}', "label keys are printable ASCII without = and &"],
    [`{"labels":{"a":"${"x".repeat(513)}"}}`, "label values have at most 512 bytes"],
  ])("%j are 400", async (body, error) => {
    await using node = await startFakeNode({ token: TOKEN });
    await promote(node, "app");
    const answer = await label(node.api, "template=app", body);
    expect([answer.status, answer.json()]).toEqual([400, { error }]);
  });

  test.each(["", "template=app&net=x", "template=app&size=x"])("and deletions of %j are 400", async (query) => {
    await using node = await startFakeNode({ token: TOKEN });
    expect((await label(node.api, query, { labels: {} })).status).toBe(400);
    expect((await remove(node.api, query)).status).toBe(400);
  });
});

describe("instance metadata", () => {
  test("is one JSON object, given to the guest byte for byte, again and again", async () => {
    await using node = await startFakeNode({ token: TOKEN });
    const sandbox = await node.api.claim();
    const path = `/v1/sandboxes/${sandbox.id}/instance-metadata`;
    for (const text of ['{ "a" : 1, "a": "é" }\n', "{}", "{}"]) {
      expect((await node.api.call("PUT", path, text)).status).toBe(204);
      expect(node.guest(sandbox.id).document).toBe(text);
    }
  });

  test.each([
    ["", 400],
    ["[]", 400],
    ["null", 400],
    ['"x"', 400],
    ["{} {}", 400],
    [`{"a":"${"x".repeat(4089)}"}`, 400],
    [`{"a":"${"x".repeat(4088)}"}`, 204],
    [`{"a":"${"é".repeat(2044)}"}`, 204],
    [`{"a":"${"é".repeat(2045)}"}`, 400],
  ])("%# is judged by its shape and its bytes", async (body, status) => {
    await using node = await startFakeNode({ token: TOKEN });
    const sandbox = await node.api.claim();
    expect((await node.api.call("PUT", `/v1/sandboxes/${sandbox.id}/instance-metadata`, body)).status).toBe(status);
  });

  test("is the operator's to set, for a running sandbox", async () => {
    await using node = await startFakeNode({ token: TOKEN, tenants: TENANTS });
    const sandbox = await node.api.claim();
    const put = async (id = sandbox.id, bearer = TOKEN) =>
      (await node.api.call("PUT", `/v1/sandboxes/${id}/instance-metadata`, {}, bearer)).status;
    expect(await put(sandbox.id, sandbox.token)).toBe(401);
    expect(await put(sandbox.id, "acme-token")).toBe(403);
    expect(await put("sb_0000000000000000")).toBe(404);
    await node.api.call("POST", `/v1/sandboxes/${sandbox.id}/hibernate`);
    expect(await put()).toBe(409);
    await node.api.call("POST", `/v1/sandboxes/${sandbox.id}/wake`);
    expect(await put()).toBe(204);
    node.guest(sandbox.id).end("gone");
    await expect.poll(() => put()).toBe(409);
  });
});
