import { describe, expect, test } from "vitest";
import type { CheckpointRecord, ClaimReply } from "@org/sandboxd-client/wire";
import type { Api } from "../testing/api.ts";
import { startFakeNode } from "../testing/fake-node.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const TOKEN = "root-token";
const TENANTS = [
  { name: "acme", token: "acme-token" },
  { name: "bolt", token: "bolt-token" },
];
const UNKNOWN = "ck_0000000000000000";

async function checkpoint(api: Api, id: string, body: object = {}, bearer = TOKEN): Promise<CheckpointRecord> {
  const answer = await api.call("POST", `/v1/sandboxes/${id}/checkpoint`, body, bearer);
  expect(answer.status).toBe(200);
  return answer.json()["checkpoint"] as CheckpointRecord;
}

const list = async (api: Api, bearer = TOKEN): Promise<string[]> =>
  ((await api.call("GET", "/v1/checkpoints", undefined, bearer)).json()["checkpoints"] as CheckpointRecord[]).map(
    (record) => record.id,
  );

describe("a checkpoint", () => {
  test("is recorded with where it comes from, and listed newest first", async () => {
    const time = Date.UTC(2030, 0, 1);
    await using node = await startFakeNode({ token: TOKEN, now: () => time });
    const source = await node.api.claim({ template: "t", size: "large" });
    const first = await checkpoint(node.api, source.id, { name: "ns/first" });
    const second = await checkpoint(node.api, source.id, { name: "" });
    expect(first).toEqual({
      id: expect.stringMatching(/^ck_[0-9a-f]{16}$/),
      name: "ns/first",
      sandbox_id: source.id,
      key: { template: "t", net: "none", size: "large" },
      created_at: new Date(time).toISOString(),
    });
    expect(second).not.toHaveProperty("name");
    expect(await list(node.api)).toEqual([second.id, first.id]);
    expect((await node.api.call("GET", "/metrics")).text).toContain("\nsandboxd_checkpoints_total 2\n");
  });

  test.each(["-x", "a b", "x".repeat(64), "é", "a\n", "../x"])("named %j is 400", async (name) => {
    await using node = await startFakeNode({ token: TOKEN });
    const source = await node.api.claim();
    const answer = await node.api.call("POST", `/v1/sandboxes/${source.id}/checkpoint`, { name });
    expect([answer.status, answer.json()["error"]]).toEqual([400, expect.stringContaining("checkpoint name")]);
    expect(await list(node.api)).toEqual([]);
  });

  test("takes the sandbox's token in the body, and needs a body", async () => {
    await using node = await startFakeNode({ token: TOKEN, tenants: TENANTS });
    const source = await node.api.claim();
    const path = `/v1/sandboxes/${source.id}/checkpoint`;
    const status = async (body: unknown, bearer?: string) => (await node.api.call("POST", path, body, bearer)).status;
    expect(await status({ token: source.token }, "acme-token")).toBe(200);
    expect(await status({}, "acme-token")).toBe(404);
    expect(await status({}, source.token)).toBe(401);
    expect(await status("")).toBe(400);
    expect(await status({ token: "wrong" })).toBe(404);
  });

  test("of a hibernated sandbox does not wake it", async () => {
    await using node = await startFakeNode({ token: TOKEN });
    const source = await node.api.claim();
    await node.api.call("POST", `/v1/sandboxes/${source.id}/hibernate`);
    await checkpoint(node.api, source.id);
    expect([node.guest(source.id).frozen, (await node.api.rows())[0]?.hibernated]).toEqual([true, true]);
  });

  test("of a tenant is seen and deleted by it and the operator alone, and claimed by whoever knows its id", async () => {
    await using node = await startFakeNode({ token: TOKEN, tenants: TENANTS });
    const { id } = (await node.api.call("POST", "/v1/claim", { template: "t" }, "acme-token")).json();
    const record = await checkpoint(node.api, String(id));
    expect(record.tenant).toBe("acme");
    const common = await checkpoint(node.api, (await node.api.claim()).id);
    expect(await list(node.api)).toEqual([common.id, record.id]);
    expect(await list(node.api, "acme-token")).toEqual([record.id]);
    expect(await list(node.api, "bolt-token")).toEqual([]);
    const branch = await node.api.call("POST", `/v1/checkpoints/${record.id}/claim`, {}, "bolt-token");
    expect(branch.status).toBe(200);
    expect((await node.api.rows()).find((row) => row.id === branch.json()["id"])?.tenant).toBe("bolt");
    const remove = async (bearer: string) =>
      (await node.api.call("DELETE", `/v1/checkpoints/${record.id}`, undefined, bearer)).status;
    expect(await remove("wrong")).toBe(401);
    expect(await remove("bolt-token")).toBe(404);
    expect(await remove("acme-token")).toBe(204);
    expect(await remove(TOKEN)).toBe(404);
    expect(await list(node.api)).toEqual([common.id]);
  });

  test("survives its sandbox and its node", async () => {
    await using state = temporaryFolder();
    let id = "";
    {
      await using node = await startFakeNode({ token: TOKEN, stateDir: state.path });
      const source = await node.api.claim({ template: "t" });
      node.guest(source.id).content = "files";
      const older = await checkpoint(node.api, source.id);
      ({ id } = await checkpoint(node.api, source.id));
      await node.api.call("POST", `/v1/sandboxes/${source.id}/release`);
      expect(await list(node.api)).toEqual([id, older.id]);
      await node.api.call("DELETE", `/v1/checkpoints/${older.id}`);
    }
    await using node = await startFakeNode({ token: TOKEN, stateDir: state.path });
    expect(await list(node.api)).toEqual([id]);
    const branch = (await node.api.call("POST", `/v1/checkpoints/${id}/claim`, {})).json() as unknown as ClaimReply;
    expect(node.guest(branch.id).content).toBe("files");
  });
});

describe("§13.3.19 a checkpoint claim", () => {
  test("needs a body, of which everything is optional", async () => {
    await using node = await startFakeNode({ token: TOKEN });
    const source = await node.api.claim({ template: "t", size: "medium", metadata: { of: "parent" } });
    node.guest(source.id).content = "files";
    const { id } = await checkpoint(node.api, source.id);
    const claim = (body: unknown) => node.api.call("POST", `/v1/checkpoints/${id}/claim`, body);
    const empty = await claim("");
    expect([empty.status, empty.json()]).toEqual([400, { error: "invalid request body" }]);
    const branch = await claim({});
    expect([branch.status, branch.json()]).toEqual([
      200,
      {
        id: expect.stringMatching(/^sb_/),
        token: expect.stringMatching(/^[0-9a-f]{32}$/),
        deadline: expect.any(String),
        owner_addr: node.address,
        net_route: "none",
        from_checkpoint: id,
      },
    ]);
    const row = (await node.api.rows()).find((one) => one.id === branch.json()["id"]);
    expect(row).toMatchObject({ from_checkpoint: id, key: { template: "t", net: "none", size: "medium" } });
    expect(row).not.toHaveProperty("metadata");
    expect(row).not.toHaveProperty("claim_ref");
    expect(node.guest(String(branch.json()["id"])).content).toBe("files");
    expect((await node.api.call("GET", "/metrics")).text).toContain('sandboxd_claims_total{tier="clone"} 1');
  });

  test("takes a lease, metadata, an action at its end and a name", async () => {
    const time = Date.UTC(2030, 0, 1);
    await using node = await startFakeNode({ token: TOKEN, now: () => time });
    const { id } = await checkpoint(node.api, (await node.api.claim()).id);
    const body = { ttl_seconds: 7, metadata: { a: "b" }, on_expire: "archive", claim_ref: "ns/x", unknown: true };
    const branch = (await node.api.call("POST", `/v1/checkpoints/${id}/claim`, body)).json();
    expect(branch["deadline"]).toBe(new Date(time + 7000).toISOString());
    expect((await node.api.rows()).find((row) => row.id === branch["id"])).toMatchObject({
      metadata: { a: "b" },
      on_expire: "archive",
      claim_ref: "ns/x",
    });
  });

  test.each([
    [{ metadata: { "a=b": "" } }, 400],
    [{ on_expire: "explode" }, 400],
    [{ env: { A: { value: "b" } } }, 400],
    [{ ttl_seconds: "7" }, 400],
  ])("with %j is %i", async (body, status) => {
    await using node = await startFakeNode({ token: TOKEN });
    const { id } = await checkpoint(node.api, (await node.api.claim()).id);
    expect((await node.api.call("POST", `/v1/checkpoints/${id}/claim`, body)).status).toBe(status);
    expect(node.guests).toHaveLength(1);
  });

  test("of an unknown one is 404, and over a cap or on a drained node 429", async () => {
    await using node = await startFakeNode({ token: TOKEN, maxClaims: 1 });
    const { id } = await checkpoint(node.api, (await node.api.claim()).id);
    const claim = (name: string) => node.api.call("POST", `/v1/checkpoints/${name}/claim`, {});
    const unknown = await claim(UNKNOWN);
    expect([unknown.status, unknown.json()]).toEqual([404, { error: "unknown checkpoint" }]);
    expect((await claim(id)).status).toBe(429);
    const [row] = await node.api.rows();
    await node.api.call("POST", `/v1/sandboxes/${row?.id}/release`);
    await node.api.call("POST", "/v1/drain");
    const drained = await claim(id);
    expect([drained.status, drained.json()]).toEqual([429, { error: "node claim quota reached: node draining" }]);
  });

  test("goes to the peers that hold it, at most three of them, unless it may not", async () => {
    await using state = temporaryFolder();
    await using holder = await startFakeNode({ token: TOKEN, stateDir: state.path });
    const { id } = await checkpoint(holder.api, (await holder.api.claim()).id);
    await using other = await startFakeNode({ token: TOKEN });
    await using asked = await startFakeNode({ token: TOKEN, peers: [holder.address, other.address, "127.0.0.1:1"] });
    await expect.poll(async () => (await asked.api.info()).peers.length).toBe(2);
    const claim = (body: object) => asked.api.call("POST", `/v1/checkpoints/${id}/claim`, body);
    expect((await claim({})).json()).toEqual({ redirect: [holder.address] });
    expect((await claim({ no_redirect: true })).status).toBe(404);
    expect((await asked.api.call("POST", `/v1/checkpoints/${UNKNOWN}/claim`, {})).status).toBe(404);
    expect(asked.guests).toEqual([]);
  });
});

describe("between nodes", () => {
  test.each(["foo bar", "http://u:p@h:1", "h:99999", "127.0.0.1:1/../x"])(
    "a peer that calls itself %j goes by the address it was asked at",
    async (lie) => {
      const { createServer } = await import("node:http");
      const asked: string[] = [];
      const peer = createServer((request, response) => {
        asked.push(`${request.method} ${request.url}`);
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify({ pools: [], claimed: 0, advertise_addr: lie }));
      });
      await new Promise<void>((resolve) => peer.listen(0, "127.0.0.1", resolve));
      const address = `127.0.0.1:${(peer.address() as { port: number }).port}`;
      await using node = await startFakeNode({ token: TOKEN, peers: [address] });
      await expect.poll(async () => (await node.api.info()).peers).toEqual([address]);
      const branch = (id: string) => node.api.call("POST", `/v1/checkpoints/${id}/claim`, {});
      expect((await branch(UNKNOWN)).json()).toEqual({ redirect: [address] });
      for (const id of ["..%2f..", "ck_0", "sb_0000000000000000", "ck_%00"]) {
        expect((await branch(id)).status).toBe(404);
      }
      expect(asked.filter((line) => line.startsWith("HEAD"))).toEqual([`HEAD /v1/checkpoints/${UNKNOWN}/blob`]);
      const { id } = await checkpoint(node.api, (await node.api.claim()).id);
      expect((await node.api.call("DELETE", `/v1/checkpoints/${id}`)).status).toBe(204);
      await expect.poll(() => asked).toContain(`DELETE /v1/checkpoints/${id}?no_forward=1`);
      peer.close();
      peer.closeAllConnections();
    },
  );

  test("a probe needs no token and has no body, and nothing else is there", async () => {
    await using node = await startFakeNode({ token: TOKEN });
    const { id } = await checkpoint(node.api, (await node.api.claim()).id);
    const probe = async (name: string, method = "HEAD") =>
      await fetch(`http://${node.address}/v1/checkpoints/${name}/blob`, { method });
    const [held, unknown, get] = [await probe(id), await probe(UNKNOWN), await probe(id, "GET")];
    expect([held.status, held.headers.get("content-length")]).toEqual([200, "0"]);
    expect([unknown.status, unknown.headers.get("content-length")]).toEqual([404, "0"]);
    expect([get.status, await get.text()]).toEqual([404, "404 page not found\n"]);
  });

  test("a deletion is passed on once", async () => {
    await using one = await startFakeNode({ token: TOKEN });
    const { id } = await checkpoint(one.api, (await one.api.claim()).id);
    const seen: string[] = [];
    const { createServer } = await import("node:http");
    const peer = createServer((request, response) => {
      seen.push(`${request.method} ${request.url} ${request.headers.authorization}`);
      response.setHeader("content-type", "application/json");
      response.end(request.url === "/v1/info" ? '{"pools":[],"claimed":0}' : "{}");
    });
    await new Promise<void>((resolve) => peer.listen(0, "127.0.0.1", resolve));
    const address = `127.0.0.1:${(peer.address() as { port: number }).port}`;
    one.setPeers([address]);
    await expect.poll(async () => (await one.api.info()).peers).toEqual([address]);
    const deletes = () => seen.filter((line) => line.startsWith("DELETE"));
    expect((await one.api.call("DELETE", `/v1/checkpoints/${id}`)).status).toBe(204);
    await expect.poll(deletes).toEqual([`DELETE /v1/checkpoints/${id}?no_forward=1 Bearer ${TOKEN}`]);
    const next = await checkpoint(one.api, (await one.api.claim()).id);
    expect((await one.api.call("DELETE", `/v1/checkpoints/${next.id}?no_forward=yes`)).status).toBe(204);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(deletes()).toHaveLength(1);
    peer.close();
    peer.closeAllConnections();
  });
});
