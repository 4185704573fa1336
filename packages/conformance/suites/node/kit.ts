import assert from "node:assert/strict";

import type { HarnessRow } from "../../src/harness-rows.ts";
import { type ClaimCounts, claimCounts, type PoolKey } from "../../src/node-admin.ts";
import { type Bench, type InfoPool, type NodeRow, sameKey } from "../../src/node-bench.ts";
import { expectStatus, type NodeClient, type NodeReply } from "../../src/node-client.ts";
import { type NodeTarget, mayChangePools } from "../../src/node-target.ts";
import { waitFor } from "../../src/polling.ts";

/** What the rows of node API §13.3 work with. */
export interface Ground {
  readonly bench: Bench;
  readonly target: NodeTarget;
}

/** Rows that share what the first of them sets up. It is undone before the next group. */
export type RowGroup = readonly HarnessRow[];

/** A warm guest on a real node may have to be booted first. */
export const WARM_MS = 150_000;
/** Members tell each other of warm guests and templates once a second. */
const GOSSIP_MS = 15_000;

/** Runs the set-up of a group once, when the first row asks for it. */
export function once<T>(run: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => (made ??= run());
}

/** The counters of claims at a node. */
export async function claimsOf(bench: Bench, node: NodeClient): Promise<ClaimCounts> {
  const reply = await bench.call(node, "GET", "/metrics");
  expectStatus(reply, 200, "metrics");
  return claimCounts(reply.text);
}

/** The pool of a key, or undefined. */
export async function poolOf(bench: Bench, node: NodeClient, key: PoolKey): Promise<InfoPool | undefined> {
  return ((await bench.info(node)).pools ?? []).find((pool) => sameKey(pool.key, key));
}

/** Waits until a node keeps this many guests of a key ready. */
async function warmed(bench: Bench, node: NodeClient, key: PoolKey, count = 1): Promise<void> {
  await waitFor(
    `${count} warm guests of ${key.template} at ${node.address}`,
    async () => ((await poolOf(bench, node, key))?.warm ?? 0) >= count,
    WARM_MS,
    100,
  );
}

/** Makes sure that the node keeps guests of the default key of the template, and waits for one. */
export async function warmDefault({ bench, target }: Ground, node: NodeClient = target.node): Promise<PoolKey> {
  const key = { template: target.template, net: "none", size: "small" };
  if (((await poolOf(bench, node, key))?.target ?? 0) === 0) {
    mayChangePools(target);
    await bench.addPool(node, { ...key, warm: 1 });
  }
  await warmed(bench, node, key);
  return key;
}

/** Adds a pool of a key at a node and waits until it is warm. */
export async function warmPool({ bench, target }: Ground, node: NodeClient, key: PoolKey): Promise<void> {
  mayChangePools(target);
  await bench.addPool(node, { ...key, warm: 1 });
  await warmed(bench, node, key);
}

/** Repeats a call until its answer is a redirect: members learn of each other's stock by and by. */
export async function redirected(
  what: string,
  ask: () => Promise<NodeReply>,
): Promise<{ redirect: string[]; body: Record<string, unknown> }> {
  let last = "";
  const body = await waitFor(
    `a redirect of ${what}`,
    async () => {
      const reply = await ask();
      last = `${reply.status} ${reply.text.slice(0, 200)}`;
      return reply.status === 200 && Array.isArray(reply.json()["redirect"]) && reply.json();
    },
    GOSSIP_MS,
    400,
  ).catch((cause: unknown) => {
    throw new Error(`${cause instanceof Error ? cause.message : String(cause)}; the last answer was ${last}`, {
      cause,
    });
  });
  assert.ok(!("id" in body) || body["id"] === "", `a redirect delivers nothing: ${JSON.stringify(body)}`);
  return { redirect: body["redirect"] as string[], body };
}

/** Repeats a call until no peer is believed to be warm any more, and answers what came then. */
export async function notRedirected(ask: () => Promise<NodeReply>): Promise<NodeReply> {
  return await waitFor(
    "an answer that is no redirect",
    async () => {
      const reply = await ask();
      return (reply.status !== 200 || !Array.isArray(reply.json()["redirect"])) && reply;
    },
    GOSSIP_MS,
    400,
  );
}

/** Seconds from a node's answer to a time that it names, by the node's own clock. */
function secondsUntil(reply: NodeReply, time: unknown): number {
  const sent = typeof reply.headers["date"] === "string" ? Date.parse(reply.headers["date"]) : Date.now();
  return (Date.parse(String(time)) - sent) / 1000;
}

/** Expects a lease of so many seconds in an answer that took `elapsedMs`. */
export function expectLease(reply: NodeReply, deadline: unknown, seconds: number, elapsedMs: number): void {
  const lease = secondsUntil(reply, deadline);
  assert.ok(
    lease >= seconds - elapsedMs / 1000 - 3 && lease <= seconds + 3,
    `a lease of ${seconds} s was wanted, ${lease.toFixed(1)} s were granted (${String(deadline)})`,
  );
}

/** Runs a call and tells how long it took. */
export async function timed(run: () => Promise<NodeReply>): Promise<{ reply: NodeReply; elapsedMs: number }> {
  const begun = performance.now();
  const reply = await run();
  return { reply, elapsedMs: performance.now() - begun };
}

/** The index of a node. */
export async function indexOf(
  bench: Bench,
  node: NodeClient,
  query = "",
  bearer?: string,
): Promise<{ rows: readonly NodeRow[]; text: string }> {
  const reply = await bench.call(node, "GET", `/v1/sandboxes${query}`, bearer === undefined ? {} : { bearer });
  expectStatus(reply, 200, `index${query}`);
  return { rows: (reply.json()["sandboxes"] as readonly NodeRow[] | null) ?? [], text: reply.text };
}

/** A row's cell in words: the reply must be an empty 204. */
export function expectDone(reply: NodeReply, what: string): void {
  expectStatus(reply, 204, what);
  assert.equal(reply.text, "", `${what}: a 204 has no body`);
}
