import type { PoolsRequest } from "@org/sandboxd-client/wire";
import { availableParallelism } from "node:os";
import { isAbsolute } from "node:path";
import { DevNodeError } from "./errors.ts";
import type { FreezerKind } from "./host/guest-host.ts";
import type { Isolation } from "./host/launch.ts";
import { SILENT, type DevNodeLogger } from "./logger.ts";
import type { Tenant } from "./node/access.ts";

/** One warm pool. */
export interface DevNodePool {
  readonly template: string;
  /** @default "none" */
  readonly net?: "none" | "egress" | undefined;
  /** @default "small" */
  readonly size?: string | undefined;
  /** Guests that are kept ready. */
  readonly warm: number;
  /** Above `warm`: the target follows demand up to this. */
  readonly warmMax?: number | undefined;
}

/** Options of `startDevNode`. */
export interface DevNodeOptions {
  /**
   * Where to listen.
   * @default { host: "127.0.0.1", port: 0 }
   */
  readonly listen?: { readonly host?: string | undefined; readonly port: number } | undefined;
  /**
   * `host:port` or `http(s)://` origin by which clients and other nodes reach this one. It is reported in the same
   * words everywhere. Needed when `listen` names no single host.
   * @default the bound address
   */
  readonly advertise?: string | undefined;
  /**
   * Other nodes of a static mesh. `DevNode.setPeers` changes them later.
   * @default []
   */
  readonly peers?: readonly string[] | undefined;
  /** Root token. A secret. Absent, and without tenants: an open node. All nodes of a mesh share it. */
  readonly token?: string | undefined;
  /** @default [] */
  readonly tenants?: readonly Tenant[] | undefined;
  /** Absolute path of a private folder for guests' files. Several nodes and processes may share one. */
  readonly stateDir: string;
  /**
   * How guests are kept apart. `auto` takes the strongest that a started guest proves to work; `process` isolates
   * nothing and is allowed on loopback only.
   * @default "auto"
   */
  readonly isolation?: Isolation | "auto" | undefined;
  /** @default [] */
  readonly pools?: readonly DevNodePool[] | undefined;
  /**
   * Folders with the files that guests of a template start with, by template name. They are copied for each guest.
   * @default {}
   */
  readonly templates?: Readonly<Record<string, string>> | undefined;
  /**
   * Answer 500 to claims of keys that no pool serves, instead of starting a plain guest.
   * @default false
   */
  readonly refuseUnpooled?: boolean | undefined;
  /**
   * Offer the egress lane.
   * @default true
   */
  readonly egress?: boolean | undefined;
  /**
   * Further `host:port` targets that no guest may reach, besides this machine's own addresses.
   * @default []
   */
  readonly egressRefused?: readonly string[] | undefined;
  /**
   * Live claims of this node, paused ones included; 0 for no limit.
   * @default 0
   */
  readonly maxClaims?: number | undefined;
  /**
   * Wait between a claim and the refill of its pool, in milliseconds: starting a guest would take the processors from
   * the first command of the one just claimed.
   * @default 100
   */
  readonly refillDelayMs?: number | undefined;
  /**
   * Guests that start at the same time.
   * @default the number of processors
   */
  readonly startConcurrency?: number | undefined;
  /**
   * How often peers are asked for their warm counts, in milliseconds.
   * @default 1000
   */
  readonly peerPollMs?: number | undefined;
  /**
   * How often leases are looked at, in milliseconds, at most 5000.
   * @default 1000
   */
  readonly reapIntervalMs?: number | undefined;
  /**
   * Serve `/debug/faults`, by which the operator makes requests fail on demand. For tests alone.
   * @default false
   */
  readonly faults?: boolean | undefined;
  /**
   * How guests may be frozen, best first; signals are tried last even when not named.
   * @default ["v2", "v1", "signals"]
   */
  readonly freezers?: readonly FreezerKind[] | undefined;
  /**
   * The built guest agent.
   * @default dist/guest.js of this package
   */
  readonly guestBundle?: string | undefined;
  /** Silent by default. */
  readonly logger?: DevNodeLogger | undefined;
  /**
   * A number in [0, 1), for the choice among peers. Ids and tokens never come from it.
   * @default Math.random
   */
  readonly random?: (() => number) | undefined;
  /**
   * Milliseconds since 1970, for leases.
   * @default Date.now
   */
  readonly now?: (() => number) | undefined;
}

/** Options with the defaults filled in. */
export interface ResolvedOptions {
  readonly host: string;
  readonly port: number;
  readonly advertise: string | undefined;
  readonly peers: readonly string[];
  readonly token: string | undefined;
  readonly tenants: readonly Tenant[];
  readonly stateDir: string;
  readonly isolation: Isolation | "auto";
  readonly pools: PoolsRequest;
  readonly templates: ReadonlyMap<string, string>;
  readonly refuseUnpooled: boolean;
  readonly egress: boolean;
  readonly egressRefused: readonly { readonly host: string; readonly port: number }[];
  readonly maxClaims: number;
  readonly refillDelayMs: number;
  readonly startConcurrency: number;
  readonly peerPollMs: number;
  readonly reapIntervalMs: number;
  readonly faults: boolean;
  readonly freezers: readonly FreezerKind[];
  readonly guestBundle: string | undefined;
  readonly logger: DevNodeLogger;
  readonly random: () => number;
  readonly now: () => number;
}

const NAME = /^[a-zA-Z0-9][a-zA-Z0-9._:/-]{0,62}$/;

/** @throws DevNodeError `invalid_option` naming the option */
export function resolveOptions(options: DevNodeOptions): ResolvedOptions {
  const host = options.listen?.host ?? "127.0.0.1";
  if (!isAbsolute(options.stateDir)) {
    throw invalid("stateDir", "must be an absolute path");
  }
  if (options.token === "") {
    throw invalid("token", "is empty");
  }
  const names = new Set<string>();
  for (const tenant of options.tenants ?? []) {
    if (!NAME.test(tenant.name) || names.has(tenant.name)) {
      throw invalid("tenants", `name ${JSON.stringify(tenant.name)} is not valid or there twice`);
    }
    if (tenant.token === "" || tenant.token === options.token) {
      throw invalid("tenants", `tenant ${tenant.name} needs a token of its own`);
    }
    whole("tenants.maxClaims", tenant.maxClaims ?? 0, 0);
    names.add(tenant.name);
  }
  const advertise = options.advertise?.replace(/\/+$/, "");
  if (advertise === undefined) {
    if (isWildcard(host)) {
      throw invalid("advertise", "is needed when every interface is listened on");
    }
  } else {
    checkAdvertise(advertise);
  }
  const isolation = options.isolation ?? "auto";
  if (isolation !== "process" || isLoopback(host)) {
    return {
      host,
      port: whole("listen.port", options.listen?.port ?? 0, 0, 65_535),
      advertise,
      peers: options.peers ?? [],
      token: options.token,
      tenants: options.tenants ?? [],
      stateDir: options.stateDir,
      isolation,
      pools: {
        pools: (options.pools ?? []).map((pool) => ({
          template: pool.template,
          net: pool.net,
          size: pool.size,
          warm: whole("pools.warm", pool.warm, 0),
          warm_max: whole("pools.warmMax", pool.warmMax ?? 0, 0),
        })),
      },
      templates: readTemplates(options.templates ?? {}),
      refuseUnpooled: options.refuseUnpooled ?? false,
      egress: options.egress ?? true,
      egressRefused: (options.egressRefused ?? []).map(splitHostPort),
      maxClaims: whole("maxClaims", options.maxClaims ?? 0, 0),
      refillDelayMs: whole("refillDelayMs", options.refillDelayMs ?? 100, 0),
      startConcurrency: whole("startConcurrency", options.startConcurrency ?? availableParallelism(), 1),
      peerPollMs: whole("peerPollMs", options.peerPollMs ?? 1000, 1),
      reapIntervalMs: whole("reapIntervalMs", options.reapIntervalMs ?? 1000, 1, 5000),
      faults: options.faults ?? false,
      freezers: options.freezers ?? ["v2", "v1", "signals"],
      guestBundle: options.guestBundle,
      logger: options.logger ?? SILENT,
      random: options.random ?? Math.random,
      now: options.now ?? Date.now,
    };
  }
  throw invalid("isolation", "process isolates nothing: listen on a loopback address with it");
}

/** True when only this machine can reach the host. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.[0-9]{1,3}){3}$/.test(host);
}

function isWildcard(host: string): boolean {
  return host === "" || host === "0.0.0.0" || host === "::";
}

function invalid(option: string, message: string): DevNodeError {
  return new DevNodeError("invalid_option", `option ${option} ${message}`);
}

function whole(option: string, value: number, least: number, most = Number.MAX_SAFE_INTEGER): number {
  if (!Number.isSafeInteger(value) || value < least || value > most) {
    throw invalid(
      option,
      `must be a whole number from ${least}${most === Number.MAX_SAFE_INTEGER ? "" : ` to ${most}`}`,
    );
  }
  return value;
}

function checkAdvertise(advertise: string): void {
  if (!advertise.includes("://")) {
    splitHostPort(advertise);
    return;
  }
  const url = URL.canParse(advertise) ? new URL(advertise) : undefined;
  const plain =
    url !== undefined && url.pathname === "/" && url.search === "" && url.hash === "" && url.username === "";
  if (!plain || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw invalid("advertise", "must be host:port or an http(s) origin without a path");
  }
}

/** @throws DevNodeError `invalid_option` */
function splitHostPort(text: string): { readonly host: string; readonly port: number } {
  const match = /^(?:\[([^\]]+)\]|([^\s:/]+)):([0-9]{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined) {
    throw invalid("address", `${JSON.stringify(text)} must have the form host:port`);
  }
  return { host, port: whole("address", Number(match?.[3]), 1, 65_535) };
}

function readTemplates(templates: Readonly<Record<string, string>>): ReadonlyMap<string, string> {
  for (const [name, folder] of Object.entries(templates)) {
    if (!isAbsolute(folder)) {
      throw invalid("templates", `folder of ${name} must be an absolute path`);
    }
  }
  return new Map(Object.entries(templates));
}
