import { createHash } from "node:crypto";
import { guestAccessToken } from "@org/scale";
import type { Snapshot } from "@org/scale";
import { answers, fails, staysSilent } from "@org/scale/testing";
import type { ScriptedNode } from "@org/scale/testing";
import * as fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { selectSnapshots, snapshotQuery } from "../snapshot-query.ts";
import { createFleet, IMAGE, KEY_2, NODE } from "../testing/fleet.ts";
import type { Fleet, FleetOptions } from "../testing/fleet.ts";
import { guestDaemon } from "../testing/guest-daemon.ts";

const OTHER = "10.0.0.3:27777";
const SECRET = "a secret";

function rawId(id: string): string {
  return id.replace("sb-", "sb_");
}

/** A fleet with a second node, and one sandbox on the first. */
async function fleetOfTwo(options: FleetOptions = {}): Promise<{ fleet: Fleet; other: ScriptedNode; id: string }> {
  const fleet = createFleet(options);
  const id = await fleet.create();
  fleet.publish();
  const other = fleet.nodes.node(OTHER);
  fleet.source.put(other.inventory());
  return { fleet, other, id };
}

async function snap(fleet: Fleet, id: string, name?: string): Promise<string> {
  const reply = await fleet.send("POST", `/sandboxes/${id}/snapshots`, name === undefined ? undefined : { name });
  expect(reply.status).toBe(201);
  return reply.body.snapshotID as string;
}

/** A sandbox of `ns1` on the other node, where snapshots of it will lie. */
function holdOnOther(other: ScriptedNode): string {
  const id = "sb_00000000000000bb";
  const entry = { name: "ns1/there", id, phase: "Running", template: IMAGE, claimRef: "ns1/there" } as const;
  other.hold({ archived: false, token: "t", entry });
  return id;
}

afterEach(() => {
  vi.useRealTimers();
});

describe("POST /sandboxes/{id}/snapshots", () => {
  it.each([
    ["no body", undefined, "ns1/", []],
    ["null", "null", "ns1/", []],
    ["no name", {}, "ns1/", []],
    ["an empty name", { name: "" }, "ns1/", []],
    ["a name", { name: "before-upgrade:1" }, "ns1/before-upgrade:1", ["before-upgrade:1"]],
  ])("with %s answers what the clients parse", async (_what, body, stamped, names) => {
    const { fleet, id } = await fleetOfTwo();
    const reply = await fleet.send("POST", `/sandboxes/${id}/snapshots`, body);
    expect(reply.status).toBe(201);
    expect(reply.body).toStrictEqual({ snapshotID: expect.stringMatching(/^ck_/), names });
    expect(fleet.calls("checkpoint")).toMatchObject([{ address: NODE, id: rawId(id), name: stamped }]);
  });

  it.each([
    ["too long", { name: "x".repeat(60) }, / 59 /],
    ["with a space", { name: "a b" }, / 59 /],
    ["no text", { name: 7 }, /name/],
    ["no JSON", "{", /JSON/],
  ])("refuses a name that is %s before it looks for the sandbox", async (_what, body, message) => {
    const fleet = createFleet();
    const reply = await fleet.send("POST", "/sandboxes/sb-0000000000000000/snapshots", body);
    expect(reply.body).toMatchObject({ code: 400, message: expect.stringMatching(message) });
    expect(fleet.nodes.calls).toHaveLength(0);
  });

  it("leaves 53 characters in a namespace of 9, as the room it names", async () => {
    const fleet = createFleet({ keys: [{ key: "k", namespace: "sandboxes" }] });
    const id = await fleet.create({}, "k");
    const send = (length: number) =>
      fleet.send("POST", `/sandboxes/${id}/snapshots`, { name: "x".repeat(length) }, { key: "k" });
    expect((await send(53)).status).toBe(201);
    expect((await send(54)).body).toMatchObject({ code: 400, message: expect.stringContaining(" 53 ") });
  });

  it("is a 404 for an unknown sandbox, one of another namespace, and one that its node lost", async () => {
    const { fleet, id } = await fleetOfTwo();
    expect((await fleet.send("POST", "/sandboxes/sb-0000000000000000/snapshots")).status).toBe(404);
    expect((await fleet.send("POST", `/sandboxes/${id}/snapshots`, {}, { key: KEY_2 })).status).toBe(404);
    expect(fleet.calls("checkpoint")).toHaveLength(0);
    fleet.node.lose(rawId(id));
    expect((await fleet.send("POST", `/sandboxes/${id}/snapshots`)).body).toMatchObject({ code: 404 });
  });

  it.each([
    [409, 409],
    [500, 500],
    [403, 500],
  ])("turns a node's %d into %d", async (status, expected) => {
    const { fleet, id } = await fleetOfTwo();
    fleet.node.script("checkpoint", answers(status, "why"));
    expect((await fleet.send("POST", `/sandboxes/${id}/snapshots`)).body).toMatchObject({ code: expected });
  });
});

describe("GET /snapshots", () => {
  it("lists the namespace's own, newest first, of every node, without the namespace in their names", async () => {
    vi.useFakeTimers({ now: 0, toFake: ["Date"] });
    const { fleet, other, id } = await fleetOfTwo();
    const first = await snap(fleet, id, "one");
    vi.setSystemTime(1000);
    const second = await other.checkpoint(holdOnOther(other), "ns1/two");
    vi.setSystemTime(2000);
    const third = await snap(fleet, id);
    // Other namespaces' and unstamped ones are nobody's here.
    await fleet.node.checkpoint(rawId(id), "ns2/theirs");
    await fleet.node.checkpoint(rawId(id), "ns11/theirs");
    await fleet.node.checkpoint(rawId(id), "unstamped");
    const reply = await fleet.send("GET", "/snapshots");
    expect(reply.status).toBe(200);
    expect(reply.headers.has("x-next-token")).toBe(false);
    expect(reply.body).toStrictEqual([
      { snapshotID: third, names: [] },
      { snapshotID: second.id, names: ["two"] },
      { snapshotID: first, names: ["one"] },
    ]);
    expect((await fleet.send("GET", "/snapshots", undefined, { key: KEY_2 })).body).toHaveLength(1);
  });

  it("filters by sandbox in either spelling, and by exactly a name or an id", async () => {
    const { fleet, other, id } = await fleetOfTwo();
    const mine = await snap(fleet, id, "one");
    const there = await other.checkpoint(holdOnOther(other), "ns1/one-more");
    const ids = async (query: string): Promise<unknown> =>
      ((await fleet.send("GET", `/snapshots?${query}`)).body as { snapshotID: string }[]).map(
        (item) => item.snapshotID,
      );
    expect(await ids(`sandboxID=${id}`)).toStrictEqual([mine]);
    expect(await ids(`sandboxID=${rawId(id)}`)).toStrictEqual([mine]);
    expect(await ids("sandboxID=sb-00000000000000bb")).toStrictEqual([there.id]);
    expect(await ids("sandboxID=sb-1")).toStrictEqual([]);
    expect(await ids("name=one")).toStrictEqual([mine]);
    expect(await ids("name=ns1%2Fone")).toStrictEqual([]);
    expect(await ids(`name=${there.id}`)).toStrictEqual([there.id]);
    expect(await ids(`name=one&sandboxID=${id}`)).toStrictEqual([mine]);
    expect(await ids("name=&sandboxID=")).toHaveLength(2);
  });

  it("shows one that several nodes list once", async () => {
    const { fleet, other, id } = await fleetOfTwo();
    const shared = await snap(fleet, id, "shared");
    const [row] = await fleet.node.checkpoints();
    other.script("checkpoints", () => [row]);
    expect((await fleet.send("GET", "/snapshots")).body).toStrictEqual([{ snapshotID: shared, names: ["shared"] }]);
  });

  it("passes over a node that does not answer", async () => {
    const { fleet, other, id } = await fleetOfTwo();
    const mine = await snap(fleet, id);
    other.script("checkpoints", fails({ kind: "unsent" }));
    expect((await fleet.send("GET", "/snapshots")).body).toStrictEqual([{ snapshotID: mine, names: [] }]);
    expect(fleet.lines.some(({ level, fields }) => level === "warn" && fields["node"] === OTHER)).toBe(true);
  });

  it("is an empty list when there is none, or no node", async () => {
    const { fleet } = await fleetOfTwo();
    expect((await fleet.send("GET", "/snapshots")).body).toStrictEqual([]);
    fleet.source.remove(NODE);
    fleet.source.remove(OTHER);
    expect((await fleet.send("GET", "/snapshots")).body).toStrictEqual([]);
  });

  it("goes page by page, and says so only while more follow", async () => {
    const { fleet, id } = await fleetOfTwo();
    const made: string[] = [];
    for (let index = 0; index < 5; index += 1) {
      made.unshift(await snap(fleet, id));
    }
    const seen: string[] = [];
    const sizes: number[] = [];
    for (let token: string | null = ""; token !== null;) {
      const reply = await fleet.send("GET", `/snapshots?limit=2&nextToken=${token}`);
      const items = reply.body as { snapshotID: string }[];
      sizes.push(items.length);
      seen.push(...items.map((item) => item.snapshotID));
      token = reply.headers.get("x-next-token");
    }
    expect(sizes).toStrictEqual([2, 2, 1]);
    expect(seen.toSorted()).toStrictEqual(made.toSorted());
  });

  it.each(["limit=0", "limit=101", "limit=many", "limit=1.5", "nextToken=not-a-token"])(
    "is a 400 for %s",
    async (query) => {
      const { fleet } = await fleetOfTwo();
      expect((await fleet.send("GET", `/snapshots?${query}`)).body).toMatchObject({ code: 400 });
      expect(fleet.calls("checkpoints")).toHaveLength(0);
    },
  );

  it("pages of any size are the whole listing cut up, whatever is deleted between them", () => {
    const made = fc.uniqueArray(fc.tuple(fc.integer({ min: 0, max: 5 }), fc.integer({ min: 0, max: 99 })), {
      selector: ([, id]) => id,
    });
    fc.assert(
      fc.property(made, fc.integer({ min: 1, max: 7 }), fc.boolean(), (rows, limit, deletes) => {
        let listing = rows
          .map(([second, id]): Snapshot => ({
            id: `ck_${String(id).padStart(2, "0")}`,
            name: "",
            sandboxId: "sb_1",
            pool: { template: "t" },
            node: "n",
            ...(second === 0 ? {} : { createdAt: new Date(second * 1000) }),
          }))
          .sort((a, b) => (b.createdAt?.getTime() ?? 0) - (a.createdAt?.getTime() ?? 0) || (a.id < b.id ? 1 : -1));
        const whole = listing.map(({ id }) => id);
        const seen: string[] = [];
        for (let token: string | undefined = ""; token !== undefined;) {
          const query = snapshotQuery.read(new URLSearchParams({ limit: String(limit), nextToken: token }));
          const page = selectSnapshots(listing, query);
          seen.push(...page.items.map(({ id }) => id));
          token = page.nextToken;
          listing = deletes ? listing.filter(({ id }) => !page.items.some((item) => item.id === id)) : listing;
        }
        expect(seen).toStrictEqual(whole);
      }),
    );
  });
});

describe("DELETE /templates/{id} of a snapshot", () => {
  it("deletes it on the node that lists it: 204, then 404", async () => {
    const { fleet, other, id } = await fleetOfTwo();
    await snap(fleet, id);
    const there = await other.checkpoint(holdOnOther(other), "ns1/two");
    expect((await fleet.send("DELETE", `/templates/${there.id}`)).status).toBe(204);
    expect(fleet.calls("deleteCheckpoint")).toMatchObject([{ address: OTHER, id: there.id }]);
    expect((await fleet.send("DELETE", `/templates/${there.id}`)).body).toMatchObject({ code: 404 });
    expect((await fleet.send("GET", "/snapshots")).body).toHaveLength(1);
  });

  it.each(["ck_00000000000000ff", "ck_unknown", "never-built", "%2F"])(
    "is a 404 for %s once every node has answered",
    async (asked) => {
      const { fleet } = await fleetOfTwo();
      expect((await fleet.send("DELETE", `/templates/${asked}`)).body).toMatchObject({ code: 404 });
      expect(fleet.calls("checkpoints")).toHaveLength(2);
    },
  );

  it("is a 404 for another namespace's, which stays", async () => {
    const { fleet, id } = await fleetOfTwo();
    const mine = await snap(fleet, id);
    expect((await fleet.send("DELETE", `/templates/${mine}`, undefined, { key: KEY_2 })).status).toBe(404);
    expect(fleet.calls("deleteCheckpoint")).toHaveLength(0);
  });

  it("is a 500 for one that nobody lists while a node does not say", async () => {
    const { fleet, other } = await fleetOfTwo();
    other.script("checkpoints", answers(500));
    expect((await fleet.send("DELETE", "/templates/ck_00000000000000ff")).body).toMatchObject({ code: 500 });
  });

  it("deletes one that is listed although another node does not answer", async () => {
    const { fleet, other, id } = await fleetOfTwo();
    const mine = await snap(fleet, id);
    other.script("checkpoints", fails({ kind: "unsent" }));
    expect((await fleet.send("DELETE", `/templates/${mine}`)).status).toBe(204);
  });

  it.each([409, 500])("is a 500 when its node answers %d", async (status) => {
    const { fleet, id } = await fleetOfTwo();
    const mine = await snap(fleet, id);
    fleet.node.script("deleteCheckpoint", answers(status, "secret words"));
    const reply = await fleet.send("DELETE", `/templates/${mine}`);
    expect(reply.body).toMatchObject({ code: 500 });
    expect(reply.text).not.toContain("secret words");
  });
});

describe("POST /v2/sandboxes with the id of a snapshot", () => {
  it("claims it where it lies, with everything that a claim asks for", async () => {
    const { fleet, other } = await fleetOfTwo();
    const { id } = await other.checkpoint(holdOnOther(other), "ns1/two");
    const body = { templateID: id, timeout: 61, metadata: { a: "b" }, autoPause: true };
    const reply = await fleet.send("POST", "/v2/sandboxes", body);
    expect(reply.status).toBe(201);
    expect(reply.body).toMatchObject({ templateID: IMAGE, alias: "base", clientID: OTHER });
    const call = fleet.calls("claimCheckpoint")[0];
    expect(call).toMatchObject({
      address: OTHER,
      id,
      checkpointClaim: { ttlSeconds: 61, metadata: { a: "b" }, onExpire: "archive" },
    });
    expect(call?.checkpointClaim?.claimRef).toMatch(/^ns1\/e2b-/);
    expect((await fleet.send("GET", `/sandboxes/${reply.body.sandboxID}`)).body).toMatchObject({ templateID: IMAGE });
    expect((await fleet.send("DELETE", `/sandboxes/${reply.body.sandboxID}`)).status).toBe(204);
  });

  it("remembers the node of what it made or found, and asks the others no more", async () => {
    const { fleet, other, id } = await fleetOfTwo();
    const mine = await snap(fleet, id);
    expect((await fleet.send("POST", "/sandboxes", { templateID: mine })).status).toBe(201);
    expect(fleet.calls("checkpoints")).toHaveLength(0);
    const there = await other.checkpoint(holdOnOther(other), "ns1/two");
    for (let round = 0; round < 3; round += 1) {
      expect((await fleet.send("POST", "/sandboxes", { templateID: there.id })).status).toBe(201);
    }
    expect(fleet.calls("checkpoints").length).toBeLessThanOrEqual(2);
  });

  it("is a 404 for another namespace's, also for one that is remembered", async () => {
    const { fleet, id } = await fleetOfTwo();
    const mine = await snap(fleet, id);
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: mine }, { key: KEY_2 });
    expect(reply.body).toMatchObject({ code: 404 });
    expect(fleet.calls("claimCheckpoint")).toHaveLength(0);
  });

  it("is a 404 for an unknown one, and for one that was deleted behind our back", async () => {
    const { fleet, id } = await fleetOfTwo();
    expect((await fleet.send("POST", "/v2/sandboxes", { templateID: "ck_00000000000000ff" })).status).toBe(404);
    const mine = await snap(fleet, id);
    await fleet.node.deleteCheckpoint(mine);
    expect((await fleet.send("POST", "/v2/sandboxes", { templateID: mine })).status).toBe(404);
    expect(fleet.node.sandboxes).toHaveLength(1);
  });

  it("finds one that moved", async () => {
    const { fleet, other, id } = await fleetOfTwo();
    const mine = await snap(fleet, id);
    const [row] = await fleet.node.checkpoints();
    const source = holdOnOther(other);
    fleet.node.script("claimCheckpoint", answers(404, "unknown checkpoint"));
    other.script("checkpoints", () => [row]);
    other.script("claimCheckpoint", () => {
      const there = { ...other.sandboxes[0]?.entry, name: "", id: "sb_00000000000000cc", phase: "Running" };
      const claimRef = fleet.calls("claimCheckpoint").at(-1)?.checkpointClaim?.claimRef ?? "";
      other.hold({ archived: false, token: "t", entry: { ...there, name: claimRef, claimRef } });
      return { kind: "delivered", id: there.id, token: "t" };
    });
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: mine });
    expect(reply.body).toMatchObject({ clientID: OTHER });
    expect(source).not.toBe(reply.body.sandboxID);
  });

  it("is a 503 for one that is not found while a node does not say", async () => {
    const { fleet, other } = await fleetOfTwo();
    other.script("checkpoints", answers(500));
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: "ck_00000000000000ff" });
    expect(reply.body).toMatchObject({ code: 503 });
    expect(reply.headers.get("retry-after")).toBe("1");
  });

  it("is a 503 when its holder is full", async () => {
    const { fleet, id } = await fleetOfTwo();
    const mine = await snap(fleet, id);
    fleet.node.script("claimCheckpoint", answers(429, "node draining"));
    expect((await fleet.send("POST", "/v2/sandboxes", { templateID: mine })).body).toMatchObject({ code: 503 });
  });

  it("refuses internet access, which copies do not get, and asks no node", async () => {
    const { fleet, id } = await fleetOfTwo();
    const mine = await snap(fleet, id);
    const body = { templateID: mine, allow_internet_access: true };
    const reply = await fleet.send("POST", "/v2/sandboxes", body);
    expect(reply.body).toMatchObject({ code: 400, message: expect.stringContaining("allow_internet_access") });
    expect(fleet.calls("claimCheckpoint")).toHaveLength(0);
  });

  it.each([
    ["relay", 400],
    ["direct", 400],
    ["none", 201],
    [undefined, 201],
  ])("without internet access, of a copy whose way out is %s, is %d", async (netRoute, expected) => {
    const { fleet, id } = await fleetOfTwo();
    const mine = await snap(fleet, id);
    fleet.node.script("claimCheckpoint", () => {
      const claimRef = fleet.calls("claimCheckpoint").at(-1)?.checkpointClaim?.claimRef ?? "";
      const entry = { name: claimRef, id: "sb_00000000000000cc", phase: "Running", claimRef } as const;
      fleet.node.hold({ archived: false, token: "t", entry });
      return { kind: "delivered", id: entry.id, token: "t", netRoute };
    });
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: mine, allow_internet_access: false });
    expect(reply.status).toBe(expected);
    expect(fleet.node.sandboxes).toHaveLength(expected === 201 ? 2 : 1);
  });

  it("is an alias first", async () => {
    const { fleet } = await fleetOfTwo({
      aliases: [
        { alias: "ck_0a", image: IMAGE, size: "small" },
        { alias: "base", image: IMAGE, size: "small" },
      ],
    });
    expect((await fleet.send("POST", "/v2/sandboxes", { templateID: "ck_0a" })).status).toBe(201);
    expect(fleet.calls("claimCheckpoint")).toHaveLength(0);
  });
});

describe("a copy out of a snapshot with derived tokens", () => {
  async function copy(body: object) {
    const fleet = createFleet({ envdSecret: SECRET });
    const { calls } = guestDaemon(fleet.node, { "/envs": { OWN: "kept", BOTH: "old" } });
    const source = await fleet.create();
    const snapshotId = await snap(fleet, source);
    calls.length = 0;
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: snapshotId, ...body });
    expect(reply.status).toBe(201);
    const row = fleet.node.sandboxes.at(-1);
    const token = guestAccessToken(row?.token ?? "", SECRET);
    expect(reply.body.envdAccessToken).toBe(token);
    const document = JSON.parse(
      Buffer.from(fleet.node.instanceMetadata(row?.entry.id ?? "") ?? []).toString(),
    ) as unknown;
    return { calls, token, document };
  }

  it("is told its own token by its node and then its daemon, and keeps its variables", async () => {
    const { calls, token, document } = await copy({});
    expect(document).toStrictEqual({ accessTokenHash: createHash("sha512").update(token).digest("hex") });
    expect(calls).toMatchObject([{ path: "/init", body: { accessToken: token, defaultUser: "user" } }]);
    expect(calls[0]?.body).not.toHaveProperty("envVars");
  });

  it("gets the request's variables on top of its own, once its daemon knows the token", async () => {
    const { calls, token } = await copy({ envVars: { BOTH: "new" } });
    expect(calls.map((call) => call.path)).toStrictEqual(["/init", "/envs", "/init"]);
    expect(calls[1]?.token).toBe(token);
    expect(calls[2]?.body).toMatchObject({ accessToken: token, envVars: { OWN: "kept", BOTH: "new" } });
    expect(Date.parse(calls[2]?.body.timestamp as string)).toBeGreaterThan(
      Date.parse(calls[0]?.body.timestamp as string),
    );
  });

  it("is released when it cannot be told", async () => {
    const fleet = createFleet({ envdSecret: SECRET });
    guestDaemon(fleet.node);
    const source = await fleet.create();
    const snapshotId = await snap(fleet, source);
    fleet.node.script("setInstanceMetadata", answers(409, "image without support"));
    expect((await fleet.send("POST", "/v2/sandboxes", { templateID: snapshotId })).body).toMatchObject({ code: 500 });
    expect(fleet.node.sandboxes).toHaveLength(1);
  });

  it("leaves nothing behind for a client that hangs up while it is searched", async () => {
    const { fleet, other } = await fleetOfTwo();
    fleet.node.always("checkpoints", staysSilent());
    other.always("checkpoints", staysSilent());
    const client = new AbortController();
    const asking = fleet.send("POST", "/v2/sandboxes", { templateID: "ck_0a" }, { signal: client.signal });
    await expect.poll(() => fleet.calls("checkpoints")).toHaveLength(2);
    client.abort();
    await Promise.allSettled([asking]);
    await expect.poll(() => fleet.lines.some(({ fields }) => fields["status"] === 499)).toBe(true);
    expect(fleet.calls("claimCheckpoint")).toHaveLength(0);
  });
});
