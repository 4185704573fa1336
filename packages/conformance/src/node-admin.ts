import { request } from "undici";

/** What a node tells about itself, as far as the suites read it. */
export interface NodeInfo {
  readonly advertise_addr: string;
  readonly pools: readonly NodePool[];
  readonly draining?: boolean;
  /** Templates that were made on it. */
  readonly templates?: readonly { readonly key: PoolKey }[];
}

/** What a node keeps warm guests for. */
export interface PoolKey {
  readonly template: string;
  readonly net: string;
  readonly size: string;
}

/** One warm pool of a node. */
export interface NodePool {
  readonly key: PoolKey;
  readonly warm: number;
  readonly target: number;
}

/** One sandbox as a node reports it. */
export interface NodeSandbox {
  readonly id: string;
  readonly key: PoolKey;
  readonly claim_ref?: string;
  readonly hibernated?: boolean;
  readonly on_expire?: string;
  /** When its lease ends, in RFC 3339. */
  readonly deadline?: string;
  /** A secret. */
  readonly token?: string;
}

/** Counters of `sandboxd_claims_total`. */
export interface ClaimCounts {
  readonly warm: number;
  readonly clone: number;
  readonly cold: number;
}

/** Operator access to one node, used to look behind the product and to arrange a rig. */
export interface NodeAdmin {
  readonly address: string;
  info(): Promise<NodeInfo>;
  sandboxes(): Promise<readonly NodeSandbox[]>;
  claims(): Promise<ClaimCounts>;
  /** How many paused sandboxes it has woken since it started. */
  wakes(): Promise<number>;
  sandbox(id: string): Promise<NodeSandbox>;
  setPools(pools: readonly (PoolKey & { readonly warm: number })[]): Promise<void>;
  drain(on: boolean): Promise<void>;
  /** Makes requests fail, on nodes with `--allow-faults`. None: well again. */
  faults(faults: readonly object[]): Promise<void>;
  /** Makes what a sandbox holds the template of this name. */
  promote(id: string, template: string): Promise<void>;
}

/** Opens operator access to the node at `host:port` with its root token. */
export function nodeAdmin(address: string, token: string): NodeAdmin {
  const call = async (method: "GET" | "PUT" | "POST" | "DELETE", path: string, body?: unknown): Promise<string> => {
    const response = await request(`http://${address}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.body.text();
    if (response.statusCode >= 300) {
      throw new Error(`node ${address}: ${method} ${path} answered ${response.statusCode} ${text.slice(0, 200)}`);
    }
    return text;
  };
  return {
    address,
    info: async () => JSON.parse(await call("GET", "/v1/info")) as NodeInfo,
    sandboxes: async () => {
      const reply = JSON.parse(await call("GET", "/v1/sandboxes")) as { sandboxes?: readonly NodeSandbox[] };
      return reply.sandboxes ?? [];
    },
    sandbox: async (id) => JSON.parse(await call("GET", `/v1/sandboxes/${id}`)) as NodeSandbox,
    claims: async () => claimCounts(await call("GET", "/metrics")),
    wakes: async () => Number(/^sandboxd_wakes_total (\d+)/m.exec(await call("GET", "/metrics"))?.[1] ?? 0),
    setPools: async (pools) => void (await call("PUT", "/v1/pools", { pools })),
    promote: async (id, template) => void (await call("POST", `/v1/sandboxes/${id}/promote`, { template })),
    faults: async (faults) => void (await call("PUT", "/debug/faults", { faults })),
    drain: async (on) => void (await call(on ? "POST" : "DELETE", "/v1/drain")),
  };
}

/** Reads `sandboxd_claims_total` out of a node's metrics text. A tier that is not printed counts as 0. */
export function claimCounts(metrics: string): ClaimCounts {
  const of = (tier: string): number => {
    const match = metrics.match(new RegExp(`^sandboxd_claims_total\\{tier="${tier}"\\} (\\d+)`, "m"));
    return Number(match?.[1] ?? 0);
  };
  return { warm: of("warm"), clone: of("clone"), cold: of("cold") };
}

/** The sum over all tiers. */
export function totalClaims(counts: ClaimCounts): number {
  return counts.warm + counts.clone + counts.cold;
}
