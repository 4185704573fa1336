import { createHash } from "node:crypto";
import { publicSandboxId } from "@org/sandbox-address";
import { guestAccessToken } from "@org/scale";
import { answers, fails } from "@org/scale/testing";
import { describe, expect, it } from "vitest";
import { createFleet, IMAGE, KEY_2, NODE } from "../testing/fleet.ts";
import type { Fleet, FleetOptions } from "../testing/fleet.ts";
import { guestDaemon } from "../testing/guest-daemon.ts";
import type { DaemonAnswers } from "../testing/guest-daemon.ts";

const SECRET = "a secret";

function rawId(id: string): string {
  return id.replace("sb-", "sb_");
}

/** A fleet with one sandbox, which inventory lists. */
async function forkable(options: FleetOptions = {}, body: object = {}): Promise<{ fleet: Fleet; id: string }> {
  const fleet = createFleet(options);
  const id = await fleet.create(body);
  fleet.publish();
  return { fleet, id };
}

/** The same with derived tokens. */
async function secretive(daemon: DaemonAnswers = {}, body: object = {}) {
  const fleet = createFleet({ envdSecret: SECRET });
  const { calls } = guestDaemon(fleet.node, daemon);
  const id = await fleet.create(body);
  calls.length = 0;
  return { fleet, id, daemon: calls };
}

describe("POST /sandboxes/{id}/fork", () => {
  it.each([
    ["no body", undefined],
    ["an empty object", {}],
    ["null", "null"],
    ["nulls", { count: null, timeout: null }],
  ])("makes one child with the usual lease for %s", async (_what, body) => {
    const { fleet, id } = await forkable();
    const reply = await fleet.send("POST", `/sandboxes/${id}/fork`, body);
    expect(reply.status).toBe(201);
    expect(fleet.calls("fork")[0]).toMatchObject({ id: rawId(id), fork: { count: 1, ttlSeconds: 300 } });
    const child = fleet.node.sandboxes.at(-1);
    expect(reply.body).toStrictEqual([
      {
        sandbox: {
          templateID: IMAGE,
          sandboxID: publicSandboxId(child?.entry.id ?? ""),
          clientID: NODE,
          envdVersion: "0.8.0",
          envdAccessToken: child?.token,
          domain: "sandbox.example.com",
          alias: "base",
        },
      },
    ]);
  });

  it("makes as many as it is asked for, each with a token of its own and a name of the namespace", async () => {
    const { fleet, id } = await forkable();
    const reply = await fleet.send("POST", `/sandboxes/${id}/fork`, { count: 3, timeout: 61 });
    expect(fleet.calls("fork")[0]?.fork).toMatchObject({ count: 3, ttlSeconds: 61, claimRefPrefix: "ns1/" });
    const children = (reply.body as { sandbox: { sandboxID: string; envdAccessToken: string } }[]).map(
      ({ sandbox }) => sandbox,
    );
    expect(new Set(children.map((child) => child.envdAccessToken)).size).toBe(3);
    for (const { sandboxID } of children) {
      expect((await fleet.send("GET", `/sandboxes/${sandboxID}`)).status).toBe(200);
      expect((await fleet.send("GET", `/sandboxes/${sandboxID}`, undefined, { key: KEY_2 })).status).toBe(404);
    }
    expect((await fleet.send("GET", "/v2/sandboxes")).body).toHaveLength(4);
  });

  it.each([
    { count: 0 },
    { count: -1 },
    { count: 1.5 },
    { count: "2" },
    { count: 2 ** 31 },
    { timeout: -1 },
    { timeout: "60" },
    "[]",
    "{",
  ])("refuses the body %j before it looks for the sandbox", async (body) => {
    const fleet = createFleet();
    const reply = await fleet.send("POST", "/sandboxes/sb-0000000000000000/fork", body);
    expect(reply.status).toBe(400);
    expect(reply.body.code).toBe(400);
    expect(fleet.nodes.calls).toHaveLength(0);
  });

  it("is a 404 for an unknown sandbox, one of another namespace, and one that its node lost", async () => {
    const { fleet, id } = await forkable();
    expect((await fleet.send("POST", "/sandboxes/sb-0000000000000000/fork")).status).toBe(404);
    expect((await fleet.send("POST", `/sandboxes/${id}/fork`, undefined, { key: KEY_2 })).status).toBe(404);
    fleet.node.lose(rawId(id));
    expect((await fleet.send("POST", `/sandboxes/${id}/fork`)).body).toMatchObject({ code: 404 });
    expect(fleet.calls("fork")).toHaveLength(0);
  });

  it("is a 409 for a paused sandbox, which is not woken", async () => {
    const { fleet, id } = await forkable();
    await fleet.send("POST", `/sandboxes/${id}/pause`);
    expect((await fleet.send("POST", `/sandboxes/${id}/fork`)).body).toMatchObject({ code: 409 });
    expect(fleet.calls("fork")).toHaveLength(0);
    expect(fleet.calls("wake")).toHaveLength(0);
  });

  it.each([
    [400, 400, "invalid fork count: 17 exceeds max_fork_count"],
    [409, 409, "egress-lane sandboxes cannot fork"],
    [429, 429, "node claim quota reached"],
    [401, 500, undefined],
    [403, 500, undefined],
    [404, 404, undefined],
    [500, 500, undefined],
  ])("turns a node's %d into %d", async (status, expected, message) => {
    const { fleet, id } = await forkable();
    fleet.node.script("fork", answers(status, message ?? "secret words"));
    const reply = await fleet.send("POST", `/sandboxes/${id}/fork`, { count: 17 });
    expect(reply.body).toMatchObject({ code: expected, ...(message === undefined ? {} : { message }) });
    expect(reply.text).not.toContain("secret words");
    // A node that takes no more may do so again soon; nothing else gets better by waiting.
    expect(reply.headers.get("retry-after")).toBe(status === 429 ? "1" : null);
  });

  it("leaves nothing behind for a client that hangs up", async () => {
    const { fleet, id } = await forkable();
    const client = new AbortController();
    const forked = Promise.withResolvers<void>();
    fleet.node.script("fork", async () => {
      client.abort();
      await forked.promise;
      const child = { name: "ns1/x", id: "sb_00000000000000ff", phase: "Running" as const, claimRef: "ns1/x" };
      fleet.node.hold({
        archived: false,
        token: "t",
        entry: { ...child, name: `ns1/${child.id}`, claimRef: `ns1/${child.id}` },
      });
      return [{ kind: "delivered", id: child.id, token: "t" }];
    });
    await fleet.send("POST", `/sandboxes/${id}/fork`, undefined, { signal: client.signal }).catch(() => undefined);
    forked.resolve();
    await fleet.server.settled();
    expect(fleet.node.sandboxes.map((row) => row.entry.id)).toStrictEqual([rawId(id)]);
  });
});

describe("a fork with derived tokens", () => {
  it("tells each child its own token: its node first, then its daemon, with what the parent's commands start with", async () => {
    const { fleet, id, daemon } = await secretive({ "/envs": { A: "b", E2B_SANDBOX: "true" } });
    const parent = fleet.node.sandboxes[0];
    const reply = await fleet.send("POST", `/sandboxes/${id}/fork`, { count: 2 });
    expect(reply.status).toBe(201);
    const children = fleet.node.sandboxes.slice(1);
    const tokens = children.map((child) => guestAccessToken(child.token ?? "", SECRET));
    expect(
      (reply.body as { sandbox: { envdAccessToken: string } }[]).map((one) => one.sandbox.envdAccessToken),
    ).toStrictEqual(tokens);
    expect(daemon[0]).toMatchObject({ path: "/envs", token: guestAccessToken(parent?.token ?? "", SECRET) });
    const inits = daemon.slice(1);
    expect(inits.map((call) => call.body.accessToken as string).toSorted()).toStrictEqual(tokens.toSorted());
    for (const { path, body } of inits) {
      expect(path).toBe("/init");
      // The scripted node relays, as its claims say.
      expect(body).toMatchObject({ defaultUser: "user", defaultWorkdir: "/home/user", envVars: { A: "b" } });
    }
    for (const [index, child] of children.entries()) {
      const accessTokenHash = createHash("sha512")
        .update(tokens[index] ?? "")
        .digest("hex");
      const asked = fleet.nodes.calls.filter((call) => call.id === child.entry.id).map((call) => call.verb);
      expect(asked).toStrictEqual(["sandbox", "setInstanceMetadata", "dialPort"].slice(index === 0 ? 0 : 1));
      const document = fleet.node.instanceMetadata(child.entry.id);
      expect(JSON.parse(Buffer.from(document ?? []).toString())).toStrictEqual({ accessTokenHash });
    }
  });

  it.each([
    ["a daemon that refuses", { "/init": 401 }, undefined],
    ["a node that does not tell", {}, "setInstanceMetadata"],
  ] as const)("releases all children for %s", async (_what, daemon, verb) => {
    const fleet = createFleet({ envdSecret: SECRET });
    guestDaemon(fleet.node);
    const id = await fleet.create();
    guestDaemon(fleet.node, daemon);
    if (verb !== undefined) {
      fleet.node.script(verb, answers(409, "image without support"));
    }
    const reply = await fleet.send("POST", `/sandboxes/${id}/fork`, { count: 3 });
    expect(reply.body).toMatchObject({ code: 500 });
    expect(fleet.calls("release")).toHaveLength(3);
    expect(fleet.node.sandboxes.map((row) => row.entry.id)).toStrictEqual([rawId(id)]);
  });

  it("makes nothing when the parent's daemon does not answer", async () => {
    const { fleet, id } = await secretive();
    fleet.node.always("dialPort", fails({ kind: "uncertain" }));
    const reply = await fleet.send("POST", `/sandboxes/${id}/fork`);
    expect(reply.body).toMatchObject({ code: 500 });
    expect(fleet.calls("fork")).toHaveLength(0);
  });

  it("says no secret to its log", async () => {
    const { fleet, id } = await secretive({ "/envs": { PASSWORD: "hunter2" } });
    const reply = await fleet.send("POST", `/sandboxes/${id}/fork`);
    const log = JSON.stringify(fleet.lines);
    expect(log).not.toContain("hunter2");
    expect(log).not.toContain((reply.body as { sandbox: { envdAccessToken: string } }[])[0]?.sandbox.envdAccessToken);
  });
});
