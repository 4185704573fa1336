import type { Readable } from "node:stream";
import type { Dispatcher } from "undici";
import type { Logger } from "@org/scale";
import type { ClusterConfig } from "./cluster-config.ts";
import { Connections } from "./connections.ts";
import { CredentialSource, type Credentials } from "./credentials.ts";
import { errorText, KubeError, record, statusError } from "./errors.ts";

/** Options of {@link KubeClient.connect}. */
export interface KubeClientOptions {
  /** What the API server sees of us. @default kubeinventory */
  readonly userAgent?: string | undefined;
  /** Told once when the certificate of the server is not checked. */
  readonly logger?: Logger | undefined;
}

/** One request to the API server. */
export interface KubeRequest {
  /** @default GET */
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | undefined;
  /** From the root of the API, such as `/api/v1/namespaces`. */
  readonly path: string;
  /** Absent values are left out. */
  readonly query?: Readonly<Record<string, string | undefined>> | undefined;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** @default application/json */
  readonly contentType?: string | undefined;
  /** Ends the call; a change may then have happened or not. */
  readonly signal?: AbortSignal | undefined;
}

/** A body that is still arriving. Must be iterated, or aborted. Ending the iteration early ends the connection. */
export type KubeStream = AsyncIterable<Uint8Array>;

const HEADERS_TIMEOUT_MS = 30_000;
/** The longest silence within a body that is no watch. */
const BODY_TIMEOUT_MS = 60_000;
/** What is read of an error's body. */
const ERROR_BODY_CAP = 256 * 1024;

/** One cluster's API server. All requests share connections; credentials are renewed by themselves. */
export class KubeClient implements AsyncDisposable {
  readonly #origin: string;
  readonly #prefix: string;
  readonly #userAgent: string;
  readonly #credentials: CredentialSource;
  readonly #connections: Connections;
  /** The cluster that is asked. */
  readonly config: ClusterConfig;

  private constructor(config: ClusterConfig, userAgent: string) {
    const { origin, pathname } = new URL(config.server);
    this.config = config;
    this.#origin = origin;
    this.#prefix = pathname.replace(/\/+$/, "");
    this.#userAgent = userAgent;
    this.#credentials = new CredentialSource(config, { now: () => performance.now(), wall: Date.now });
    this.#connections = new Connections(config);
  }

  /**
   * A client with credentials that were read and certificates that can be used. Nothing is sent yet.
   * @throws KubeError `credentials` otherwise.
   */
  static async connect(config: ClusterConfig, options: KubeClientOptions = {}): Promise<KubeClient> {
    const client = new KubeClient(config, options.userAgent ?? "kubeinventory");
    client.#connections.with(await client.#credentials.current());
    if (config.insecure === true) {
      options.logger?.warn(
        { server: config.server, source: config.source },
        "the certificate of the API server is not checked: its credentials can be stolen",
      );
    }
    return client;
  }

  /**
   * The answer's JSON, or `undefined` for an empty body. A 401 is tried once more when there are other credentials.
   * @throws KubeError
   */
  async request(request: KubeRequest): Promise<unknown> {
    const { label, body } = await this.#send(request, BODY_TIMEOUT_MS);
    let text: string;
    try {
      text = await body.text();
    } catch (error) {
      throw failure(label, error, request.signal);
    }
    try {
      return text === "" ? undefined : JSON.parse(text);
    } catch (cause) {
      throw new KubeError("bad_reply", `${label}: the reply is no JSON`, { cause });
    }
  }

  /**
   * The answer's body as it arrives. No silence within it is too long: that is for the reader to judge, by the signal.
   * @throws KubeError from here and from the iteration.
   */
  async stream(request: KubeRequest): Promise<KubeStream> {
    const { label, body } = await this.#send(request, 0);
    return chunks(body, label, request.signal);
  }

  /** Ends all connections. Requests that run fail. */
  async close(): Promise<void> {
    await this.#connections[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #send(
    request: KubeRequest,
    bodyTimeout: number,
  ): Promise<{ label: string; body: Dispatcher.ResponseData["body"] }> {
    const label = `${request.method ?? "GET"} ${request.path}`;
    const first = await this.#usable();
    let reply = await this.#exchange(label, request, first, bodyTimeout);
    if (reply.statusCode === 401) {
      this.#credentials.refuse(first);
      let second = first;
      try {
        second = await this.#usable();
      } catch (error) {
        reply.body.destroy();
        throw error;
      }
      if (second !== first) {
        await reply.body.dump().catch(() => undefined);
        reply = await this.#exchange(label, request, second, bodyTimeout);
        if (reply.statusCode === 401) {
          this.#credentials.refuse(second);
        }
      }
    }
    if (reply.statusCode >= 200 && reply.statusCode < 300) {
      return { label, body: reply.body };
    }
    throw await refusal(label, reply);
  }

  /** Credentials that connections can be made with: while files are being replaced, a pair may not fit. */
  async #usable(): Promise<Credentials> {
    const credentials = await this.#credentials.current();
    try {
      this.#connections.with(credentials);
    } catch (error) {
      this.#credentials.refuse(credentials);
      throw error;
    }
    return credentials;
  }

  async #exchange(
    label: string,
    request: KubeRequest,
    credentials: Credentials,
    bodyTimeout: number,
  ): Promise<Dispatcher.ResponseData> {
    const { method = "GET", path, query = {}, body, contentType = "application/json", signal } = request;
    const search = new URLSearchParams(
      Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined),
    ).toString();
    try {
      return await this.#connections.with(credentials).request({
        origin: this.#origin,
        path: `${this.#prefix}${path}${search === "" ? "" : `?${search}`}`,
        method,
        headers: {
          accept: "application/json",
          "user-agent": this.#userAgent,
          ...(credentials.authorization === undefined ? {} : { authorization: credentials.authorization }),
          ...(body === undefined ? {} : { "content-type": contentType }),
        },
        body: body === undefined ? null : JSON.stringify(body),
        headersTimeout: HEADERS_TIMEOUT_MS,
        bodyTimeout,
        signal: signal ?? null,
      });
    } catch (error) {
      throw failure(label, error, signal);
    }
  }
}

async function* chunks(body: Readable, label: string, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of body) {
      yield chunk as Uint8Array;
    }
  } catch (error) {
    throw failure(label, error, signal);
  }
}

/** Reads what the server says beside an error status, within bounds. */
async function refusal(label: string, { statusCode, headers, body }: Dispatcher.ResponseData): Promise<KubeError> {
  const parts: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of body) {
      length += (chunk as Buffer).length;
      if (length > ERROR_BODY_CAP) {
        break;
      }
      parts.push(chunk as Buffer);
    }
  } catch {
    // The status is what counts.
  }
  const words = Buffer.concat(parts).toString("utf8");
  let status: unknown;
  try {
    status = JSON.parse(words);
  } catch {
    // Proxies and overloaded servers answer in plain text.
    status = { message: words };
  }
  return statusError(label, { ...record(status), code: statusCode }, statusCode, retryAfter(headers["retry-after"]));
}

/** Seconds or a date, as milliseconds from now. */
function retryAfter(header: string | string[] | undefined): number | undefined {
  const value = Array.isArray(header) ? header[0] : header;
  if (value === undefined) {
    return undefined;
  }
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  return Number.isFinite(ms) && ms > 0 ? ms : undefined;
}

/** Failures before a request was on its way. */
const UNREACHABLE = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ETIMEDOUT",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_CLOSED",
  "UND_ERR_DESTROYED",
]);
const TIMEOUTS = new Set(["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"]);

function failure(label: string, error: unknown, signal: AbortSignal | undefined): KubeError {
  if (signal?.aborted === true) {
    const { reason } = signal as { reason: unknown };
    return reason instanceof KubeError ? reason : new KubeError("aborted", `${label}: aborted`, { cause: reason });
  }
  if (error instanceof KubeError) {
    return error;
  }
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const words = `${label}: ${errorText(error)}`;
  if (TIMEOUTS.has(code)) {
    return new KubeError("timeout", words, { cause: error });
  }
  const tls = /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO|DEPTH_ZERO|SELF_SIGNED|HOSTNAME_|EPROTO)/.test(code);
  return new KubeError(tls || UNREACHABLE.has(code) ? "unreachable" : "connection_lost", words, { cause: error });
}
