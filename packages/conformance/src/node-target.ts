import { SkipRow } from "./harness-rows.ts";
import type { PoolKey } from "./node-admin.ts";
import { type Bench, type NodeInfoReply, sameKey } from "./node-bench.ts";
import { expectJson, type NodeClient, nodeClient, type NodeReply } from "./node-client.ts";

/** How the nodes under test are reached. */
export interface NodeTargetOptions {
  readonly url: string;
  /** Absent: an open node. */
  readonly token?: string | undefined;
  /** @default the peers that the node names */
  readonly peerUrls?: readonly string[];
  /** @default the template of one of its pools */
  readonly template?: string | undefined;
  readonly tenantToken?: string | undefined;
  /** The node's own limit of live claims. */
  readonly maxClaims?: number | undefined;
  /** Another node of the mesh with a limit, for the rows about it. */
  readonly limited?: { readonly url: string; readonly maxClaims: number } | undefined;
  /** Another node that asks for no token. */
  readonly openUrl?: string | undefined;
  /** Another node that has no egress lane. */
  readonly withoutEgressUrl?: string | undefined;
  /** Rows that change pools are skipped. */
  readonly keepPools: boolean;
  /** Guests of the node cannot listen at the same port. @default false */
  readonly sharedPorts?: boolean;
}

/** The node under test and what belongs to it. */
export interface NodeTarget extends AsyncDisposable {
  readonly node: NodeClient;
  /** It has a root token, and with it the operator's way to any sandbox. */
  readonly guarded: boolean;
  readonly token: string | undefined;
  /** What it calls itself; absent when it advertises no host. */
  readonly clientAddress: string | undefined;
  readonly peers: readonly { readonly node: NodeClient; readonly clientAddress: string | undefined }[];
  readonly template: string;
  readonly tenantToken: string | undefined;
  readonly limited: { readonly node: NodeClient; readonly maxClaims: number } | undefined;
  readonly open: NodeClient | undefined;
  readonly withoutEgress: NodeClient;
  readonly keepPools: boolean;
  readonly sharedPorts: boolean;
}

/** Looks at the node and its peers. Throws an error with what to change when the suite cannot run against it. */
export async function findTarget(options: NodeTargetOptions): Promise<NodeTarget> {
  const clients: NodeClient[] = [];
  const open = (address: string, token: string | undefined): NodeClient => {
    const client = nodeClient(address, token);
    clients.push(client);
    return client;
  };
  const close = async (): Promise<void> => {
    await Promise.all(clients.map((client) => client[Symbol.asyncDispose]()));
  };
  try {
    const node = open(options.url, options.token);
    const info = await firstInfo(node, options);
    if (info.draining === true) {
      throw new Error(`${options.url} is drained: lift it (DELETE /v1/drain) or choose another node`);
    }
    const guarded = (await node.call("GET", "/v1/info", { bearer: null })).status !== 200;
    const named = info.peers ?? [];
    const peers = await Promise.all(
      ((options.peerUrls?.length ?? 0) > 0 ? (options.peerUrls ?? []) : named).map(async (address) => {
        const peer = open(address, options.token);
        const clientAddress = (await peerInfo(peer)).advertise_addr;
        if (clientAddress !== undefined && !named.includes(clientAddress)) {
          throw new Error(
            `${options.url} does not name ${clientAddress} among its peers: ${named.join(", ") || "none"}`,
          );
        }
        return { node: peer, clientAddress };
      }),
    );
    const pools = info.pools ?? [];
    const template =
      options.template ?? pools.find(({ key }) => key.net === "none")?.key.template ?? pools[0]?.key.template;
    if (template === undefined) {
      throw new Error(`${options.url} has no pool to take a template from: name one with --template`);
    }
    const limited =
      options.limited === undefined
        ? options.maxClaims === undefined
          ? undefined
          : { node, maxClaims: options.maxClaims }
        : { node: open(options.limited.url, options.token), maxClaims: options.limited.maxClaims };
    return {
      node,
      guarded,
      token: options.token,
      clientAddress: info.advertise_addr,
      peers,
      template,
      tenantToken: options.tenantToken,
      limited,
      open: options.openUrl === undefined ? (guarded ? undefined : node) : open(options.openUrl, undefined),
      withoutEgress: options.withoutEgressUrl === undefined ? node : open(options.withoutEgressUrl, options.token),
      keepPools: options.keepPools,
      sharedPorts: options.sharedPorts ?? false,
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function firstInfo(node: NodeClient, options: NodeTargetOptions): Promise<NodeInfoReply> {
  let reply: NodeReply;
  try {
    reply = await node.call("GET", "/v1/info");
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`${options.url} cannot be reached: ${reason}`, { cause });
  }
  if (reply.status === 401) {
    const help = options.token === undefined ? "give its root token with --token-file" : "is it the root token?";
    throw new Error(
      `${options.url} refuses ${options.token === undefined ? "a call without a token" : "the token"}: ${help}`,
    );
  }
  if (reply.status === 403) {
    throw new Error(`${options.url} takes the token for a tenant's: give the root token with --token-file`);
  }
  return expectJson(reply, 200, `${options.url}/v1/info`) as unknown as NodeInfoReply;
}

async function peerInfo(peer: NodeClient): Promise<NodeInfoReply> {
  try {
    return expectJson(await peer.call("GET", "/v1/info"), 200, "info") as unknown as NodeInfoReply;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`the peer ${peer.address} cannot be used, name those that can with --peer-url: ${reason}`, {
      cause,
    });
  }
}

/** The first peer. Throws a {@link SkipRow} without one. */
export function onePeer(target: NodeTarget): NodeTarget["peers"][number] {
  const [peer] = target.peers;
  if (peer === undefined) {
    throw new SkipRow("the node has no peer: start it in a mesh, or name one with --peer-url");
  }
  return peer;
}

/** The tenant's token. Throws a {@link SkipRow} without one. */
export function tenantOf(target: NodeTarget): string {
  if (target.tenantToken === undefined) {
    throw new SkipRow("no tenant is known: give a tenant's token with --tenant-token-file");
  }
  return target.tenantToken;
}

/** The root token. Throws a {@link SkipRow} on an open node, where nobody is the operator. */
export function rootOf(target: NodeTarget): string {
  if (!target.guarded || target.token === undefined) {
    throw new SkipRow("the node is open, and has no operator: start it with a root token");
  }
  return target.token;
}

/** Throws a {@link SkipRow} when pools are to be kept as they are. */
export function mayChangePools(target: NodeTarget): void {
  if (target.keepPools) {
    throw new SkipRow("the row changes pools: leave --keep-pools out");
  }
}

/** A key that no node of the mesh keeps warm guests for. */
export async function spareKey(bench: Bench, target: NodeTarget): Promise<PoolKey> {
  const nodes = [target.node, ...target.peers.map((peer) => peer.node)];
  if (target.limited !== undefined) {
    nodes.push(target.limited.node);
  }
  const infos = await Promise.all(nodes.map((node) => bench.info(node)));
  for (const size of ["medium", "large", "xlarge", "2xlarge"]) {
    const key = { template: target.template, net: "none", size };
    if (infos.every(({ pools }) => !(pools ?? []).some((pool) => sameKey(pool.key, key)))) {
      return key;
    }
  }
  throw new SkipRow(`every size of ${target.template} has a pool: name another --template`);
}
