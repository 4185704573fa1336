import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { isApiError, type Row, type RowContext, type SandboxHandle } from "./context.ts";

const METADATA = { "a b/+": "c/d&e=f+g ü", plain: "1" };

let five: SandboxHandle[] | undefined;

/** Five sandboxes in a namespace of their own, oldest first. */
const fiveSandboxes = async (context: RowContext): Promise<SandboxHandle[]> => {
  if (five === undefined) {
    const left = await context.sdk.Sandbox.list(paged(context)).nextItems();
    await Promise.all(left.map((item) => context.sdk.Sandbox.kill(item.sandboxId, paged(context))));
    const made: SandboxHandle[] = [];
    for (let index = 0; index < 5; index += 1) {
      await delay(context.rig.apartMs ?? 0);
      made.push(await context.create({ ...paged(context), metadata: { ...METADATA, index: String(index) } }));
    }
    await context.poll();
    five = made;
  }
  return five;
};

const paged = (context: RowContext): ReturnType<RowContext["options"]> => context.options(context.rig.keys.three);

const allPages = async (
  context: RowContext,
  choices: { limit: number; order?: "asc" | "desc" },
  between?: () => Promise<void>,
): Promise<{ sizes: number[]; more: boolean[]; ids: string[] }> => {
  const paginator = context.sdk.Sandbox.list({ ...paged(context), ...choices });
  const sizes: number[] = [];
  const more: boolean[] = [];
  const ids: string[] = [];
  while (paginator.hasNext && sizes.length < 20) {
    const items = await paginator.nextItems();
    sizes.push(items.length);
    more.push(paginator.hasNext);
    ids.push(...items.map((item) => item.sandboxId));
    if (sizes.length === 1) {
      await between?.();
    }
  }
  return { sizes, more, ids };
};

const idsOf = async (context: RowContext, query: object): Promise<string[]> => {
  const items = await context.sdk.Sandbox.list({ ...paged(context), query }).nextItems();
  return items.map((item) => item.sandboxId);
};

/** §14.2 of the control-plane contract. */
export const pagingRows: Readonly<Record<string, Row>> = {
  P1: async (context) => {
    const newestFirst = (await fiveSandboxes(context)).map((sandbox) => sandbox.sandboxId).toReversed();
    const pages = await allPages(context, { limit: 2 });
    assert.deepEqual(pages.sizes, [2, 2, 1]);
    assert.deepEqual(pages.more, [true, true, false]);
    assert.deepEqual(pages.ids, newestFirst);
  },

  P2: async (context) => {
    const oldestFirst = (await fiveSandboxes(context)).map((sandbox) => sandbox.sandboxId);
    assert.deepEqual((await allPages(context, { limit: 2, order: "asc" })).ids, oldestFirst);
  },

  P3: async (context) => {
    const [first, , third, ...others] = (await fiveSandboxes(context)).map((sandbox) => sandbox.sandboxId).toReversed();
    await delay(context.rig.apartMs ?? 0);
    const extra = await context.create({ ...paged(context), metadata: { ...METADATA, index: "extra" } });
    const pages = await allPages(context, { limit: 2 }, async () => void (await extra.kill()));
    // The extra one is the newest, so the first page holds it and the newest of the five.
    assert.equal(pages.ids[1], first);
    assert.equal(new Set(pages.ids).size, pages.ids.length, "no repeats");
    for (const id of [third, ...others]) {
      assert.ok(pages.ids.includes(id ?? ""), `${id} was skipped`);
    }
  },

  P4: async (context) => {
    for (const query of [
      "limit=0",
      "limit=101",
      "limit=many",
      "limit=1.5",
      "order=sideways",
      "nextToken=not-a-token",
    ]) {
      isApiError(await context.raw("GET", `/v2/sandboxes?${query}`, { key: context.rig.keys.three }), 400);
    }
  },

  P5: async (context) => {
    const made = await fiveSandboxes(context);
    const reply = await context.raw("GET", "/sandboxes?limit=1", { key: context.rig.keys.three });
    assert.equal(reply.status, 200);
    assert.equal(reply.headers["x-next-token"], undefined);
    const ids = (reply.body as { sandboxID: string }[]).map((item) => item.sandboxID);
    assert.deepEqual(ids.toSorted(), made.map((sandbox) => sandbox.sandboxId).toSorted());
  },

  P6: async (context) => {
    const made = await fiveSandboxes(context);
    const paused = made[0];
    assert.equal(await paused?.pause(), true);
    assert.deepEqual(await idsOf(context, { state: ["paused"] }), [paused?.sandboxId]);
    assert.equal((await idsOf(context, { state: ["running"] })).length, 4);
    assert.equal((await idsOf(context, { state: ["running", "paused"] })).length, 5);
    const key = context.rig.keys.three;
    const repeated = await context.raw("GET", "/v2/sandboxes?state=running&state=paused", { key });
    assert.equal((repeated.body as unknown[]).length, 5);
    isApiError(await context.raw("GET", "/v2/sandboxes?state=sleeping", { key }), 400);
    await context.poll();
    assert.deepEqual(await idsOf(context, { state: ["paused"] }), [paused?.sandboxId], "after a poll");
    await paused?.connect();
  },

  P7: async (context) => {
    const made = await fiveSandboxes(context);
    assert.equal((await idsOf(context, { metadata: METADATA })).length, 5);
    assert.deepEqual(await idsOf(context, { metadata: { ...METADATA, index: "3" } }), [made[3]?.sandboxId]);
    assert.deepEqual(await idsOf(context, { metadata: { "a b/+": "c/d&e=f" } }), []);
    const key = context.rig.keys.three;
    isApiError(await context.raw("GET", "/v2/sandboxes?metadata=owner", { key }), 400);
    isApiError(await context.raw("GET", `/v2/sandboxes?metadata=${encodeURIComponent("a=1&a=2")}`, { key }), 400);
    const info = await made[3]?.getInfo();
    assert.deepEqual(info?.metadata, { ...METADATA, index: "3" });
  },

  P8: async (context) => {
    const made = await fiveSandboxes(context);
    const oldest = (await made[0]?.getInfo())?.startedAt ?? new Date();
    // Compared at whole seconds: the fraction of the same second includes it.
    const sameSecond = new Date(Math.floor(oldest.getTime() / 1_000) * 1_000 + 900);
    assert.ok((await idsOf(context, { startedAfter: sameSecond })).includes(made[0]?.sandboxId ?? ""), "same second");
    assert.deepEqual(await idsOf(context, { startedAfter: new Date("2999-01-01T00:00:00Z") }), []);
    const key = context.rig.keys.three;
    isApiError(await context.raw("GET", "/v2/sandboxes?startedAfter=yesterday", { key }), 400);
  },
};
