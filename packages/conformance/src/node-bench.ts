import { randomBytes } from "node:crypto";

import type { PoolKey } from "./node-admin.ts";
import { expectJson, type NodeCall, type NodeClient, type NodeMethod, type NodeReply } from "./node-client.ts";

/** A sandbox that a claim, a fork or a checkpoint delivered. */
export interface Claimed {
  readonly id: string;
  readonly token: string;
  readonly deadline: string;
  readonly owner_addr?: string;
  readonly net_route?: string;
  readonly template_digest?: string;
  readonly from_checkpoint?: string;
}

/** One row of a node's index. */
export interface NodeRow {
  readonly id: string;
  readonly key: PoolKey;
  readonly deadline: string;
  readonly hibernated: boolean;
  readonly archived?: boolean;
  readonly token?: string;
  readonly tenant?: string;
  readonly claim_ref?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly from_checkpoint?: string;
  readonly on_expire?: string;
}

/** One pool of `/v1/info`. */
export interface InfoPool {
  readonly key: PoolKey;
  readonly warm: number;
  readonly refilling: number;
  readonly target: number;
  readonly golden: boolean;
}

/** `/v1/info`, as far as the rows read it. */
export interface NodeInfoReply {
  readonly pools: readonly InfoPool[] | null;
  readonly templates?:
    | readonly { readonly key: PoolKey; readonly content_digest: string; readonly labels?: object }[]
    | null;
  readonly claimed: number;
  readonly draining?: boolean;
  readonly advertise_addr?: string;
  readonly peers?: readonly string[] | null;
}

/** Longest life of a sandbox that a row makes, should the run end without cleaning up. */
const LEASE_SECONDS = 180;

/** Calls of nodes under test, with a memory of everything that must be undone. */
export interface Bench {
  /** In every `claim_ref` and template name of this run. */
  readonly label: string;
  call(node: NodeClient, method: NodeMethod, path: string, choices?: NodeCall): Promise<NodeReply>;
  /** Claims with a lease of {@link LEASE_SECONDS}, on this node alone. Throws unless it delivers. */
  claim(node: NodeClient, body: object, choices?: Pick<NodeCall, "bearer">): Promise<Claimed>;
  row(node: NodeClient, id: string): Promise<NodeRow>;
  info(node: NodeClient): Promise<NodeInfoReply>;
  /** Adds a pool to those that the node has. */
  addPool(node: NodeClient, pool: PoolKey & { readonly warm: number }): Promise<void>;
  /** A name that no other template has. */
  templateName(): string;
  /** Lifts drains, restores pools and removes what was made since the last time. */
  cleanUp(): Promise<void>;
  /** No further call is made; what is under way is waited for and everything is undone. */
  abandon(): Promise<void>;
  /** What could not be undone. */
  readonly leftovers: readonly string[];
}

/** What was made at one node. */
interface Traces {
  readonly node: NodeClient;
  readonly claims: Map<string, string>;
  readonly checkpoints: Set<string>;
  readonly templates: Map<string, PoolKey>;
  drained: boolean;
  /** As they were before the first change. */
  pools: readonly InfoPool[] | undefined;
}

/** Starts with nothing to undo. */
export function createBench(): Bench {
  const label = `conformance-${randomBytes(4).toString("hex")}`;
  const traces = new Map<NodeClient, Traces>();
  const running = new Set<Promise<unknown>>();
  const leftovers: string[] = [];
  let abandoned = false;
  let names = 0;

  const tracesOf = (node: NodeClient): Traces => {
    let found = traces.get(node);
    if (found === undefined) {
      found = {
        node,
        claims: new Map(),
        checkpoints: new Set(),
        templates: new Map(),
        drained: false,
        pools: undefined,
      };
      traces.set(node, found);
    }
    return found;
  };

  const infoOf = async (node: NodeClient): Promise<NodeInfoReply> =>
    expectJson(await node.call("GET", "/v1/info"), 200, "info") as unknown as NodeInfoReply;

  const send: Bench["call"] = async (node, method, path, choices) => {
    const trace = tracesOf(node);
    if (method === "PUT" && path === "/v1/pools") {
      trace.pools ??= (await infoOf(node)).pools ?? [];
    }
    if (method === "POST" && path === "/v1/drain") {
      trace.drained = true;
    }
    const reply = await node.call(method, path, choices);
    note(trace, method, path, reply);
    return reply;
  };

  const undo = async (trace: Traces): Promise<void> => {
    const { node } = trace;
    const attempt = async (what: string, run: () => Promise<NodeReply>, fine: readonly number[]): Promise<void> => {
      try {
        const { status, text } = await run();
        if (!fine.includes(status)) {
          leftovers.push(`${what} at ${node.address}: answered ${status} ${text.slice(0, 200)}`);
        }
      } catch (error) {
        leftovers.push(`${what} at ${node.address}: ${error instanceof Error ? error.message : String(error)}`);
      }
    };
    if (trace.drained) {
      trace.drained = false;
      await attempt("lifting the drain", () => node.call("DELETE", "/v1/drain"), [200]);
    }
    const { pools } = trace;
    if (pools !== undefined) {
      trace.pools = undefined;
      const body = { pools: pools.map((pool) => ({ ...pool.key, warm: pool.target })) };
      await attempt("restoring the pools", () => node.call("PUT", "/v1/pools", { body }), [200]);
    }
    const claims = [...trace.claims];
    trace.claims.clear();
    await Promise.all(
      claims.map(([id, token]) =>
        attempt(
          `releasing ${id}`,
          () => node.call("POST", `/v1/sandboxes/${id}/release`, { bearer: token }),
          [204, 404],
        ),
      ),
    );
    for (const id of trace.checkpoints) {
      await attempt(`deleting ${id}`, () => node.call("DELETE", `/v1/checkpoints/${id}`), [204, 404]);
    }
    trace.checkpoints.clear();
    for (const key of trace.templates.values()) {
      const query = new URLSearchParams({ ...key, no_redirect: "1" }).toString();
      await attempt(`deleting ${key.template}`, () => node.call("DELETE", `/v1/templates?${query}`), [204, 404]);
    }
    trace.templates.clear();
  };

  const cleanUp = async (): Promise<void> => {
    for (const trace of traces.values()) {
      await undo(trace);
    }
  };

  const call: Bench["call"] = (node, method, path, choices) => {
    if (abandoned) {
      return Promise.reject(new Error("the run was interrupted"));
    }
    const run = send(node, method, path, choices).finally(() => running.delete(run));
    running.add(run);
    return run;
  };

  const bench: Bench = {
    label,
    leftovers,
    call,
    claim: async (node, body, choices = {}) => {
      const full = { ttl_seconds: LEASE_SECONDS, claim_ref: label, no_redirect: true, ...body };
      const reply = expectJson(await call(node, "POST", "/v1/claim", { ...choices, body: full }), 200, "claim");
      if (typeof reply["id"] !== "string") {
        throw new Error(`the claim was not delivered: ${JSON.stringify(reply)}`);
      }
      return reply as unknown as Claimed;
    },
    row: async (node, id) =>
      expectJson(await call(node, "GET", `/v1/sandboxes/${id}`), 200, `row of ${id}`) as unknown as NodeRow,
    info: async (node) => expectJson(await call(node, "GET", "/v1/info"), 200, "info") as unknown as NodeInfoReply,
    addPool: async (node, pool) => {
      const { pools } = await bench.info(node);
      const others = (pools ?? []).filter(({ key }) => !sameKey(key, pool));
      const body = { pools: [...others.map(({ key, target }) => ({ ...key, warm: target })), pool] };
      expectJson(await call(node, "PUT", "/v1/pools", { body }), 200, "set pools");
    },
    templateName: () => `${label}-${(names += 1)}`,
    cleanUp,
    abandon: async () => {
      abandoned = true;
      await Promise.allSettled(running);
      await cleanUp();
    },
  };
  return bench;
}

/** Whether two keys name one pool. */
export function sameKey(a: PoolKey, b: PoolKey): boolean {
  return a.template === b.template && a.net === b.net && a.size === b.size;
}

/** Remembers what an answer says was made or removed. */
function note(trace: Traces, method: NodeMethod, path: string, reply: NodeReply): void {
  const release = /^\/v1\/sandboxes\/([^/]+)\/release$/.exec(path)?.[1];
  if (method === "POST" && release !== undefined && reply.status === 204) {
    trace.claims.delete(release);
  }
  if (method === "DELETE" && path === "/v1/drain" && reply.status === 200) {
    trace.drained = false;
  }
  if (method !== "POST" || reply.status !== 200) {
    return;
  }
  let body: MadeReply;
  try {
    body = JSON.parse(reply.text) as MadeReply;
  } catch {
    return;
  }
  for (const made of [body, ...(body.children ?? [])]) {
    if (made.id !== undefined && made.token !== undefined) {
      trace.claims.set(made.id, made.token);
    }
  }
  if (body.checkpoint?.id !== undefined) {
    trace.checkpoints.add(body.checkpoint.id);
  }
  if (path.endsWith("/promote") && body.key !== undefined) {
    trace.templates.set(JSON.stringify(body.key), body.key);
  }
}

/** The parts of replies that name something new. */
interface MadeReply {
  readonly id?: string;
  readonly token?: string;
  readonly children?: readonly { readonly id?: string; readonly token?: string }[];
  readonly checkpoint?: { readonly id?: string };
  readonly key?: PoolKey;
}
