/** Network lane of a sandbox: `none` has no network interface, `egress` reaches out through the node. */
export type Net = "none" | "egress";

/** Size tier of a sandbox. Newer nodes know more tiers than the three an alias can name. */
export type Size = "small" | "medium" | "large" | "xlarge" | "2xlarge";

/** What a claim asks for. Empty or absent `net` and `size` mean `none` and `small` when keys are compared. */
export interface PoolKey {
  readonly template: string;
  readonly net?: string | undefined;
  readonly size?: string | undefined;
}

/** One warm pool of one node: `warm` sandboxes are ready now, `target` are wanted. */
export interface PoolCapacity extends PoolKey {
  readonly warm: number;
  readonly target: number;
}

/** A template promoted from a sandbox and held by one node. An empty `tenant` means the operator. */
export interface PromotedTemplate extends PoolKey {
  readonly contentDigest: string;
  readonly tenant: string;
  readonly createdAt?: Date | undefined;
  readonly cpuCount?: number | undefined;
  readonly memoryBytes?: number | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

/** Phase of a sandbox as inventory reports it. Kubernetes publishers may use other words. */
export type Phase = "Running" | "Hibernated" | (string & {});

/** One live sandbox as a node's inventory lists it. */
export interface InventoryEntry {
  /** `<namespace>/<name>`; a name without `/` lies in the namespace `default`. */
  readonly name: string;
  /** The node's own id, `sb_…`. May be empty on the Kubernetes path. */
  readonly id: string;
  readonly phase: Phase;
  readonly template?: string | undefined;
  readonly net?: string | undefined;
  readonly size?: string | undefined;
  readonly claimRef?: string | undefined;
  /** Sandbox address, set by Kubernetes publishers only. */
  readonly addr?: string | undefined;
  readonly deadline?: Date | undefined;
  readonly claimedAt?: Date | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly cpuCount?: number | undefined;
  readonly memoryBytes?: number | undefined;
}

/** What the claim path needs to know of a node: no entries. */
export interface NodePools {
  /** Opaque node key, compared byte for byte. In mesh mode the node's client address. */
  readonly node: string;
  /** Where the node's API answers: `host:port` or an origin. Empty means not schedulable. */
  readonly address: string;
  readonly pools: readonly PoolCapacity[];
  readonly templates: readonly PromotedTemplate[];
}

/** One node's view: its pools and its sandboxes. Immutable once published. */
export interface NodeInventory extends NodePools {
  readonly entries: readonly InventoryEntry[];
  /**
   * When the read that produced this view began, in milliseconds of `performance.now()`. Our own writes that
   * happened later are laid over the view until a younger one arrives.
   */
  readonly asOfMs: number;
  /** When a Kubernetes publisher wrote the object. */
  readonly publishedAt?: Date | undefined;
}

/** Claim options. */
export interface ClaimOptions {
  /** Lease length in seconds; 0 or absent asks for the node's default. */
  readonly ttlSeconds?: number | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly onExpire?: "destroy" | "archive" | undefined;
  /** Claim without the guest's way out, whatever the pool's policy is. */
  readonly noEgress?: boolean | undefined;
  /** Allow nodes that hold a promoted template when no warm pool matches. */
  readonly promoted?: boolean | undefined;
  /**
   * Nodes that hold the promoted template, by somebody who knows better than inventory: what was promoted or deleted a
   * moment ago does not show there yet. With `promoted` only. Unknown nodes are passed over.
   * @default those that inventory shows
   */
  readonly promotedOn?: readonly string[] | undefined;
  /**
   * Nobody else claims under this name, so that a sandbox which appears under it after a claim without an answer (a
   * time-out, a lost reply) is nobody's: it is then released instead of living until its lease ends.
   * @default false
   */
  readonly uniqueName?: boolean | undefined;
  /**
   * Cancels the claim while no request was sent. Once the claim body is on the wire the caller is released at once,
   * the answer is awaited in the background, and a sandbox that was still delivered is released.
   */
  readonly signal?: AbortSignal | undefined;
}

/** A delivered claim. */
export interface Assignment {
  /** The node's claim id, `sb_…`. */
  readonly id: string;
  /** Key of the node that delivered. */
  readonly node: string;
  /** `owner_addr` of the reply, else the address that answered. */
  readonly address: string;
  /** The sandbox's own token. A secret. */
  readonly token: string;
  readonly deadline?: Date | undefined;
  /** How the guest reaches out: `relay`, `direct` or `none`; absent on older nodes. */
  readonly netRoute?: string | undefined;
  readonly fromCheckpoint?: string | undefined;
  /** `<namespace>/<name>` under which it was claimed. */
  readonly claimRef: string;
}

/** A sandbox as the store shows it: an inventory entry together with its node. */
export interface Sandbox {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
  readonly id: string;
  readonly phase: Phase;
  /** True for hibernated and archived sandboxes. */
  readonly paused: boolean;
  readonly template?: string | undefined;
  readonly net?: string | undefined;
  readonly size?: string | undefined;
  /** `<namespace>/<name>` that it was claimed under, as its node tells it. */
  readonly claimRef?: string | undefined;
  /** Sandbox address, known from Kubernetes publishers only. */
  readonly addr?: string | undefined;
  readonly deadline?: Date | undefined;
  readonly claimedAt?: Date | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly cpuCount?: number | undefined;
  readonly memoryBytes?: number | undefined;
}

/** What the owning node says of one sandbox right now. */
export interface SandboxRecord {
  /** The sandbox's own token; absent on open nodes. A secret. */
  readonly token?: string | undefined;
  readonly paused: boolean;
  readonly archived: boolean;
  readonly deadline?: Date | undefined;
  /**
   * The owning node's clock when it answered, to the second; absent when it did not tell. Compare deadlines with this:
   * the clocks of two machines may differ by minutes.
   */
  readonly answeredAt?: Date | undefined;
  readonly sandbox: Sandbox;
}

/** A checkpoint of a sandbox's state. */
export interface Snapshot {
  readonly id: string;
  readonly name: string;
  readonly sandboxId: string;
  readonly pool: PoolKey;
  readonly createdAt?: Date | undefined;
  readonly node: string;
}

/** What a promotion made: later claims of exactly this key start from it. */
export interface Promotion {
  readonly key: PoolKey;
  /** `sha256:` and hex; equal content has equal digests. */
  readonly contentDigest: string;
}
