import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import {
  callApi,
  callProxy,
  type Created,
  createSandbox,
  expectError,
  type Method,
  type Reply,
  runInGuest,
} from "../../src/api.ts";
import type { Front } from "../../src/front.ts";
import { type GuestMesh, type GuestMeshOptions, restock } from "../../src/guest-mesh.ts";
import type { HarnessRow } from "../../src/harness-rows.ts";
import type { NodeSandbox } from "../../src/node-admin.ts";
import { waitFor } from "../../src/polling.ts";
import { IMAGE, RIG } from "../../src/rig.ts";
import { type ControlContext, type HeldRows, laneMesh } from "./context.ts";

const UNKNOWN = "sb-0000000000000000";
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

interface Item {
  readonly sandboxID: string;
  readonly state: string;
  readonly endAt: string;
  readonly startedAt: string;
  readonly templateID: string;
  readonly alias?: string;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Nodes with guests and fronts over them, however those learn of the nodes. */
export type LaneMesh = Pick<GuestMesh, "nodes"> & { readonly front: () => Promise<Front> };

/** One front and what rows ask of it. */
interface Bench {
  readonly front: Front;
  readonly mesh: LaneMesh;
  readonly ask: (method: Method, path: string, body?: unknown, key?: string | null) => Promise<Reply>;
  readonly make: (body?: object, key?: string) => Promise<Created>;
  readonly get: (id: string) => Promise<Item>;
  readonly kill: (...made: readonly { readonly sandboxID: string }[]) => Promise<void>;
  readonly onNode: (id: string) => Promise<NodeSandbox>;
  readonly claims: () => Promise<number>;
  readonly list: (query?: string) => Promise<{ readonly items: readonly Item[]; readonly next: string | undefined }>;
}

async function bench(mesh: LaneMesh, front: Front): Promise<Bench> {
  const { facts } = front;
  const ask: Bench["ask"] = (method, path, body, key) =>
    callApi(facts, method, path, {
      ...(body === undefined ? {} : { body }),
      ...(key === undefined ? {} : { key }),
    });
  return {
    front,
    mesh,
    ask,
    make: (body, key) => createSandbox(facts, body, key),
    get: async (id) => {
      const reply = await ask("GET", `/sandboxes/${id}`);
      assert.equal(reply.status, 200, reply.text);
      return JSON.parse(reply.text) as Item;
    },
    kill: async (...made) => {
      for (const { sandboxID } of made) {
        assert.equal((await ask("DELETE", `/sandboxes/${sandboxID}`)).status, 204, sandboxID);
      }
    },
    onNode: async (id) => {
      for (const { admin } of mesh.nodes) {
        const row = await admin.sandbox(id.replace("sb-", "sb_")).catch(() => undefined);
        if (row !== undefined) {
          return row;
        }
      }
      throw new Error(`no node has ${id}`);
    },
    claims: async () => {
      const counts = await Promise.all(mesh.nodes.map(({ admin }) => admin.claims()));
      return counts.reduce((sum, { warm, clone, cold }) => sum + warm + clone + cold, 0);
    },
    list: async (query = "") => {
      const reply = await ask("GET", `/v2/sandboxes${query}`);
      assert.equal(reply.status, 200, reply.text);
      const next = reply.headers["x-next-token"];
      assert.ok(next === undefined || typeof next === "string");
      return { items: JSON.parse(reply.text) as Item[], next };
    },
  };
}

const secondsLeft = ({ endAt }: Item): number => (Date.parse(endAt) - Date.now()) / 1_000;

const near = (actual: number, wanted: number, what: string): void =>
  assert.ok(Math.abs(actual - wanted) <= 6, `${what}: ${actual} is not about ${wanted}`);

/** Pages of a list, following its header as the SDKs do. */
async function pages({ list }: Bench, query: string): Promise<string[][]> {
  const found: string[][] = [];
  for (let token: string | undefined = ""; token !== undefined;) {
    const { items, next } = await list(`?${query}${token === "" ? "" : `&nextToken=${encodeURIComponent(token)}`}`);
    found.push(items.map(({ sandboxID }) => sandboxID));
    token = next;
    assert.ok(found.length < 20, "the pages end");
  }
  return found;
}

type Check = readonly [id: string, title: string, run: (own: Bench) => Promise<void>];

/** SBX: every verb of the base matrix over plain HTTP. */
const VERBS: readonly Check[] = [
  [
    "SBX-01",
    "create on both paths: 201 with every field that clients need",
    async ({ ask, kill }) => {
      for (const path of ["/sandboxes", "/v2/sandboxes"]) {
        const reply = await ask("POST", path, { templateID: "base", timeout: 60 });
        assert.equal(reply.status, 201, reply.text);
        const made = JSON.parse(reply.text) as Created & { domain: string; envdVersion: string };
        assert.match(made.sandboxID, /^sb-[0-9a-f]+$/);
        assert.match(made.envdVersion, /^\d+\.\d+\.\d+$/);
        assert.deepEqual([made.templateID, made.alias, made.domain], [IMAGE, "base", RIG.domain]);
        assert.notEqual(made.clientID, "");
        assert.notEqual(made.envdAccessToken ?? "", "");
        await kill(made);
      }
    },
  ],
  [
    "SBX-02",
    "the claim is on lane none, named by namespace and a prefix, with the lease asked for",
    async ({ make, onNode, kill }) => {
      const made = await make({ timeout: 77, metadata: { a: "1" } });
      const row = await onNode(made.sandboxID);
      assert.deepEqual(row.key, { template: IMAGE, net: "none", size: "small" });
      assert.match(row.claim_ref ?? "", /^ns1\/e2b-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
      near((Date.parse(row.deadline ?? "") - Date.now()) / 1_000, 77, "lease");
      await kill(made);
    },
  ],
  [
    "SBX-03",
    "get: times, state, sizes, names; a public and a raw id are one sandbox",
    async ({ make, get, kill }) => {
      const made = await make({ timeout: 60, metadata: { owner: "sbx" } });
      const item = await get(made.sandboxID);
      assert.deepEqual(await get(made.sandboxID.replace("sb-", "sb_")), item);
      assert.deepEqual([item.state, item.templateID, item.alias], ["running", IMAGE, "base"]);
      assert.deepEqual(item.metadata, { owner: "sbx" });
      assert.match(item.startedAt, TIMESTAMP);
      assert.match(item.endAt, TIMESTAMP);
      assert.ok(item.endAt > item.startedAt);
      for (const name of ["cpuCount", "memoryMB", "diskSizeMB"]) {
        assert.equal(typeof (item as unknown as Record<string, unknown>)[name], "number", name);
      }
      await kill(made);
    },
  ],
  [
    "SBX-04",
    "both lists show it at once, and a killed one no more",
    async ({ ask, make, list, kill }) => {
      const made = await make();
      const has = async (): Promise<boolean[]> => {
        const first = JSON.parse((await ask("GET", "/sandboxes")).text) as Item[];
        return [first, (await list()).items].map((items) => items.some((item) => item.sandboxID === made.sandboxID));
      };
      assert.deepEqual(await has(), [true, true]);
      await kill(made);
      assert.deepEqual(await has(), [false, false]);
    },
  ],
  [
    "SBX-05",
    "kill is 204 once, then 404",
    async ({ ask, make, kill }) => {
      const made = await make();
      await kill(made);
      expectError(await ask("DELETE", `/sandboxes/${made.sandboxID}`), 404, "a second kill");
      expectError(await ask("GET", `/sandboxes/${made.sandboxID}`), 404, "get of a killed one");
    },
  ],
  [
    "SBX-06",
    "pages of 2, 2 and 1 in both orders; a kill between pages skips and repeats nothing",
    async (own) => {
      const made: Created[] = [];
      for (let count = 0; count < 5; count += 1) {
        await delay(own.front.facts.apartMs ?? 0);
        made.push(await own.make());
      }
      const ids = made.map(({ sandboxID }) => sandboxID);
      assert.deepEqual(
        await pages(own, "limit=2"),
        [2, 2, 1].map((size, page) => ids.toReversed().slice(page * 2, page * 2 + size)),
      );
      assert.deepEqual((await pages(own, "limit=2&order=asc")).flat(), ids);
      const { items, next = "" } = await own.list("?limit=2&order=asc");
      const [first, second, third] = made;
      assert.ok(first !== undefined && second !== undefined && third !== undefined);
      assert.deepEqual(
        items.map(({ sandboxID }) => sandboxID),
        ids.slice(0, 2),
      );
      await own.kill(second, third);
      const rest = await own.list(`?limit=2&order=asc&nextToken=${encodeURIComponent(next)}`);
      assert.deepEqual(
        rest.items.map(({ sandboxID }) => sandboxID),
        ids.slice(3),
      );
      assert.equal(rest.next, undefined, "no header on the last page");
      await own.kill(first, ...made.slice(3));
    },
  ],
  [
    "SBX-07",
    "bad limits, orders, tokens, states and times are 400; the first list ignores limits",
    async ({ ask }) => {
      for (const query of [
        "limit=0",
        "limit=101",
        "limit=many",
        "order=sideways",
        "nextToken=not-a-token",
        "state=sleeping",
        "state=",
        "startedAfter=yesterday",
        "metadata=owner",
        "metadata=a%3D1%26a%3D2",
      ]) {
        expectError(await ask("GET", `/v2/sandboxes?${query}`), 400, query);
      }
      const reply = await ask("GET", "/sandboxes?limit=1");
      assert.equal(reply.status, 200);
      assert.equal(reply.headers["x-next-token"], undefined);
    },
  ],
  [
    "SBX-08",
    "filters by state, metadata, template and start, alone and together",
    async ({ ask, make, kill, list }) => {
      const [one, two] = [await make({ metadata: { "a b/+": "c/d&e=f+g" } }), await make()];
      assert.equal((await ask("POST", `/sandboxes/${two.sandboxID}/pause`, {})).status, 204);
      const metadata = encodeURIComponent(`${encodeURIComponent("a b/+")}=${encodeURIComponent("c/d&e=f+g")}`);
      const ids = async (query: string): Promise<string[]> =>
        (await list(`?${query}`)).items.map(({ sandboxID }) => sandboxID);
      assert.deepEqual(await ids("state=paused"), [two.sandboxID]);
      assert.deepEqual(await ids(`metadata=${metadata}`), [one.sandboxID]);
      assert.deepEqual(await ids(`metadata=${metadata}&state=paused`), []);
      assert.deepEqual(
        await ids(`metadata=${metadata}&state=running,paused&template=base&startedAfter=2000-01-01T00:00:00Z`),
        [one.sandboxID],
      );
      assert.deepEqual(await ids("startedAfter=2999-01-01T00:00:00Z"), []);
      assert.equal((await ids("state=running&state=paused&template=code-interpreter-v1")).length, 2);
      assert.deepEqual(await ids("template=nope"), []);
      await kill(one, two);
    },
  ],
  [
    "SBX-09",
    "aliases: look-ups by alias and image, none for strangers, sorted in the template list",
    async ({ ask }) => {
      for (const name of ["base", IMAGE]) {
        const reply = await ask("GET", `/templates/aliases/${encodeURIComponent(name)}`);
        assert.deepEqual([reply.status, JSON.parse(reply.text)], [200, { templateID: IMAGE, public: true }], name);
      }
      expectError(await ask("GET", "/templates/aliases/nope"), 404, "an unknown alias");
      for (const path of ["/templates", "/v2/templates"]) {
        const templates = JSON.parse((await ask("GET", path)).text) as { templateID: string; aliases: string[] }[];
        const entry = templates.find(({ templateID }) => templateID === IMAGE);
        assert.deepEqual(entry?.aliases, ["base", "code-interpreter-v1", "e2bdev/base", "medium-box"], path);
      }
    },
  ],
  [
    "SBX-10",
    "an alias with a size claims that size, the image itself is small",
    async ({ make, onNode, kill }) => {
      const [medium, plain] = [await make({ templateID: "medium-box" }), await make({ templateID: IMAGE })];
      assert.equal((await onNode(medium.sandboxID)).key.size, "medium");
      assert.equal((await onNode(plain.sandboxID)).key.size, "small");
      await kill(medium, plain);
    },
  ],
  [
    "SBX-11",
    "metrics: one sample, none for an old window or a paused one, many by ids",
    async ({ ask, make, kill }) => {
      const made = await make();
      const samples = async (query = ""): Promise<unknown[]> => {
        const reply = await ask("GET", `/sandboxes/${made.sandboxID}/metrics${query}`);
        assert.equal(reply.status, 200, reply.text);
        return JSON.parse(reply.text) as unknown[];
      };
      const [sample] = (await samples()) as Record<string, unknown>[];
      for (const name of [
        "timestampUnix",
        "cpuCount",
        "cpuUsedPct",
        "memUsed",
        "memTotal",
        "memCache",
        "diskUsed",
        "diskTotal",
      ]) {
        assert.equal(typeof sample?.[name], "number", name);
      }
      assert.deepEqual(await samples("?start=978307200&end=978393600"), []);
      const many = await ask("GET", `/sandboxes/metrics?sandbox_ids=${made.sandboxID},${UNKNOWN}`);
      assert.deepEqual(Object.keys((JSON.parse(many.text) as { sandboxes: object }).sandboxes), [made.sandboxID]);
      await ask("POST", `/sandboxes/${made.sandboxID}/pause`, {});
      assert.deepEqual(await samples(), []);
      await kill(made);
    },
  ],
  [
    "SBX-12",
    "logs of both versions have what a command printed",
    async ({ ask, front, make, kill }) => {
      const made = await make();
      await runInGuest(front.facts, made, "echo printed");
      const texts = async (path: string, of: "logEntries" | "logs"): Promise<string[]> => {
        const reply = await ask("GET", path);
        const body = JSON.parse(reply.text) as Record<string, { message?: string }[]>;
        return (body[of] ?? []).flatMap(({ message }) => (message === undefined ? [] : [message]));
      };
      await waitFor(
        "the line in both",
        async () =>
          (await texts(`/sandboxes/${made.sandboxID}/logs`, "logEntries")).includes("printed") &&
          (await texts(`/v2/sandboxes/${made.sandboxID}/logs`, "logs")).includes("printed"),
        5_000,
      );
      await kill(made);
    },
  ],
];

/** SBL: leases and lives. */
const LIVES: readonly Check[] = [
  [
    "SBL-01",
    "timeout sets the lease, also to less; a negative one, a fraction, a text and none are 400",
    async ({ ask, make, get, kill }) => {
      const made = await make({ timeout: 300 });
      const path = `/sandboxes/${made.sandboxID}/timeout`;
      for (const timeout of [60, 600, 30]) {
        assert.equal((await ask("POST", path, { timeout })).status, 204);
        near(secondsLeft(await get(made.sandboxID)), timeout, "left");
      }
      for (const body of [{ timeout: -1 }, { timeout: 1.5 }, { timeout: "60" }, {}, undefined]) {
        expectError(await ask("POST", path, body), 400, JSON.stringify(body));
      }
      near(secondsLeft(await get(made.sandboxID)), 30, "what was refused moves nothing");
      expectError(await ask("POST", `/sandboxes/${UNKNOWN}/timeout`, { timeout: 5 }), 404, "an unknown one");
      await kill(made);
    },
  ],
  [
    "SBL-02",
    "refreshes renew by their duration, without one by the default; a hundred reads move nothing",
    async ({ ask, make, get, kill }) => {
      const made = await make({ timeout: 40 });
      const { endAt } = await get(made.sandboxID);
      for (let count = 0; count < 100; count += 1) {
        assert.equal((await get(made.sandboxID)).endAt, endAt);
      }
      const path = `/sandboxes/${made.sandboxID}/refreshes`;
      for (const [body, wanted] of [
        [{ duration: 90 }, 90],
        [undefined, 300],
        [{}, 300],
      ] as const) {
        assert.equal((await ask("POST", path, body)).status, 204);
        near(secondsLeft(await get(made.sandboxID)), wanted, JSON.stringify(body));
      }
      await kill(made);
    },
  ],
  [
    "SBL-03",
    "pause is 204, then 409 with its code; without memory it is 400 in either state",
    async ({ ask, make, get, kill }) => {
      const made = await make();
      const path = `/sandboxes/${made.sandboxID}/pause`;
      expectError(await ask("POST", path, { memory: false }), 400, "without memory");
      assert.equal((await get(made.sandboxID)).state, "running");
      assert.equal((await ask("POST", path, { memory: true })).status, 204);
      expectError(await ask("POST", path, {}), 409, "a second one");
      expectError(await ask("POST", path, { memory: false }), 400, "without memory while paused");
      await kill(made);
    },
  ],
  [
    "SBL-04",
    "connect is 200 to a running and 201 to a paused one, on both paths; it never shortens",
    async ({ ask, make, get, kill }) => {
      const made = await make({ timeout: 200 });
      for (const path of ["/sandboxes", "/v2/sandboxes"]) {
        const connect = (body?: object): Promise<Reply> => ask("POST", `${path}/${made.sandboxID}/connect`, body);
        const running = await connect({ timeout: 10 });
        assert.equal(running.status, 200, running.text);
        const left = secondsLeft(await get(made.sandboxID));
        assert.ok(left > 150, `${left} s are left`);
        assert.equal((await ask("POST", `/sandboxes/${made.sandboxID}/pause`, {})).status, 204);
        expectError(await connect({ memory: false }), 400, "without memory");
        assert.equal((await get(made.sandboxID)).state, "paused");
        const woken = await connect();
        assert.equal(woken.status, 201, woken.text);
        assert.equal((JSON.parse(woken.text) as Created).envdAccessToken, made.envdAccessToken);
        near(secondsLeft(await get(made.sandboxID)), 300, "left after a connect without a timeout");
      }
      await kill(made);
    },
  ],
  [
    "SBL-05",
    "legacy resume is 201 to a paused and 409 to a running one; autoPause sets what comes at the end",
    async ({ ask, make, onNode, kill }) => {
      const made = await make({ timeout: 100 });
      const path = `/sandboxes/${made.sandboxID}`;
      expectError(await ask("POST", `${path}/resume`, { timeout: 30 }), 409, "a running one");
      for (const [autoPause, wanted] of [
        [true, "archive"],
        [false, "destroy"],
      ] as const) {
        assert.equal((await ask("POST", `${path}/pause`)).status, 204);
        assert.equal((await ask("POST", `${path}/resume`, { timeout: 30, autoPause })).status, 201);
        assert.equal((await onNode(made.sandboxID)).on_expire ?? "destroy", wanted);
      }
      await kill(made);
    },
  ],
  [
    "SBL-06",
    "fork: children of their own; a paused parent is 409, too many and none are 400",
    async ({ ask, front, make, kill }) => {
      const made = await make();
      await runInGuest(front.facts, made, "echo inherited > note");
      const path = `/sandboxes/${made.sandboxID}/fork`;
      const reply = await ask("POST", path, { count: 2, timeout: 60 });
      assert.equal(reply.status, 201, reply.text);
      const children = (JSON.parse(reply.text) as { sandbox: Created }[]).map(({ sandbox }) => sandbox);
      assert.equal(children.length, 2);
      for (const child of children) {
        assert.equal(await runInGuest(front.facts, child, "cat note"), "inherited\n");
        const foreign = { ...child, envdAccessToken: made.envdAccessToken ?? "" };
        await assert.rejects(runInGuest(front.facts, foreign, "true"), /401/, "the parent's token");
      }
      for (const count of [0, -1, 1.5]) {
        expectError(await ask("POST", path, { count }), 400, `count ${count}`);
      }
      assert.match(expectError(await ask("POST", path, { count: 99 }), 400, "99 of them"), /max_fork_count/);
      assert.equal((await ask("POST", `/sandboxes/${made.sandboxID}/pause`)).status, 204);
      expectError(await ask("POST", path, {}), 409, "a paused parent");
      await kill(made, ...children);
    },
  ],
  [
    "SBL-07",
    "snapshots: made, listed by name and sandbox, started from, deleted once; names that do not fit are 400",
    async ({ ask, front, make, kill }) => {
      const made = await make();
      await runInGuest(front.facts, made, "echo kept > note");
      const path = `/sandboxes/${made.sandboxID}/snapshots`;
      const reply = await ask("POST", path, { name: "sbl" });
      assert.equal(reply.status, 201, reply.text);
      const { snapshotID, names } = JSON.parse(reply.text) as { snapshotID: string; names: string[] };
      assert.deepEqual(names, ["sbl"]);
      for (const query of [`?sandboxID=${made.sandboxID}`, "?name=sbl"]) {
        const rows = JSON.parse((await ask("GET", `/snapshots${query}`)).text) as { snapshotID: string }[];
        assert.deepEqual(
          rows.map((row) => row.snapshotID),
          [snapshotID],
          query,
        );
      }
      assert.deepEqual(JSON.parse((await ask("GET", "/snapshots", undefined, RIG.keys.two)).text), []);
      const copy = await make({ templateID: snapshotID });
      assert.equal(await runInGuest(front.facts, copy, "cat note"), "kept\n");
      expectError(await ask("POST", path, { name: "x".repeat(64) }), 400, "a long name");
      expectError(await ask("DELETE", `/templates/${snapshotID}`, undefined, RIG.keys.two), 404, "a stranger's delete");
      assert.equal((await ask("DELETE", `/templates/${snapshotID}`)).status, 204);
      expectError(await ask("DELETE", `/templates/${snapshotID}`), 404, "a second delete");
      await kill(made, copy);
    },
  ],
  [
    "SBL-08",
    "the end of a lease kills, or pauses when that was asked for, and the first 404 says why",
    async ({ ask, make, get, kill }) => {
      const [ends, pauses] = [await make({ timeout: 1 }), await make({ timeout: 1, autoPause: true })];
      await waitFor("the pause", async () => (await get(pauses.sandboxID)).state === "paused", 9_000, 200);
      await waitFor(
        "the end",
        async () => (await ask("GET", `/sandboxes/${ends.sandboxID}`)).status === 404,
        9_000,
        200,
      );
      const why = expectError(await ask("GET", `/sandboxes/${ends.sandboxID}`), 404, "its end");
      assert.match(why, /^sandbox not found: its lease ended at \d{4}-/);
      await kill(pauses);
    },
  ],
];

/** SBE: errors and scopes. */
const ERRORS: readonly Check[] = [
  [
    "SBE-01",
    "no key, an empty and a wrong one are 401 everywhere, and nothing is claimed",
    async ({ ask, claims }) => {
      const before = await claims();
      for (const key of [null, "", "e2b_ffff"]) {
        for (const [method, path] of [
          ["POST", "/sandboxes"],
          ["POST", "/v2/sandboxes"],
          ["GET", "/v2/sandboxes"],
          ["GET", "/templates/aliases/base"],
          ["DELETE", `/sandboxes/${UNKNOWN}`],
        ] as const) {
          const body = method === "POST" ? { templateID: "base" } : undefined;
          expectError(await ask(method, path, body, key), 401, `${method} ${path} with ${key}`);
        }
      }
      assert.equal(await claims(), before);
      assert.equal((await ask("GET", "/health", undefined, null)).status, 204);
    },
  ],
  [
    "SBE-02",
    "a sandbox of another namespace is 404 for every verb, and lives on",
    async ({ ask, make, get, kill }) => {
      const made = await make();
      const path = `/sandboxes/${made.sandboxID}`;
      for (const [method, under, body] of [
        ["GET", path, undefined],
        ["DELETE", path, undefined],
        ["POST", `${path}/timeout`, { timeout: 5 }],
        ["POST", `${path}/refreshes`, {}],
        ["POST", `${path}/pause`, {}],
        ["POST", `${path}/connect`, {}],
        ["POST", `/v2${path}/connect`, {}],
        ["POST", `${path}/resume`, {}],
        ["POST", `${path}/fork`, {}],
        ["POST", `${path}/snapshots`, {}],
        ["GET", `${path}/metrics`, undefined],
        ["GET", `${path}/logs`, undefined],
        ["GET", `/v2${path}/logs`, undefined],
        ["PUT", `${path}/network`, {}],
      ] as const) {
        expectError(await ask(method, under, body, RIG.keys.two), 404, `${method} ${under}`);
      }
      assert.equal((await get(made.sandboxID)).state, "running");
      await kill(made);
    },
  ],
  [
    "SBE-03",
    "options that cannot be honoured are 400 and named, before any claim; those that say nothing are 201",
    async ({ ask, claims, kill }) => {
      const before = await claims();
      for (const [name, options] of [
        ["secure", { secure: false }],
        ["network", { network: { denyOut: ["10.0.0.0/8"] } }],
        ["network", { network: { allowPublicTraffic: false } }],
        ["volumeMounts", { volumeMounts: [{ name: "a", path: "/a" }] }],
        ["autoPauseMemory", { autoPauseMemory: false }],
        ["mcp", { mcp: { exa: {} } }],
        ["iam", { iam: { tokens: {} } }],
        ["autoPause", { autoPause: true, allow_internet_access: true }],
      ] as const) {
        for (const path of ["/sandboxes", "/v2/sandboxes"]) {
          const reply = await ask("POST", path, { templateID: "base", ...options });
          assert.match(expectError(reply, 400, name), new RegExp(name), `${path} ${name}`);
        }
      }
      expectError(await ask("POST", "/v2/sandboxes", { templateID: "never-built" }), 404, "an unknown template");
      assert.equal(await claims(), before);
      const harmless = { secure: true, envVars: {}, autoPause: false, network: {}, iam: {}, mcp: {}, volumeMounts: [] };
      const reply = await ask("POST", "/v2/sandboxes", { templateID: "base", timeout: 60, ...harmless });
      assert.equal(reply.status, 201, reply.text);
      await kill(JSON.parse(reply.text) as Created);
    },
  ],
  [
    "SBE-04",
    "drained nodes are 503 with Retry-After and the template's name, and not once they are back",
    async ({ ask, front, make, mesh, kill }) => {
      for (const { admin } of mesh.nodes) {
        await admin.drain(true);
      }
      try {
        await delay(2 * front.facts.pollMs + 300);
        const reply = await ask("POST", "/v2/sandboxes", { templateID: "base", timeout: 60 });
        assert.match(expectError(reply, 503, "create"), /"base".*retry/);
        assert.match(String(reply.headers["retry-after"]), /^\d+$/);
      } finally {
        for (const { admin } of mesh.nodes) {
          await admin.drain(false);
        }
      }
      await kill(await waitFor("a create", () => make(), 30_000, 200));
    },
  ],
];

/** SBP: the data plane. */
const PLANES: readonly Check[] = [
  [
    "SBP-01",
    "by host and by headers one reaches the daemon; without a token it is 401",
    async ({ front, make, kill }) => {
      const made = await make();
      const token = { "x-access-token": made.envdAccessToken ?? "" };
      for (const address of [
        { host: `49983-${made.sandboxID}.${RIG.domain}` },
        { "e2b-sandbox-id": made.sandboxID, "e2b-sandbox-port": "49983" },
      ] as const) {
        const health = await callProxy(front.facts.proxyUrl, "GET", "/health", { ...address, ...token });
        assert.equal(health.status, 204, health.text);
        expectError(await callProxy(front.facts.proxyUrl, "GET", "/health", { ...address }), 401, "no token");
        const wrong = { ...address, "x-access-token": "wrong" };
        expectError(await callProxy(front.facts.proxyUrl, "GET", "/health", wrong), 401, "a wrong token");
      }
      await kill(made);
    },
  ],
  [
    "SBP-02",
    "health of a paused one is 502 and wakes nothing; a command wakes it",
    async ({ ask, front, get, make, kill }) => {
      const made = await make();
      assert.equal((await ask("POST", `/sandboxes/${made.sandboxID}/pause`)).status, 204);
      const headers = {
        "e2b-sandbox-id": made.sandboxID,
        "e2b-sandbox-port": "49983",
        "x-access-token": made.envdAccessToken ?? "",
      };
      expectError(await callProxy(front.facts.proxyUrl, "GET", "/health", headers), 502, "health");
      assert.equal((await get(made.sandboxID)).state, "paused");
      assert.equal(await runInGuest(front.facts, made, "echo up"), "up\n");
      assert.equal((await get(made.sandboxID)).state, "running");
      await kill(made);
    },
  ],
  [
    "SBP-03",
    "a killed one, an unknown one and a closed port are 502; no address is 400",
    async ({ front, make, kill }) => {
      const made = await make();
      const at = (id: string, port: string): Record<string, string> => ({
        "e2b-sandbox-id": id,
        "e2b-sandbox-port": port,
        "x-access-token": made.envdAccessToken ?? "",
      });
      const { proxyUrl } = front.facts;
      expectError(await callProxy(proxyUrl, "GET", "/", at(made.sandboxID, "3998")), 502, "a closed port");
      expectError(await callProxy(proxyUrl, "GET", "/health", at(UNKNOWN, "49983")), 502, "an unknown one");
      expectError(await callProxy(proxyUrl, "GET", "/health", {}), 400, "no address");
      await kill(made);
      expectError(await callProxy(proxyUrl, "GET", "/health", at(made.sandboxID, "49983")), 502, "a killed one");
    },
  ],
];

/** PA-mesh: what was added to the front over a mesh. */
const ADDED: readonly Check[] = [
  [
    "PA-mesh-01",
    "resume: 201 with a token, again 409, unknown 404",
    async ({ ask, make, kill }) => {
      const made = await make();
      assert.equal((await ask("POST", `/sandboxes/${made.sandboxID}/pause`)).status, 204);
      const resumed = await ask("POST", `/sandboxes/${made.sandboxID}/resume`, { timeout: 60 });
      assert.equal(resumed.status, 201, resumed.text);
      assert.equal((JSON.parse(resumed.text) as Created).envdAccessToken, made.envdAccessToken);
      expectError(await ask("POST", `/sandboxes/${made.sandboxID}/resume`, { timeout: 60 }), 409, "again");
      expectError(await ask("POST", `/sandboxes/${UNKNOWN}/resume`, { timeout: 60 }), 404, "unknown");
      await kill(made);
    },
  ],
  [
    "PA-mesh-02",
    "logs: both routes have their members; unknown 404",
    async ({ ask, make, kill }) => {
      const made = await make();
      const path = `/sandboxes/${made.sandboxID}/logs`;
      assert.deepEqual(JSON.parse((await ask("GET", path)).text), { logs: [], logEntries: [] });
      assert.deepEqual(JSON.parse((await ask("GET", `/v2${path}`)).text), { logs: [] });
      for (const unknown of [`/sandboxes/${UNKNOWN}/logs`, `/v2/sandboxes/${UNKNOWN}/logs`]) {
        expectError(await ask("GET", unknown), 404, unknown);
      }
      await kill(made);
    },
  ],
  [
    "PA-mesh-03",
    "page parameters: the header is there only when more follow",
    async (own) => {
      const made = [await own.make(), await own.make(), await own.make()];
      assert.equal((await own.list("?limit=3")).next, undefined, "exactly as many");
      assert.notEqual((await own.list("?limit=2")).next, undefined, "one more");
      assert.deepEqual(
        (await pages(own, "limit=2")).map((page) => page.length),
        [2, 1],
      );
      for (const query of ["limit=0", "limit=101", "order=sideways", "nextToken=%00"]) {
        expectError(await own.ask("GET", `/v2/sandboxes?${query}`), 400, query);
      }
      await own.kill(...made);
    },
  ],
  [
    "PA-mesh-04",
    "aliases: create by alias reports it, look-ups answer 200 and 404, the list is sorted",
    async ({ ask, make, get, kill }) => {
      const made = await make({ templateID: "code-interpreter-v1" });
      assert.deepEqual([made.templateID, made.alias], [IMAGE, "base"]);
      assert.equal((await get(made.sandboxID)).alias, "base");
      assert.equal((await ask("GET", "/templates/aliases/base")).status, 200);
      expectError(await ask("GET", "/templates/aliases/nobody"), 404, "unknown");
      const templates = JSON.parse((await ask("GET", "/templates")).text) as { aliases: string[] }[];
      for (const { aliases } of templates) {
        assert.deepEqual(aliases, aliases.toSorted());
      }
      await kill(made);
    },
  ],
];

/** What the rows need of nodes: two of them, with guests of two sizes. */
export const LANE_NODES: Omit<GuestMeshOptions, "isolation"> = { nodes: 2, warm: 6, medium: 1 };

/**
 * The matrix of the control-plane contract verb by verb, without a client, over two nodes.
 * @param held nodes and fronts. @default a mesh
 */
export function laneRows(
  context: ControlContext,
  held: {
    readonly mesh: () => Promise<LaneMesh>;
    readonly close: () => Promise<void>;
  } = laneMesh(context, "lanes", LANE_NODES),
): HeldRows {
  let own: Promise<Bench> | undefined;
  const ready = (): Promise<Bench> =>
    (own ??= (async () => {
      const mesh = await held.mesh();
      return bench(mesh, await mesh.front());
    })());
  const rows = [...VERBS, ...LIVES, ...ERRORS, ...PLANES, ...ADDED].map(([id, title, run]): HarnessRow => ({
    id,
    title,
    run: async () => {
      const ours = await ready();
      await restock(ours.mesh, ours.front.facts.pollMs);
      await run(ours);
    },
  }));
  return { rows, close: held.close };
}
