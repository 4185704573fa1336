import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { request } from "undici";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { freePorts } from "./ports.ts";
import { ProcessSet } from "./processes.ts";
import { pool, type ScriptedNode, startScriptedNode } from "./scripted-node.ts";
import { infoText, type NodeScript, wireTime } from "./scripted-node-script.ts";

const TOKEN = "root-token";

const SCRIPT: Omit<NodeScript, "version"> = {
  advertise: "",
  peers: ["127.0.0.1:1"],
  token: TOKEN,
  tenantTokens: ["tenant"],
  pools: [pool("t", 3)],
  redirect: [],
  faults: [],
  reapMs: 50,
  zoneMinutes: 0,
  idleMs: 0,
};

let set: ProcessSet;
let dir: string;
let node: ScriptedNode;

const call = async (
  method: "GET" | "POST",
  path: string,
  body?: object,
  token = TOKEN,
): Promise<{ status: number; text: string }> => {
  const response = await request(`http://${node.address}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.statusCode, text: await response.body.text() };
};

const claim = (more: object = {}): ReturnType<typeof call> => call("POST", "/v1/claim", { template: "t", ...more });

describe("a scripted node", () => {
  beforeEach(async () => {
    set = new ProcessSet();
    dir = await mkdtemp(join(tmpdir(), "scripted-node-"));
    const [port = 0] = await freePorts(1);
    node = await startScriptedNode(set, {
      name: "a",
      dir,
      port,
      script: { ...SCRIPT, advertise: `127.0.0.1:${port}` },
    });
  });

  afterEach(async () => {
    await set[Symbol.asyncDispose]();
    await rm(dir, { recursive: true, force: true });
  });

  it("delivers what is warm, then refuses or redirects", async () => {
    const delivered = await claim({ claim_ref: "ns/x", ttl_seconds: 60 });
    expect(JSON.parse(delivered.text)).toMatchObject({
      id: expect.stringMatching(/^sb_[0-9a-f]{16}$/),
      owner_addr: node.address,
    });
    expect((await claim({ template: "u" })).status).toBe(429);
    await node.say({ pools: [], redirect: ["127.0.0.1:2"] });
    expect(JSON.parse((await claim()).text)).toStrictEqual({ redirect: ["127.0.0.1:2"] });
    expect((await claim({ no_redirect: true })).status).toBe(429);
  });

  it.each([
    ["all", 3, () => true],
    ["half", 2, (_claim: unknown, index: number) => index % 2 === 0],
    ["none", 0, () => false],
  ])("comes back from a kill with %s of its sandboxes, tokens included", async (_what, kept, keep) => {
    const made = [await claim(), await claim(), await claim()].map(
      (reply) => JSON.parse(reply.text) as { id: string; token: string },
    );
    await node.kill();
    await expect(claim()).rejects.toThrow("ECONNREFUSED");
    await node.restart(keep);
    expect(node.claims()).toHaveLength(kept);
    for (const { id } of node.claims()) {
      const row = JSON.parse((await call("GET", `/v1/sandboxes/${id}`)).text) as { token: string };
      expect(made).toContainEqual(expect.objectContaining({ id, token: row.token }));
    }
  });

  it("keeps what it delivered when the reply is lost or it dies, as often as it was told to", async () => {
    await node.fail({ route: "claim", when: "after", act: { kind: "cut" }, times: 1 });
    await expect(claim()).rejects.toThrow();
    expect((await claim()).status).toBe(200);
    expect(node.claims()).toHaveLength(2);
    await node.fail({ route: "claim", when: "after", act: { kind: "die" } });
    await expect(claim()).rejects.toThrow();
    await node.process.ended;
    expect(node.claims()).toHaveLength(3);
    expect(node.journal().filter((line) => line.kind === "delivered")).toHaveLength(3);
  });

  it("delivers nothing when the fault comes before", async () => {
    await node.fail({ route: "claim", when: "before", act: { kind: "die" } });
    await expect(claim()).rejects.toThrow();
    await node.process.ended;
    expect(node.claims()).toHaveLength(0);
    expect(node.journal().map((line) => line.kind)).toStrictEqual(["request"]);
  });

  it("puts the sandbox into a reply that was written by hand", async () => {
    const body = '{"id":"$ID","pad":"$PAD"}';
    await node.fail({ route: "claim", when: "after", act: { kind: "reply", status: 200, body, pad: 5 } });
    expect(JSON.parse((await claim()).text)).toStrictEqual({ id: node.claims()[0]?.id, pad: "xxxxx" });
  });

  it("ends leases, carries out verbs and forgets what was released", async () => {
    const { id } = JSON.parse((await claim({ ttl_seconds: 60 })).text) as { id: string };
    const brief = JSON.parse((await claim({ ttl_seconds: 1 })).text) as { id: string };
    expect((await call("POST", `/v1/sandboxes/${id}/hibernate`)).status).toBe(204);
    expect(JSON.parse((await call("GET", `/v1/sandboxes/${id}`)).text)).toMatchObject({ id, hibernated: true });
    expect((await call("POST", `/v1/sandboxes/${id}/renew`, { ttl_seconds: 90 })).status).toBe(200);
    expect((await call("POST", `/v1/sandboxes/${id}/release`)).status).toBe(204);
    expect((await call("POST", `/v1/sandboxes/${id}/release`)).status).toBe(404);
    await expect.poll(() => node.claims(), { timeout: 5_000 }).toHaveLength(0);
    expect(node.journal().filter((line) => line.kind === "ended")).toMatchObject([
      { id, why: "released" },
      { id: brief.id, why: "expired" },
    ]);
  });

  it("tells wrong tokens from tenants' ones", async () => {
    expect((await call("GET", "/v1/info", undefined, "wrong")).status).toBe(401);
    expect((await call("GET", "/v1/info", undefined, "tenant")).status).toBe(403);
    expect((await call("GET", "/v1/nothing")).text).toBe("404 page not found\n");
  });
});

describe("what a scripted node writes", () => {
  it("says a warm count as it was told to, also where JSON has no such number", () => {
    const text = infoText({ ...SCRIPT, version: 1 }, [pool("t", 4, { says: "NaN" }), pool("u", 2)], []);
    expect(text).toContain('"warm":NaN');
    expect(JSON.parse(text.replace("NaN", "0"))).toMatchObject({ pools: [{ warm: 0 }, { warm: 2 }], claimed: 0 });
    expect(text).not.toContain("advertise_addr");
  });

  it.each([
    [0, "Z"],
    [330, "+05:30"],
    [-570, "-09:30"],
  ])("tells times in a zone %i minutes off", (minutes, suffix) => {
    const ms = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
    const text = wireTime(ms, minutes);
    expect(text.endsWith(suffix)).toBe(true);
    expect(new Date(text).getTime()).toBe(ms);
  });
});
