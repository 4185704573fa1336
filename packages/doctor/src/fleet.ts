import { createSandboxdClient, type NodePool, SandboxdError } from "@org/sandboxd-client";
import type { InfoReply } from "@org/sandboxd-client/wire";
import { request } from "undici";

/** What a node answered, asked at one address. */
export interface NodeAnswer {
  /** As it was dialed. */
  readonly address: string;
  readonly seed: boolean;
  readonly info?: InfoReply | undefined;
  readonly error?: SandboxdError | undefined;
  /** How far the node's clock is ahead of ours, in milliseconds; whole seconds are all that it tells. */
  readonly clockAheadMs?: number | undefined;
}

/** How nodes are asked. */
export interface FleetQuestion {
  readonly seeds: readonly string[];
  readonly token: string;
  readonly pool: NodePool;
  readonly requestTimeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** Asks the seeds, and then every node that they or those name, once each. */
export async function askFleet(question: FleetQuestion): Promise<readonly NodeAnswer[]> {
  const answers = new Map<string, NodeAnswer>();
  let next = [...new Set(question.seeds)];
  for (let seed = true; next.length > 0; seed = false) {
    const round = await Promise.all(next.map((address) => askNode(address, seed, question)));
    for (const answer of round) answers.set(answer.address, answer);
    const own = new Set([...answers.values()].map(({ info }) => info?.advertise_addr));
    const named = round.flatMap(({ info }) => info?.peers ?? []);
    next = [...new Set(named)].filter((address) => !answers.has(address) && !own.has(address));
  }
  return [...answers.values()];
}

/** Asks one node who it is. */
export async function askNode(address: string, seed: boolean, question: FleetQuestion): Promise<NodeAnswer> {
  const { token, pool, requestTimeoutMs, signal } = question;
  try {
    const client = createSandboxdClient({ address, token, pool, requestTimeoutMs });
    const info = await client.info({ signal });
    return { address, seed, info, clockAheadMs: await clockAhead(address, question) };
  } catch (error) {
    if (error instanceof SandboxdError && error.code !== "aborted") return { address, seed, error };
    throw error;
  }
}

/** The node's `Date` against the middle of the exchange. `undefined` when it sends none. */
async function clockAhead(address: string, question: FleetQuestion): Promise<number | undefined> {
  const origin = address.includes("://") ? address : `http://${address}`;
  const { requestTimeoutMs, pool, signal = null } = question;
  const before = Date.now();
  try {
    const { headers, body } = await request(`${origin}/healthz`, {
      dispatcher: pool.dispatcher,
      headersTimeout: requestTimeoutMs,
      bodyTimeout: requestTimeoutMs,
      signal,
    });
    const after = Date.now();
    await body.dump();
    const { date } = headers;
    const told = typeof date === "string" ? Date.parse(date) : Number.NaN;
    // The header is cut to whole seconds: on the average half a second is missing.
    return Number.isNaN(told) ? undefined : told + 500 - (before + after) / 2;
  } catch {
    return undefined;
  }
}
