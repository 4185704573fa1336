import { bearer, type NodeAddress } from "./address.ts";
import { errorText, SandboxdError, unexpectedStatus } from "./errors.ts";
import { exchange, type ExchangeReply, type ExchangeRequest } from "./exchange.ts";
import type { NodePool } from "./pool.ts";

/** Options of every call. */
export interface CallOptions {
  /** Rejects the call at once with code `aborted`; see {@link SandboxdError.delivery} for what that means. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of calls that make sandboxes. */
export interface ClaimCallOptions extends CallOptions {
  /**
   * Whether the signal counts only until the request is handed to a connection. From there on a sandbox may come of it,
   * so that the reply is awaited.
   * @default false
   */
  readonly untilSent?: boolean | undefined;
  /** Called once, just before the request is handed to a connection: from here on a sandbox may come of it. */
  readonly onSent?: (() => void) | undefined;
}

/** One call of a {@link Requester}. */
export interface Request extends ClaimCallOptions {
  readonly method: ExchangeRequest["method"];
  /** Path and query. */
  readonly path: string;
  /** What errors call it. @default method and path without the query */
  readonly label?: string | undefined;
  /** Sent as JSON. */
  readonly body?: object | undefined;
  /** Sent as it is, instead of `body`. */
  readonly rawBody?: Uint8Array | undefined;
  /** Instead of the node token. */
  readonly authorization?: string | undefined;
  /** The only good status. @default any 2xx */
  readonly expects?: 200 | 204 | undefined;
  /** @default the client's bound of one request */
  readonly timeoutMs?: number | undefined;
}

/** What a {@link Requester} works with. */
export interface RequesterParts {
  readonly pool: NodePool;
  readonly address: NodeAddress;
  readonly token: string;
  readonly requestTimeoutMs: number;
  readonly captureTimeoutMs: number;
}

/** Sends the calls of one client to its node and reads what comes back. */
export class Requester {
  readonly address: NodeAddress;
  readonly captureTimeoutMs: number;
  readonly #pool: NodePool;
  readonly #authorization: string | undefined;
  readonly #requestTimeoutMs: number;

  /** @throws SandboxdError `bad_request` for a token that no header can carry. */
  constructor(parts: RequesterParts) {
    this.address = parts.address;
    this.captureTimeoutMs = parts.captureTimeoutMs;
    this.#pool = parts.pool;
    this.#authorization = bearer(parts.token);
    this.#requestTimeoutMs = parts.requestTimeoutMs;
  }

  /** Resolves with a good reply. */
  async send(request: Request): Promise<ExchangeReply> {
    const label = (): string => this.label(request);
    const reply = await exchange(this.#pool, this.address, {
      method: request.method,
      path: request.path,
      authorization: request.authorization ?? this.#authorization,
      body: request.rawBody ?? (request.body === undefined ? undefined : JSON.stringify(request.body)),
      label,
      timeoutMs: request.timeoutMs ?? this.#requestTimeoutMs,
      signal: request.signal,
      untilSent: request.untilSent,
      onSent: request.onSent,
    });
    if (request.expects !== undefined && reply.status !== request.expects) {
      throw unexpectedStatus(label(), reply.status, reply.body);
    }
    return reply;
  }

  /** Sends and reads the JSON of a good reply; what `reader` throws is a `bad_reply`. */
  async ask<T>(request: Request, reader: (value: unknown, reply: ExchangeReply) => T): Promise<T> {
    return this.#read(request, await this.send(request), reader);
  }

  /** As {@link ask}; `undefined` when the node says that it does not know what was asked for. */
  async find<T>(request: Request, reader: (value: unknown, reply: ExchangeReply) => T): Promise<T | undefined> {
    const reply = await unlessGone(this.send(request));
    return reply === undefined ? undefined : this.#read(request, reply, reader);
  }

  /** How errors name a call. */
  label(request: Request): string {
    return `${request.label ?? `${request.method} ${request.path.replace(/\?.*$/s, "")}`} at ${this.address.text}`;
  }

  #read<T>(request: Request, reply: ExchangeReply, reader: (value: unknown, reply: ExchangeReply) => T): T {
    const unreadable = (why: string, cause?: unknown): SandboxdError =>
      new SandboxdError("bad_reply", `${this.label(request)}: unreadable reply: ${why}`, { delivery: "maybe", cause });
    let value: unknown;
    try {
      value = JSON.parse(reply.body.toString("utf8"));
    } catch {
      // The parser's own words quote the reply, which may hold a token.
      throw unreadable("no JSON");
    }
    try {
      return reader(value, reply);
    } catch (error) {
      throw unreadable(errorText(error), error);
    }
  }
}

/** `undefined` for the node's own "not here"; a router's 404 stays an error, for it says nothing of the thing itself. */
export async function unlessGone<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof SandboxdError && error.status === 404 && !error.routeMissing) {
      return undefined;
    }
    throw error;
  }
}
