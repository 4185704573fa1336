import { createStore, ScaleError } from "@org/scale";
import { answers, fails } from "@org/scale/testing";
import { describe, expect, it } from "vitest";
import { createServer } from "../server.ts";
import { createFleet, KEY_1, KEY_2, read } from "../testing/fleet.ts";
import type { Fleet, Reply } from "../testing/fleet.ts";
import { guestDaemon } from "../testing/guest-daemon.ts";

const IDEMPOTENCY_KEY = "0198c0de-7e57-7abc-8def-000000000001";
const SECRET = { envdSecret: "the-envd-secret" };

function post(
  fleet: Pick<Fleet, "send">,
  change: { readonly body?: unknown; readonly key?: string; readonly once?: string; readonly path?: string } = {},
): Promise<Reply> {
  const { body = { templateID: "base" }, key = KEY_1, once = IDEMPOTENCY_KEY, path = "/v2/sandboxes" } = change;
  return fleet.send("POST", path, body, { key, headers: { "idempotency-key": once } });
}

/** Another process over the same nodes and the same inventory, with nothing in its memory. */
function restarted(fleet: Fleet, options: object = {}): Pick<Fleet, "send"> {
  const server = createServer(createStore(fleet.source, { clients: fleet.nodes }), {
    inventory: fleet.source,
    domain: "sandbox.example.com",
    keys: [{ key: KEY_1, namespace: "ns1" }],
    aliases: [{ alias: "base", image: "e2b-rt:24.04", size: "small" }],
    ...options,
  });
  return {
    send: async (method, path, body, { key = KEY_1, headers } = {}) =>
      read(
        await server.fetch(
          new Request(`http://localhost${path}`, {
            method,
            headers: { ...Object.fromEntries(new Headers(headers)), "x-api-key": key },
            body: JSON.stringify(body),
          }),
        ),
      ),
  };
}

describe("a create with an Idempotency-Key", () => {
  it("that is repeated has the same answer and makes nothing, on either path", async () => {
    const fleet = createFleet();
    const first = await post(fleet);
    expect([first.status, first.headers.get("idempotent-replayed")]).toStrictEqual([201, null]);
    fleet.publish();
    for (const path of ["/v2/sandboxes", "/sandboxes"]) {
      const again = await post(fleet, { path });
      expect([again.status, again.body]).toStrictEqual([201, first.body]);
      expect(again.headers.get("idempotent-replayed")).toBe("true");
    }
    expect(fleet.calls("claim")).toHaveLength(1);
  });

  it("that is sent fifty times at once is done once, and everybody has the answer", async () => {
    const fleet = createFleet(SECRET);
    const daemon = guestDaemon(fleet.node);
    const body = { templateID: "base", envVars: { PASSWORD: "hunter2" } };
    const replies = await Promise.all(Array.from({ length: 50 }, () => post(fleet, { body })));
    expect(new Set(replies.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(replies[0]?.status).toBe(201);
    expect(fleet.node.sandboxes).toHaveLength(1);
    expect(daemon.calls.filter(({ path }) => path === "/init")).toHaveLength(1);
  });

  it("stands for one namespace, whichever of its keys asks", async () => {
    const fleet = createFleet({
      keys: [
        { key: KEY_1, namespace: "ns1" },
        { key: "e2b_3333", namespace: "ns1" },
        { key: KEY_2, namespace: "ns2" },
      ],
    });
    const [one, same, other] = [
      await post(fleet),
      await post(fleet, { key: "e2b_3333" }),
      await post(fleet, { key: KEY_2 }),
    ];
    expect(same.body).toStrictEqual(one.body);
    expect(other.body.sandboxID).not.toBe(one.body.sandboxID);
  });

  it.each([
    ["another timeout", { templateID: "base", timeout: 7 }],
    ["another template", { templateID: "e2b-rt:24.04" }],
    ["other variables", { templateID: "base", metadata: { a: "1", b: "2" }, envVars: { A: "1" } }],
  ])("with %s is 409 and makes nothing", async (_what, body) => {
    const fleet = createFleet(SECRET);
    guestDaemon(fleet.node);
    const metadata = { a: "1", b: "2" };
    const first = await post(fleet, { body: { templateID: "base", metadata } });
    const other = await post(fleet, { body });
    expect([other.status, other.body.code]).toStrictEqual([409, 409]);
    expect(other.body.message).toContain("Idempotency-Key");
    // The order of members, and what nobody reads, change nothing.
    const same = await post(fleet, { body: { unknown: 1, metadata: { b: "2", a: "1" }, templateID: "base" } });
    expect(same.body).toStrictEqual(first.body);
    expect(fleet.node.sandboxes).toHaveLength(1);
  });

  it.each(["", " ", "a b", "x".repeat(256), "ü", "a\tb"])("is 400 for the key %j, and claims nothing", async (once) => {
    const fleet = createFleet();
    const headers = new Headers({ "x-api-key": KEY_1 });
    // Hosts strip white space around values.
    headers.set("idempotency-key", once);
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: "base" }, { headers });
    expect([reply.status, reply.body.code]).toStrictEqual([400, 400]);
    expect(reply.body.message).toContain("Idempotency-Key");
    expect(fleet.calls("claim")).toHaveLength(0);
  });

  it.each([
    ["the node refuses", answers(400, "no"), 400],
    ["nothing is warm", answers(429), 503],
    ["the claim's answer is lost", fails({ kind: "uncertain" }), 500],
  ])("is free again when %s; those who waited have the same failure", async (_what, step, status) => {
    const fleet = createFleet();
    fleet.node.script("claim", step);
    const replies = await Promise.all([post(fleet), post(fleet), post(fleet)]);
    expect(new Set(replies.map(({ text }) => text)).size).toBe(1);
    expect(replies.map((reply) => reply.status)).toStrictEqual([status, status, status]);
    expect(fleet.calls("claim")).toHaveLength(1);
    const next = await post(fleet, { body: { templateID: "base", timeout: 9 } });
    expect([next.status, next.headers.get("idempotent-replayed")]).toStrictEqual([201, null]);
  });

  it("does not take over a sandbox whose claim had no answer: that one is ended when it shows", async () => {
    const fleet = createFleet();
    let lost = "";
    fleet.node.script("claim", async (call) => {
      lost = call.claim?.claimRef ?? "";
      fleet.node.hold({
        archived: false,
        entry: { name: lost, claimRef: lost, id: "sb_00000000000000aa", phase: "Running" },
      });
      return fails({ kind: "uncertain" })(call);
    });
    expect((await post(fleet)).status).toBe(500);
    fleet.publish();
    const next = await post(fleet);
    expect(next.status).toBe(201);
    expect(next.body.sandboxID).not.toBe("sb-00000000000000aa");
    const names = fleet.node.sandboxes.map(({ entry }) => entry.name);
    expect(new Set(names).size).toBe(names.length);
  });

  it("is free again when the guest could not be prepared, and leaves nothing behind", async () => {
    const fleet = createFleet(SECRET);
    guestDaemon(fleet.node, { "/init": 500 });
    expect((await post(fleet)).status).toBe(500);
    expect(fleet.node.sandboxes).toHaveLength(0);
    guestDaemon(fleet.node);
    expect((await post(fleet)).status).toBe(201);
  });

  it.each(["killed", "lost with its node's memory"])("makes a new sandbox after the first was %s", async (how) => {
    const fleet = createFleet();
    const id = (await post(fleet)).body.sandboxID as string;
    fleet.publish();
    if (how === "killed") {
      await fleet.send("DELETE", `/sandboxes/${id}`);
    } else {
      fleet.node.lose(id.replace("-", "_"));
    }
    const next = await post(fleet);
    expect([next.status, next.headers.get("idempotent-replayed")]).toStrictEqual([201, null]);
    expect(next.body.sandboxID).not.toBe(id);
  });

  it("while the first sandbox is slowly ended names that one or a new one, and the new one from the end on", async () => {
    for (let turns = 0; turns < 12; turns += 1) {
      const fleet = createFleet();
      const id = (await post(fleet)).body.sandboxID as string;
      fleet.publish();
      const release = Promise.withResolvers<void>();
      fleet.node.script("release", async () => {
        await release.promise;
        fleet.node.lose(id.replace("-", "_"));
      });
      const kill = fleet.send("DELETE", `/sandboxes/${id}`);
      const during = post(fleet);
      for (let turn = 0; turn < turns; turn += 1) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      release.resolve();
      expect((await kill).status).toBe(204);
      expect((await during).status).toBe(201);
      const after = await post(fleet);
      expect(after.status).toBe(201);
      expect(after.body.sandboxID).not.toBe(id);
      expect(fleet.node.sandboxes.map(({ entry }) => entry.id)).toStrictEqual([after.body.sandboxID.replace("-", "_")]);
    }
  });

  it("repeats the answer of a paused sandbox without waking it", async () => {
    const fleet = createFleet();
    const first = await post(fleet);
    await fleet.send("POST", `/sandboxes/${first.body.sandboxID}/pause`);
    expect((await post(fleet)).body).toStrictEqual(first.body);
    expect(fleet.calls("wake")).toHaveLength(0);
  });

  it("says so when the node of the first does not answer, and makes no second", async () => {
    const fleet = createFleet();
    await post(fleet);
    fleet.node.script("sandbox", fails({ kind: "unsent" }));
    expect((await post(fleet)).status).toBe(500);
    expect((await post(fleet)).status).toBe(201);
    expect(fleet.calls("claim")).toHaveLength(1);
  });

  it("makes no second while nobody can say whether the first is gone", async () => {
    let silent = false;
    const fleet = createFleet({
      store: (store) =>
        new Proxy(store, {
          get: (target, name) => {
            const method: unknown = Reflect.get(target, name);
            if (name === "read" && silent) {
              return () => Promise.reject(new ScaleError("not_found", "unknown", { unanswered: 1 }));
            }
            return typeof method === "function" ? method.bind(target) : method;
          },
        }),
    });
    await post(fleet);
    silent = true;
    expect((await post(fleet)).status).toBe(503);
    silent = false;
    expect((await post(fleet)).headers.get("idempotent-replayed")).toBe("true");
    expect(fleet.calls("claim")).toHaveLength(1);
  });

  it("does not count against limits twice", async () => {
    const fleet = createFleet({
      keys: [{ key: KEY_1, namespace: "ns1", limits: { maxSandboxes: 1, createPerMinute: 1 } }],
    });
    expect((await post(fleet)).status).toBe(201);
    expect((await post(fleet)).status).toBe(201);
    expect((await post(fleet, { once: "another" })).status).toBe(429);
    expect((await post(fleet, { once: "another" })).status).toBe(429);
  });

  it("shows neither the key nor the body in names or in the log", async () => {
    const fleet = createFleet(SECRET);
    guestDaemon(fleet.node);
    await post(fleet, { once: "my-own-key", body: { templateID: "base", envVars: { A: "hunter2" } } });
    await post(fleet, { once: "my-own-key", body: { templateID: "base", envVars: { A: "other" } } });
    const name = fleet.node.sandboxes[0]?.entry.name ?? "";
    expect(name).toMatch(/^ns1\/e2b-[0-9a-f]{24}-[0-9a-f]{8}-[a-z0-9]{5}$/);
    expect(JSON.stringify([name, fleet.lines])).not.toMatch(/my-own-key|hunter2/);
  });
});

describe("a create that is repeated at another process", () => {
  it.each([
    ["with derived tokens", SECRET, 401],
    ["with derived tokens, whose daemon forbids", SECRET, 403],
    ["without", {}, 401],
  ])("has the same answer once a poll has shown the sandbox (%s)", async (_what, options, refusal) => {
    const fleet = createFleet(options);
    guestDaemon(fleet.node);
    const first = await post(fleet);
    fleet.publish();
    // From here on the daemon believes its token alone.
    const token = first.body.envdAccessToken as string;
    guestDaemon(fleet.node, { "/envs": (given: string | undefined) => (given === token ? {} : refusal) });
    const other = restarted(fleet, options);
    const again = await post(other);
    expect([again.status, again.body]).toStrictEqual([201, first.body]);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect((await post(other)).body).toStrictEqual(first.body);
    expect((await post(restarted(fleet, options), { body: { templateID: "base", timeout: 3 } })).status).toBe(409);
    expect(fleet.calls("claim")).toHaveLength(1);
  });

  it.each([
    ["still stands for it within a day", 86_390, "true", 409],
    ["stands for nothing after a day, as at the process that made it", 86_500, null, 201],
  ])("%s (%i s)", async (_what, secondsAgo, replayed, otherBody) => {
    const fleet = createFleet();
    await post(fleet);
    const row = fleet.node.sandboxes[0]!;
    fleet.node.hold({ ...row, entry: { ...row.entry, claimedAt: new Date(Date.now() - secondsAgo * 1000) } });
    fleet.publish();
    expect((await post(restarted(fleet))).headers.get("idempotent-replayed")).toBe(replayed);
    expect((await post(restarted(fleet), { body: { templateID: "base", timeout: 3 } })).status).toBe(otherBody);
  });

  it("has the same answer for one that sleeps, whose daemon nobody can ask", async () => {
    const fleet = createFleet(SECRET);
    guestDaemon(fleet.node);
    const first = await post(fleet);
    await fleet.send("POST", `/sandboxes/${first.body.sandboxID}/pause`);
    fleet.publish();
    const again = await post(restarted(fleet, SECRET));
    expect([again.status, again.body]).toStrictEqual([201, first.body]);
    expect(fleet.calls("wake")).toHaveLength(0);
  });

  it("waits for one whose daemon does not believe its own token yet", async () => {
    const fleet = createFleet(SECRET);
    guestDaemon(fleet.node);
    await post(fleet);
    fleet.publish();
    guestDaemon(fleet.node, { "/envs": 401 });
    expect((await post(restarted(fleet, SECRET))).status).toBe(503);
    expect(fleet.node.sandboxes).toHaveLength(1);
  });

  it("makes a second sandbox before that", async () => {
    const fleet = createFleet();
    await post(fleet);
    expect((await post(restarted(fleet))).status).toBe(201);
    expect(fleet.node.sandboxes).toHaveLength(2);
  });

  it.each([
    ["waits while it may still be made", 1, 503, 1],
    ["ends what was left half made", 60, 201, 1],
  ])("%s (claimed %i s ago)", async (_what, secondsAgo, status, sandboxes) => {
    const fleet = createFleet(SECRET);
    guestDaemon(fleet.node);
    const first = await post(fleet);
    const row = fleet.node.sandboxes[0]!;
    fleet.node.hold({ ...row, entry: { ...row.entry, claimedAt: new Date(Date.now() - secondsAgo * 1000) } });
    fleet.publish();
    // This daemon answers everybody: nobody gave it a token.
    const reply = await post(restarted(fleet, SECRET));
    expect(reply.status).toBe(status);
    expect(fleet.node.sandboxes).toHaveLength(sandboxes);
    if (status === 201) {
      expect(reply.body.sandboxID).not.toBe(first.body.sandboxID);
    }
  });
});
