import type { Duplex } from "node:stream";
import { bearer, idSegment, parseNodeAddress } from "./address.ts";
import { dialPort } from "./dial-port.ts";
import { errorText, SandboxdError } from "./errors.ts";
import { exchange, type ExchangeRequest } from "./exchange.ts";
import type { NodePool } from "./pool.ts";
import { parseWireTime, toText } from "./wire/common.ts";
import type { ClaimReply, ClaimRequest } from "./wire/claim.ts";
import type { InfoReply } from "./wire/node.ts";
import { readAddresses, readIndex, readInfo, readSandboxRow } from "./wire/readers.ts";
import type { RenewRequest, SandboxRow } from "./wire/sandbox.ts";

/** Options of every call. */
export interface CallOptions {
  /** Rejects the call at once with code `aborted`; see {@link SandboxdError.delivery} for what that means. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of a claim. */
export interface ClaimCallOptions extends CallOptions {
  /** Called once, just before the claim is handed to a connection: from here on a sandbox may come of it. */
  readonly onSent?: (() => void) | undefined;
}

/** What a node makes of a claim. */
export type ClaimOutcome =
  | { readonly kind: "delivered"; readonly reply: ClaimReply }
  | { readonly kind: "redirect"; readonly targets: readonly string[]; readonly requirePromoted: boolean }
  /** Neither a sandbox nor a redirect: no capacity. */
  | { readonly kind: "empty" };

/** Filters of the index, combined with AND. Nodes too old for a filter ignore it: check the rows. */
export interface IndexFilter {
  readonly claimRef?: string | undefined;
}

/** Options of {@link createSandboxdClient}. */
export interface SandboxdClientOptions {
  /** `host:port` or an origin. */
  readonly address: string;
  /** The fleet's root token; absent or empty sends no `Authorization`. */
  readonly token?: string | undefined;
  readonly pool: NodePool;
  /** Bound of one request from the call to the last byte of its reply, in milliseconds. @default 10000 */
  readonly requestTimeoutMs?: number | undefined;
}

/** One node's API. Every rejection is a {@link SandboxdError}. Section numbers are those of the node API. */
export interface SandboxdClient {
  /** As given. */
  readonly address: string;
  /** §5. Not repeatable: after a failure with delivery `maybe` the node may hold a sandbox. */
  claim(request: ClaimRequest, options?: ClaimCallOptions): Promise<ClaimOutcome>;
  /** §9.1. Root token only. */
  info(options?: CallOptions): Promise<InfoReply>;
  /** Client addresses of the other members, §9.2. */
  peers(options?: CallOptions): Promise<readonly string[]>;
  /** §6.1. */
  index(filter?: IndexFilter, options?: CallOptions): Promise<readonly SandboxRow[]>;
  /** One row, with the sandbox's token for the root token; `undefined` when the node does not know the id. §6.2. */
  sandbox(id: string, options?: CallOptions): Promise<SandboxRow | undefined>;
  /**
   * The client address of the node, when it holds the sandbox that this token belongs to, else `undefined`. §6.4.
   * The dialed address stands in on a node that advertises no host.
   */
  owner(id: string, sandboxToken: string, options?: CallOptions): Promise<string | undefined>;
  /** Resolves for a sandbox that is already gone. §7.1. */
  release(id: string, options?: CallOptions): Promise<void>;
  /** §7.2. */
  hibernate(id: string, options?: CallOptions): Promise<void>;
  /** §7.3. */
  wake(id: string, options?: CallOptions): Promise<void>;
  /** Resolves with the granted lease end. §7.4. */
  renew(id: string, request: RenewRequest, options?: CallOptions): Promise<Date | undefined>;
  /**
   * A raw connection to a guest port, §10.1. With the sandbox's token the relay is active: it wakes. With an empty one
   * the client's own token is used and the relay is passive: a paused sandbox is a 409.
   */
  dialPort(id: string, port: number, sandboxToken: string, options?: CallOptions): Promise<Duplex>;
}

/**
 * Makes the client of one node. No I/O happens before the first call.
 * @throws SandboxdError `bad_request` for an address or a token that cannot be used.
 */
export function createSandboxdClient(options: SandboxdClientOptions): SandboxdClient {
  const { pool, token = "", requestTimeoutMs = 10_000 } = options;
  const address = parseNodeAddress(options.address);
  const rootBearer = bearer(token);

  interface Send {
    readonly label: string;
    readonly body?: object | undefined;
    readonly authorization?: string | undefined;
    readonly onSent?: (() => void) | undefined;
    readonly signal?: AbortSignal | undefined;
  }

  const labelled = (label: string): string => `${label} at ${address.text}`;

  const send = async (method: ExchangeRequest["method"], path: string, what: Send): Promise<Buffer> => {
    const reply = await exchange(pool, address, {
      method,
      path,
      authorization: what.authorization ?? rootBearer,
      body: what.body === undefined ? undefined : JSON.stringify(what.body),
      label: labelled(what.label),
      timeoutMs: requestTimeoutMs,
      signal: what.signal,
      onSent: what.onSent,
    });
    return reply.body;
  };

  const read = <T>(label: string, body: Buffer, reader: (value: unknown) => T): T => {
    try {
      return reader(JSON.parse(body.toString("utf8")));
    } catch (error) {
      throw new SandboxdError("bad_reply", `${labelled(label)}: unreadable reply: ${errorText(error)}`, {
        delivery: "maybe",
        cause: error,
      });
    }
  };

  const verb = async (name: string, id: string, call: CallOptions): Promise<void> => {
    await send("POST", `/v1/sandboxes/${idSegment(id)}/${name}`, { label: `${name} ${id}`, signal: call.signal });
  };

  return {
    address: options.address,

    async claim(request, call = {}) {
      const label = "POST /v1/claim";
      const body = await send("POST", "/v1/claim", { label, body: request, onSent: call.onSent, signal: call.signal });
      return read(label, body, readClaim);
    },

    async info(call = {}) {
      const label = "GET /v1/info";
      return read(label, await send("GET", "/v1/info", { label, signal: call.signal }), readInfo);
    },

    async peers(call = {}) {
      const label = "GET /v1/peers";
      const body = await send("GET", "/v1/peers", { label, signal: call.signal });
      return read(label, body, (value) => readAddresses(fields(value)["peers"], "peers"));
    },

    async index(filter = {}, call = {}) {
      const label = "GET /v1/sandboxes";
      const query =
        filter.claimRef === undefined || filter.claimRef === ""
          ? ""
          : `?claim_ref=${encodeURIComponent(filter.claimRef.toWellFormed())}`;
      return read(label, await send("GET", `/v1/sandboxes${query}`, { label, signal: call.signal }), readIndex);
    },

    async sandbox(id, call = {}) {
      const label = `read ${id}`;
      const body = await unlessGone(send("GET", `/v1/sandboxes/${idSegment(id)}`, { label, signal: call.signal }));
      return body === undefined ? undefined : read(label, body, requireRow);
    },

    async owner(id, sandboxToken, call = {}) {
      const label = `owner of ${id}`;
      const authorization = bearer(sandboxToken);
      if (authorization === undefined) {
        throw new SandboxdError("bad_request", `${labelled(label)}: needs the sandbox's token`, { delivery: "no" });
      }
      const path = `/v1/sandboxes/${idSegment(id)}/owner`;
      const body = await unlessGone(send("GET", path, { label, authorization, signal: call.signal }));
      return body === undefined
        ? undefined
        : read(label, body, (value) => toText(fields(value)["owner_addr"]) ?? address.text);
    },

    async release(id, call = {}) {
      await unlessGone(verb("release", id, call));
    },

    hibernate: (id, call = {}) => verb("hibernate", id, call),

    wake: (id, call = {}) => verb("wake", id, call),

    async renew(id, request, call = {}) {
      const label = `renew ${id}`;
      const path = `/v1/sandboxes/${idSegment(id)}/renew`;
      const body = await send("POST", path, { label, body: request, signal: call.signal });
      return read(label, body, (value) => parseWireTime(fields(value)["deadline"]));
    },

    dialPort: (id, port, sandboxToken, call = {}) =>
      dialPort(
        {
          address: options.address,
          id,
          port,
          token: sandboxToken === "" ? token : sandboxToken,
          ca: pool.ca,
        },
        call,
      ),
  };
}

/** `undefined` for the node's own "not here"; a router's 404 stays an error, for it says nothing of the sandbox. */
async function unlessGone<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof SandboxdError && error.status === 404 && !error.routeMissing) {
      return undefined;
    }
    throw error;
  }
}

function fields(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TypeError("not an object");
  }
  return value as Readonly<Record<string, unknown>>;
}

function requireRow(value: unknown): SandboxRow {
  const row = readSandboxRow(value);
  if (row === undefined) {
    throw new TypeError("no sandbox row");
  }
  return row;
}

/** A body is a redirect exactly when `id` is empty and `redirect` is not. §5.3. */
function readClaim(value: unknown): ClaimOutcome {
  const reply = fields(value);
  const id = toText(reply["id"]);
  if (id === undefined) {
    const targets = readAddresses(reply["redirect"], "redirect");
    return targets.length === 0
      ? { kind: "empty" }
      : { kind: "redirect", targets, requirePromoted: reply["require_promoted"] === true };
  }
  const token = toText(reply["token"]);
  if (token === undefined) {
    throw new TypeError("a sandbox without a token");
  }
  // What no later request could carry is no sandbox that anybody can use.
  bearer(token);
  if (idSegment(id) !== id) {
    throw new TypeError("a sandbox whose id is no path segment");
  }
  return {
    kind: "delivered",
    reply: {
      id,
      token,
      deadline: toText(reply["deadline"]) ?? "",
      owner_addr: toText(reply["owner_addr"]),
      net_route: toText(reply["net_route"]),
      template_digest: toText(reply["template_digest"]),
      from_checkpoint: toText(reply["from_checkpoint"]),
    },
  };
}
