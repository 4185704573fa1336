import { ScaleError } from "@org/scale";
import { answers, fails } from "@org/scale/testing";
import type { ScriptedVerb } from "@org/scale/testing";
import { describe, expect, it } from "vitest";
import { createFleet, IMAGE, KEY_2, NODE } from "../testing/fleet.ts";
import type { Fleet } from "../testing/fleet.ts";

const ERROR = (code: number): object => ({ code, message: expect.any(String) as string });

function rawId(id: string): string {
  return id.replace("sb-", "sb_");
}

/** Leases asked for since the sandbox was made. */
function leases(fleet: Fleet): readonly unknown[] {
  return fleet.calls("renew").map((call) => call.lease);
}

/** Makes the node hold a sandbox with so much of its lease left. */
async function held(
  fleet: Fleet,
  change: { readonly secondsLeft?: number; readonly paused?: boolean; readonly archived?: boolean } = {},
): Promise<string> {
  const id = await fleet.create();
  const row = fleet.node.sandboxes.find((candidate) => candidate.entry.id === rawId(id))!;
  const deadline = new Date(Date.now() + (change.secondsLeft ?? 300) * 1000);
  const phase = change.paused === true ? "Hibernated" : "Running";
  fleet.node.hold({ ...row, archived: change.archived ?? false, entry: { ...row.entry, deadline, phase } });
  fleet.publish();
  return id;
}

const VERBS: readonly (readonly [string, string, unknown])[] = [
  ["GET", "", undefined],
  ["DELETE", "", undefined],
  ["POST", "/timeout", { timeout: 60 }],
  ["POST", "/refreshes", undefined],
  ["POST", "/pause", {}],
  ["POST", "/connect", {}],
  ["POST", "/resume", {}],
  ["GET", "/logs", undefined],
  ["PUT", "/network", { allowOut: [] }],
];

describe.each(VERBS)("%s /sandboxes/{sandboxID}%s", (method, path, body) => {
  it.each(["sb-00ff", "sb_00ff", "SB-00FF", "%00", "nope", "a%2Fb", "%"])(
    "is a 404 with a code for the unknown id %j, and reaches no sandbox",
    async (id) => {
      const fleet = createFleet();
      const reply = await fleet.send(method, `/sandboxes/${id}${path}`, body);
      expect(reply.status).toBe(404);
      expect(reply.body).toStrictEqual(ERROR(404));
      expect(fleet.nodes.calls.filter((call) => call.verb !== "sandbox")).toHaveLength(0);
    },
  );

  it("is a 404 for another namespace's key, and does nothing", async () => {
    const fleet = createFleet();
    const id = await fleet.create();
    const before = fleet.nodes.calls.length;
    const reply = await fleet.send(method, `/sandboxes/${id}${path}`, body, { key: KEY_2 });
    expect(reply.status).toBe(404);
    expect(reply.body).toStrictEqual(ERROR(404));
    expect(fleet.nodes.calls.slice(before).filter((call) => call.verb !== "sandbox")).toHaveLength(0);
    expect(fleet.node.sandboxes).toHaveLength(1);
  });

  it("takes the raw id as well as the published one", async () => {
    const fleet = createFleet();
    const id = await fleet.create();
    const status = (await fleet.send(method, `/sandboxes/${rawId(id)}${path}`, body)).status;
    expect(status).toBe(path === "/network" ? 400 : path === "/resume" ? 409 : status < 300 ? status : 200);
  });

  it("is a 401 without a key, and nothing behind it runs", async () => {
    const fleet = createFleet();
    const reply = await fleet.send(method, `/sandboxes/sb-00ff${path}`, body, { key: "" });
    expect(reply.status).toBe(401);
    expect(reply.body).toStrictEqual({ code: 401, message: "invalid API key" });
    expect(fleet.nodes.calls).toHaveLength(0);
  });
});

describe("a sandbox that its node lost although inventory lists it", () => {
  it.each([
    ["GET", ""],
    ["POST", "/pause"],
    ["POST", "/connect"],
    ["POST", "/resume"],
  ])("is a 404 for %s %s", async (method, path) => {
    const fleet = createFleet();
    const id = await held(fleet);
    fleet.node.lose(rawId(id));
    const reply = await fleet.send(method, `/sandboxes/${id}${path}`);
    expect(reply.status).toBe(404);
    expect(reply.body.code).toBe(404);
  });
});

describe("a node that answers a verb badly", () => {
  const rows: readonly (readonly [string, string, ScriptedVerb, unknown])[] = [
    ["GET", "", "sandbox", undefined],
    ["POST", "/timeout", "renew", { timeout: 60 }],
    ["POST", "/refreshes", "renew", undefined],
    ["POST", "/pause", "hibernate", undefined],
  ];
  const cases = rows.flatMap(([method, path, verb, body]) =>
    [
      [400, 400, "the reason"],
      // To a client that pauses, 409 would say that the sandbox is paused already.
      [409, path === "/pause" ? 400 : 409, "the reason"],
      [429, 429, "the reason"],
      [401, 500, undefined],
      [403, 500, undefined],
      [500, 500, undefined],
      [503, 500, undefined],
    ].map(([from, to, message]) => [method, path, verb, body, from, to, message] as const),
  );

  it.each(cases)("%s %s (%s, %j): %i becomes %i", async (method, path, verb, body, from, to, message) => {
    const fleet = createFleet();
    const id = await held(fleet);
    fleet.node.script(verb, answers(Number(from), "the reason"));
    const reply = await fleet.send(method, `/sandboxes/${id}${path}`, body);
    expect(reply.status).toBe(to);
    expect(reply.body.code).toBe(to);
    if (message === undefined) {
      expect(reply.text).not.toContain("the reason");
    } else {
      expect(reply.body.message).toContain(message);
    }
    const loud = fleet.lines.filter((line) => line.level === "error").length;
    expect(loud).toBe(from === 401 || from === 403 ? 1 : 0);
  });

  it("never says that a sandbox was killed which was not", async () => {
    for (const status of [400, 401, 409, 500]) {
      const fleet = createFleet();
      const id = await held(fleet);
      fleet.node.always("release", answers(status));
      const reply = await fleet.send("DELETE", `/sandboxes/${id}`);
      expect(reply.status).toBe(500);
      expect(reply.body.code).toBe(500);
      expect(fleet.node.sandboxes).toHaveLength(1);
    }
  });
});

describe("DELETE", () => {
  it("is 204 without a body once and 404 from then on, at once", async () => {
    const fleet = createFleet();
    const id = await held(fleet);
    const first = await fleet.send("DELETE", `/sandboxes/${id}`);
    expect(first.status).toBe(204);
    expect(first.text).toBe("");
    expect((await fleet.send("DELETE", `/sandboxes/${id}`)).body).toStrictEqual(ERROR(404));
    expect(fleet.calls("release").map((call) => call.id)).toStrictEqual([rawId(id)]);
  });
});

describe("POST timeout", () => {
  it("sets the lease, also to a shorter one and to the node's own", async () => {
    const fleet = createFleet();
    const id = await held(fleet);
    for (const timeout of [3600, 1, 0]) {
      expect((await fleet.send("POST", `/sandboxes/${id}/timeout`, { timeout })).status).toBe(204);
    }
    expect(leases(fleet)).toMatchObject([{ ttlSeconds: 3600 }, { ttlSeconds: 1 }, { ttlSeconds: 0 }]);
  });

  it.each(["", "null", "{}", '{"timeout":-1}', '{"timeout":null}', '{"timeout":"5"}', '{"timeout":0.5}', "[60]"])(
    "refuses %j before any node is asked",
    async (body) => {
      const fleet = createFleet();
      const id = await held(fleet);
      const before = fleet.nodes.calls.length;
      const reply = await fleet.send("POST", `/sandboxes/${id}/timeout`, body);
      expect(reply.status).toBe(400);
      expect(reply.body).toStrictEqual(ERROR(400));
      expect(fleet.nodes.calls).toHaveLength(before);
    },
  );
});

describe("POST refreshes", () => {
  it.each([
    [undefined, 300],
    ["", 300],
    ["null", 300],
    ["{}", 300],
    [{ duration: null }, 300],
    [{ duration: 0 }, 300],
    [{ duration: 30 }, 30],
  ])("with %j renews for %i s", async (body, ttlSeconds) => {
    const fleet = createFleet();
    const id = await held(fleet);
    expect((await fleet.send("POST", `/sandboxes/${id}/refreshes`, body)).status).toBe(204);
    expect(leases(fleet)).toStrictEqual([{ ttlSeconds }]);
  });

  it("refuses a negative duration", async () => {
    const fleet = createFleet();
    const id = await held(fleet);
    const reply = await fleet.send("POST", `/sandboxes/${id}/refreshes`, { duration: -1 });
    expect(reply.status).toBe(400);
    expect(leases(fleet)).toHaveLength(0);
  });
});

describe("POST pause", () => {
  it.each([undefined, "", "null", "{}", { memory: true }, { memory: null }])(
    "with %j is 204, then 409 with its code in the body",
    async (body) => {
      const fleet = createFleet();
      const id = await held(fleet);
      const first = await fleet.send("POST", `/sandboxes/${id}/pause`, body);
      expect([first.status, first.text]).toStrictEqual([204, ""]);
      const second = await fleet.send("POST", `/sandboxes/${id}/pause`, body);
      expect(second.status).toBe(409);
      expect(second.body).toStrictEqual(ERROR(409));
      expect(fleet.calls("hibernate").map((call) => call.id)).toStrictEqual([rawId(id)]);
    },
  );

  it("believes the node and not inventory, in both directions", async () => {
    const fleet = createFleet();
    const slept = await held(fleet);
    fleet.node.hold({
      ...fleet.node.sandboxes[0]!,
      entry: { ...fleet.node.sandboxes[0]!.entry, phase: "Hibernated" },
    });
    expect((await fleet.send("POST", `/sandboxes/${slept}/pause`)).status).toBe(409);
    const other = createFleet();
    const woken = await held(other, { paused: true });
    other.node.hold({ ...other.node.sandboxes[0]!, entry: { ...other.node.sandboxes[0]!.entry, phase: "Running" } });
    expect((await other.send("POST", `/sandboxes/${woken}/pause`)).status).toBe(204);
  });

  it("is 409 for an archived sandbox", async () => {
    const fleet = createFleet();
    const id = await held(fleet, { paused: true, archived: true });
    expect((await fleet.send("POST", `/sandboxes/${id}/pause`)).status).toBe(409);
  });

  it("falls back to inventory when the node cannot be asked", async () => {
    const fleet = createFleet();
    const id = await held(fleet, { paused: true });
    fleet.node.always("sandbox", fails({ kind: "unsent" }));
    expect((await fleet.send("POST", `/sandboxes/${id}/pause`)).status).toBe(409);
  });

  it("refuses memory: false before it looks whether the sandbox is paused, or there", async () => {
    const fleet = createFleet();
    const id = await held(fleet, { paused: true });
    const before = fleet.nodes.calls.length;
    for (const asked of [id, "sb-00ff"]) {
      const reply = await fleet.send("POST", `/sandboxes/${asked}/pause`, { memory: false });
      expect(reply.status).toBe(400);
      expect(reply.body.message).toContain("memory");
    }
    expect(fleet.nodes.calls).toHaveLength(before);
  });
});

describe.each(["/sandboxes", "/v2/sandboxes"])("POST %s/{sandboxID}/connect", (base) => {
  it.each([undefined, "", " ", "null", "{}", { timeout: null, memory: null }, { memory: true }])(
    "to a running sandbox with %j is 200 with its token, and neither wakes nor shortens",
    async (body) => {
      const fleet = createFleet();
      const id = await held(fleet, { secondsLeft: 3600 });
      const reply = await fleet.send("POST", `${base}/${id}/connect`, body);
      expect(reply.status).toBe(200);
      expect(reply.body).toStrictEqual({
        templateID: IMAGE,
        sandboxID: id,
        clientID: NODE,
        envdVersion: "0.8.0",
        envdAccessToken: fleet.node.sandboxes[0]?.token,
        domain: "sandbox.example.com",
        alias: "base",
      });
      expect(fleet.calls("wake")).toHaveLength(0);
      expect(leases(fleet)).toHaveLength(0);
    },
  );

  it("to a paused sandbox wakes it and is 201, then 200", async () => {
    const fleet = createFleet();
    const id = await held(fleet, { paused: true });
    expect((await fleet.send("POST", `${base}/${id}/connect`)).status).toBe(201);
    expect((await fleet.send("POST", `${base}/${id}/connect`)).status).toBe(200);
    expect(fleet.calls("wake").map((call) => call.id)).toStrictEqual([rawId(id)]);
  });

  it.each([
    [20, { timeout: 300 }, [{ ttlSeconds: 300 }]],
    [20, {}, [{ ttlSeconds: 300 }]],
    [1, { timeout: 30 }, [{ ttlSeconds: 30 }]],
    [-5, { timeout: 30 }, [{ ttlSeconds: 30 }]],
    [3600, { timeout: 300 }, []],
    [3600, { timeout: 7200 }, [{ ttlSeconds: 7200 }]],
    [3600, { timeout: 0 }, []],
    [3600, { timeout: -1 }, []],
  ])("with %i s left and %j renews %j", async (secondsLeft, body, renewed) => {
    const fleet = createFleet();
    const id = await held(fleet, { secondsLeft });
    expect((await fleet.send("POST", `${base}/${id}/connect`, body)).status).toBe(200);
    // No action either: a sandbox that was made to pause at its end still does.
    expect(leases(fleet)).toStrictEqual(renewed);
  });

  it.each([
    // Behind: 20 s are left where the sandbox is, 110 s by our clock. Ahead: 300 s and 210 s.
    ["behind", 20 + 90, -90, { timeout: 60 }, [{ ttlSeconds: 60 }]],
    ["ahead of", 300 - 90, 90, { timeout: 250 }, []],
  ] as const)(
    "judges a lease by its node's clock: ours is 90 s %s it",
    async (_where, secondsLeft, ahead, body, renewed) => {
      const fleet = createFleet();
      const read = fleet.store.read.bind(fleet.store);
      fleet.store.read = async (...asked) => ({
        ...(await read(...asked)),
        answeredAt: new Date(Date.now() - ahead * 1000),
      });
      const id = await held(fleet, { secondsLeft });
      expect((await fleet.send("POST", `${base}/${id}/connect`, body)).status).toBe(200);
      expect(leases(fleet)).toStrictEqual(renewed);
    },
  );

  it("judges the lease after the wake, which may have granted a longer one", async () => {
    const fleet = createFleet();
    const id = await held(fleet, { paused: true, archived: true, secondsLeft: 1 });
    fleet.node.script("wake", () => {
      const row = fleet.node.sandboxes[0]!;
      const deadline = new Date(Date.now() + 3_600_000);
      fleet.node.hold({ ...row, archived: false, token: "new", entry: { ...row.entry, phase: "Running", deadline } });
    });
    const reply = await fleet.send("POST", `${base}/${id}/connect`, { timeout: 300 });
    expect(reply.status).toBe(201);
    expect(reply.body.envdAccessToken).toBe("new");
    expect(leases(fleet)).toHaveLength(0);
  });

  it.each(['{"memory":false}', '{"timeout":"5"}', '{"timeout":1.5}', "[]", "{"])(
    "refuses %s and calls no node",
    async (body) => {
      const fleet = createFleet();
      const id = await held(fleet, { paused: true });
      const before = fleet.nodes.calls.length;
      const reply = await fleet.send("POST", `${base}/${id}/connect`, body);
      expect(reply.status).toBe(400);
      expect(reply.body).toStrictEqual(ERROR(400));
      expect(fleet.nodes.calls).toHaveLength(before);
    },
  );
});

describe("POST resume", () => {
  it.each([undefined, "", "null", "{}", { timeout: 30 }])("with %j wakes and is 201 once, then 409", async (body) => {
    const fleet = createFleet();
    const id = await held(fleet, { paused: true, secondsLeft: 3600 });
    const first = await fleet.send("POST", `/sandboxes/${id}/resume`, body);
    expect(first.status).toBe(201);
    expect(first.body.envdAccessToken).toBe(fleet.node.sandboxes[0]?.token);
    const second = await fleet.send("POST", `/sandboxes/${id}/resume`, body);
    expect(second.status).toBe(409);
    expect(second.body).toStrictEqual(ERROR(409));
    expect(fleet.calls("wake")).toHaveLength(1);
    expect(leases(fleet)).toHaveLength(0);
  });

  it.each([
    [true, 3600, 30, { ttlSeconds: 3600, onExpire: "archive" }],
    [false, 3600, 30, { ttlSeconds: 3600, onExpire: "destroy" }],
    [true, 10, 30, { ttlSeconds: 30, onExpire: "archive" }],
  ])("with autoPause %s sets the action and keeps the longer lease", async (autoPause, secondsLeft, timeout, lease) => {
    const fleet = createFleet();
    const id = await held(fleet, { paused: true, secondsLeft });
    expect((await fleet.send("POST", `/sandboxes/${id}/resume`, { autoPause, timeout })).status).toBe(201);
    expect(leases(fleet)).toStrictEqual([lease]);
  });

  it("refuses memory: false and calls no node", async () => {
    const fleet = createFleet();
    const id = await held(fleet, { paused: true });
    const before = fleet.nodes.calls.length;
    expect((await fleet.send("POST", `/sandboxes/${id}/resume`, { memory: false })).status).toBe(400);
    expect(fleet.nodes.calls).toHaveLength(before);
  });
});

describe("a client that hangs up during a verb", () => {
  it.each([
    ["DELETE", "", "release"],
    ["POST", "/pause", "hibernate"],
    ["POST", "/connect", "wake"],
  ] as const)("does not stop %s %s half way", async (method, path, verb) => {
    const fleet = createFleet();
    const id = await held(fleet, { paused: verb === "wake" });
    const client = new AbortController();
    let seen: AbortSignal | undefined;
    fleet.node.script(verb, (call) => {
      client.abort();
      seen = call.signal;
      if (verb === "wake") {
        const row = fleet.node.sandboxes[0]!;
        fleet.node.hold({ ...row, entry: { ...row.entry, phase: "Running" } });
      }
    });
    await fleet.send(method, `/sandboxes/${id}${path}`, undefined, { signal: client.signal }).catch(() => undefined);
    expect(fleet.calls(verb)).toHaveLength(1);
    expect(seen?.aborted ?? false).toBe(false);
  });
});

describe("an unexpected failure", () => {
  it("is a plain 500, with the cause in the log only", async () => {
    const fleet = createFleet({
      store: (store) => ({ ...store, getByClaimId: () => Promise.reject(new Error("internal detail")) }),
    });
    const reply = await fleet.send("GET", "/sandboxes/sb-1");
    expect(reply.status).toBe(500);
    expect(reply.body).toStrictEqual({ code: 500, message: "internal error" });
    expect(fleet.lines.filter((line) => line.level === "error")).toHaveLength(1);
  });

  it("that the store reports never shows the node's address", async () => {
    const error = new ScaleError("node_failed", `sandboxd read on node "${NODE}": refused`, { node: NODE });
    const fleet = createFleet({ store: (store) => ({ ...store, getByClaimId: () => Promise.reject(error) }) });
    const reply = await fleet.send("GET", "/sandboxes/sb-1");
    expect(reply.status).toBe(500);
    expect(reply.text).not.toContain(NODE);
  });
});
