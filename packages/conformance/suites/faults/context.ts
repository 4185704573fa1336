import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { callApi, expectError, type Method, type Reply } from "../../src/api.ts";
import { type FaultRig, onFaultRig } from "../../src/fault-rig.ts";
import type { Front } from "../../src/front.ts";
import type { HarnessRow } from "../../src/harness-rows.ts";
import type { ProcessSet } from "../../src/processes.ts";
import type { Programs } from "../../src/programs.ts";
import type { Fault } from "../../src/scripted-node-script.ts";

/** A row of the suite. */
export interface FaultRow extends HarnessRow {
  /** Part of the quick run. */
  readonly quick: boolean;
}

/** What makes rows. */
export interface FaultContext {
  readonly set: ProcessSet;
  readonly programs: Programs;
  readonly isolation: string | undefined;
}

/** Makes a row that runs on a rig of its own and is judged by what every fault must leave whole. */
export function rigRow(
  { set, programs }: FaultContext,
  id: string,
  title: string,
  row: (rig: FaultRig) => Promise<void>,
  quick = false,
): FaultRow {
  return { id, title, quick, run: () => onFaultRig(set, programs, row) };
}

/** How the SDK is told of a front. */
export function sdkOptions(front: Front): {
  apiKey: string;
  apiUrl: string;
  domain: string;
  sandboxUrl: string;
} {
  const { keys, apiUrl, domain, proxyUrl } = front.facts;
  return { apiKey: keys.one, apiUrl, domain, sandboxUrl: proxyUrl };
}

/** A claim that is carried out and whose reply is another one, or none. */
export function afterClaim(act: Fault["act"], times?: number): Fault {
  return { route: "claim", when: "after", act, ...(times === undefined ? {} : { times }) };
}

/** A request that comes to something before the node has looked at it. */
export function before(route: Fault["route"], act: Fault["act"], times?: number): Fault {
  return { route, when: "before", act, ...(times === undefined ? {} : { times }) };
}

/** A plain refusal of a node. */
export function answers(status: number, error: string): Fault["act"] {
  return { kind: "reply", status, body: JSON.stringify({ error }) };
}

/** Ids of the sandboxes that a front lists for namespace `ns1`. */
export async function listed(front: Front): Promise<string[]> {
  const reply = await callApi(front.facts, "GET", "/v2/sandboxes?limit=100");
  assert.equal(reply.status, 200, `list answered ${reply.status} ${reply.text.slice(0, 200)}`);
  return (JSON.parse(reply.text) as { sandboxID: string }[]).map((item) => item.sandboxID).toSorted();
}

/** One verb on a sandbox, as clients send it. */
export interface Verb {
  readonly name: string;
  readonly method: Method;
  readonly path: (id: string) => string;
  readonly body?: object;
  /** What it answers for a running sandbox. */
  readonly good: number;
}

/** Verbs that any client uses on a running sandbox; the last one ends it. */
export const VERBS: readonly Verb[] = [
  { name: "get", method: "GET", path: (id) => `/sandboxes/${id}`, good: 200 },
  { name: "connect", method: "POST", path: (id) => `/v2/sandboxes/${id}/connect`, body: { timeout: 60 }, good: 200 },
  { name: "timeout", method: "POST", path: (id) => `/sandboxes/${id}/timeout`, body: { timeout: 60 }, good: 204 },
  { name: "refresh", method: "POST", path: (id) => `/sandboxes/${id}/refreshes`, body: { duration: 60 }, good: 204 },
  { name: "pause", method: "POST", path: (id) => `/sandboxes/${id}/pause`, body: {}, good: 204 },
  { name: "resume", method: "POST", path: (id) => `/sandboxes/${id}/resume`, body: { timeout: 60 }, good: 201 },
  { name: "kill", method: "DELETE", path: (id) => `/sandboxes/${id}`, good: 204 },
];

/** Sends a verb. */
export function send(front: Front, { method, path, body }: Verb, id: string): Promise<Reply> {
  return callApi(front.facts, method, path(id), body === undefined ? {} : { body });
}

/** The verb of this name. */
export function verb(name: string): Verb {
  const found = VERBS.find((one) => one.name === name);
  assert.ok(found !== undefined, name);
  return found;
}

/** Expects an error with one of these statuses and nothing in it that only the node may know. */
export function expectFailure(reply: Reply, statuses: readonly number[], what: string): string {
  assert.ok(statuses.includes(reply.status), `${what}: answered ${reply.status} ${reply.text.slice(0, 200)}`);
  return expectError(reply, reply.status, what);
}

/**
 * What an answer may take when nothing is waited for, in milliseconds. Waiting for a node takes ten seconds, and the
 * machine that runs this is busy with other lanes.
 */
export const PROMPT_MS = 8_000;

/** What giving a silent node up may take: its ten seconds, and what a busy machine adds. */
export const BOUND_MS = 17_000;

/** Runs an operation so often, one after the other, and answers the median of its times in milliseconds. */
export async function medianMs(times: number, operation: () => Promise<unknown>): Promise<number> {
  const taken: number[] = [];
  for (let index = 0; index < times; index += 1) {
    const begun = performance.now();
    await operation();
    taken.push(performance.now() - begun);
    await delay(5);
  }
  return taken.toSorted((a, b) => a - b)[times >> 1] ?? 0;
}

/** How long something took, in milliseconds, with what came of it. */
export async function timed<T>(operation: () => Promise<T>): Promise<{ value: T; ms: number }> {
  const begun = performance.now();
  const value = await operation();
  return { value, ms: performance.now() - begun };
}
