import type { Duplex } from "node:stream";
import { bearer, idSegment, parseNodeAddress } from "./address.ts";
import { captureCalls, type CaptureCalls } from "./captures.ts";
import { readClaimOutcome, type ClaimOutcome } from "./claim-outcome.ts";
import { dialPort } from "./dial-port.ts";
import { SandboxdError } from "./errors.ts";
import { operationCalls, type OperationCalls } from "./operations.ts";
import type { NodePool } from "./pool.ts";
import { Requester, unlessGone, type CallOptions, type ClaimCallOptions } from "./requester.ts";
import type { ClaimRequest } from "./wire/claim.ts";
import { parseWireTime, toText } from "./wire/common.ts";
import type { InfoReply } from "./wire/node.ts";
import { readAddresses, readFields, readIndex, readInfo, readSandboxRow } from "./wire/readers.ts";
import type { RenewRequest, SandboxRow } from "./wire/sandbox.ts";

/** A row as its by-id read shows it. */
export interface SandboxReading extends SandboxRow {
  /**
   * The node's own clock when it answered, to the second: what its deadlines are to be compared with. Absent when the
   * reply says nothing of it.
   */
  readonly answeredAt?: Date | undefined;
}

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
  /** The same for fork, checkpoint and promotion, which write a guest's memory. @default 600000 */
  readonly captureTimeoutMs?: number | undefined;
}

/**
 * One node's API. Every rejection is a {@link SandboxdError}. Section numbers are those of the node API. A status that
 * a route does not answer with when all went well is an error, also a good one.
 */
export interface SandboxdClient extends CaptureCalls, OperationCalls {
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
  /**
   * One row, with the sandbox's token for the root token; `undefined` when the node does not know the id. A row of
   * another sandbox is refused. §6.2.
   */
  sandbox(id: string, options?: CallOptions): Promise<SandboxReading | undefined>;
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
  const { pool, token = "", requestTimeoutMs = 10_000, captureTimeoutMs = 600_000 } = options;
  const address = parseNodeAddress(options.address);
  const requester = new Requester({ pool, address, token, requestTimeoutMs, captureTimeoutMs });

  /** A verb without a body that answers 204. */
  const verb = async (name: string, id: string, { signal }: CallOptions): Promise<void> => {
    await requester.send({ method: "POST", path: `/v1/sandboxes/${idSegment(id)}/${name}`, expects: 204, signal });
  };

  return {
    address: options.address,

    ...captureCalls(requester),
    ...operationCalls(requester),

    async claim(request, call = {}) {
      return requester.ask(
        { ...call, method: "POST", path: "/v1/claim", body: request, expects: 200 },
        readClaimOutcome,
      );
    },

    async info(call = {}) {
      return requester.ask({ ...call, method: "GET", path: "/v1/info", expects: 200 }, readInfo);
    },

    async peers(call = {}) {
      return requester.ask({ ...call, method: "GET", path: "/v1/peers", expects: 200 }, (value) =>
        readAddresses(readFields(value, "the reply")["peers"], "peers"),
      );
    },

    async index(filter = {}, call = {}) {
      const query =
        filter.claimRef === undefined || filter.claimRef === ""
          ? ""
          : `?claim_ref=${encodeURIComponent(filter.claimRef.toWellFormed())}`;
      return requester.ask({ ...call, method: "GET", path: `/v1/sandboxes${query}`, expects: 200 }, readIndex);
    },

    async sandbox(id, call = {}) {
      const path = `/v1/sandboxes/${idSegment(id)}`;
      return requester.find({ ...call, method: "GET", path, expects: 200 }, (value, { date }) => {
        const row = readSandboxRow(value);
        if (row?.id !== id) {
          throw new TypeError(row === undefined ? "no sandbox row" : "the row of another sandbox");
        }
        const answeredAt = date === undefined ? Number.NaN : Date.parse(date);
        return Number.isNaN(answeredAt) ? row : { ...row, answeredAt: new Date(answeredAt) };
      });
    },

    async owner(id, sandboxToken, call = {}) {
      const path = `/v1/sandboxes/${idSegment(id)}/owner`;
      const authorization = bearer(sandboxToken);
      if (authorization === undefined) {
        throw new SandboxdError("bad_request", `GET ${path} at ${address.text}: needs the sandbox's token`, {
          delivery: "no",
        });
      }
      return requester.find(
        { ...call, method: "GET", path, authorization, expects: 200 },
        (value) => toText(readFields(value, "the reply")["owner_addr"]) ?? address.text,
      );
    },

    async release(id, call = {}) {
      await unlessGone(verb("release", id, call));
    },

    hibernate: (id, call = {}) => verb("hibernate", id, call),

    wake: (id, call = {}) => verb("wake", id, call),

    async renew(id, request, call = {}) {
      const path = `/v1/sandboxes/${idSegment(id)}/renew`;
      return requester.ask({ ...call, method: "POST", path, body: request }, (value) =>
        parseWireTime(readFields(value, "the reply")["deadline"]),
      );
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
