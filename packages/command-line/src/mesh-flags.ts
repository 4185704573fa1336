import { UsageError } from "./command-line.ts";
import type { FlagOptions, FlagValues } from "./command-line.ts";
import { durationMs } from "./duration.ts";

/** No fleet answers in less, and everything older than a day is no inventory. */
const MIN_POLL_MS = 10;
const MAX_POLL_MS = 86_400_000;

/** Heading of the flags about nodes. */
const NODES = "Nodes:";

/** Flags of every program that calls nodes. */
export const nodeTokenOptions: FlagOptions = {
  "sandboxd-token": {
    type: "string",
    default: "",
    secret: true,
    group: NODES,
    describe: "The fleet's root api_token. Other users of this machine can see it, so prefer the file",
  },
  "sandboxd-token-file": {
    type: "string",
    default: "",
    group: NODES,
    describe: "File with the fleet's root api_token; wins over --sandboxd-token",
  },
};

/** Flags of programs that learn their nodes from the nodes' own mesh. */
export const meshOptions: FlagOptions = {
  "sandboxd-seeds": {
    type: "string",
    repeatable: true,
    group: NODES,
    describe: "Addresses of nodes, comma-separated: host:port, or https://host. The other nodes are learned from them",
  },
  ...nodeTokenOptions,
  "sandboxd-ca-file": {
    type: "string",
    default: "",
    group: NODES,
    describe: "PEM certificates that https:// nodes are verified against; empty trusts what the system trusts",
  },
  "inventory-poll": {
    type: "string",
    default: "10s",
    group: NODES,
    describe: "How often every node is asked for its pools and sandboxes",
  },
};

/** What {@link meshOptions} were set to. */
export interface MeshFlags {
  /** In the order given, without empty ones. */
  readonly seeds: readonly string[];
  /** A secret. */
  readonly token: string;
  readonly tokenFile: string;
  readonly caFile: string;
  /** 0 stands for the default. */
  readonly pollIntervalMs: number;
}

/**
 * Reads {@link meshOptions}.
 * @throws UsageError for a poll interval that is none
 */
export function meshFlags(values: FlagValues): MeshFlags {
  const poll = textOf(values, "inventory-poll");
  const pollIntervalMs = durationMs(poll);
  const impossible = pollIntervalMs !== undefined && pollIntervalMs !== 0 && pollIntervalMs < MIN_POLL_MS;
  if (pollIntervalMs === undefined || impossible || pollIntervalMs > MAX_POLL_MS) {
    throw new UsageError(
      `invalid value ${JSON.stringify(poll)} for --inventory-poll: want a duration from 10ms to 24h, such as 10s or 1m30s`,
    );
  }
  return {
    seeds: addressesOf(values, "sandboxd-seeds"),
    token: textOf(values, "sandboxd-token"),
    tokenFile: textOf(values, "sandboxd-token-file"),
    caFile: textOf(values, "sandboxd-ca-file"),
    pollIntervalMs,
  };
}

/** A flag's text; empty when it has none. */
export function textOf(values: FlagValues, flag: string): string {
  const value = values[flag];
  return typeof value === "string" ? value : "";
}

/** Comma-separated addresses of a repeatable flag, in order, trimmed, without empty ones. */
export function addressesOf(values: FlagValues, flag: string): string[] {
  const value = values[flag];
  return (typeof value === "object" ? value : [])
    .flatMap((list) => list.split(","))
    .map((address) => address.trim())
    .filter((address) => address !== "");
}
