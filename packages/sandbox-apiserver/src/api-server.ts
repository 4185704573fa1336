import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type { HttpBindings, Http2Bindings } from "@hono/node-server";
import type { Logger, SandboxStore } from "@org/scale";
import type { Hono } from "hono";
import type { Authenticator, Authorizer } from "./security.ts";

/** What a request comes with: the raw request of Node's server. */
export interface ApiEnv {
  Bindings: HttpBindings | Http2Bindings;
}

/** What the server says of its build. */
export interface ServerVersion {
  /** A semantic version with or without `v`. */
  readonly version: string;
  readonly gitCommit?: string | undefined;
  /** RFC 3339. */
  readonly buildDate?: string | undefined;
}

/** Options of `createApiServer`. */
export interface ApiServerOptions {
  readonly store: SandboxStore;
  readonly authenticator: Authenticator;
  readonly authorizer: Authorizer;
  /** @default silent */
  readonly logger?: Logger | undefined;
  readonly version: ServerVersion;
  /**
   * Whether the inventory was complete once. Only `readyz` looks at it.
   * @default always
   */
  readonly ready?: (() => boolean) | undefined;
  /**
   * Whether a create of a name that is held is refused with 409.
   * @default false: it claims a second sandbox
   */
  readonly sandboxUnique?: boolean | undefined;
  /** `host:port` that discovery names. @default the host that the client asked */
  readonly serverAddress?: string | undefined;
  /** Current time in milliseconds. @default `Date.now` */
  readonly now?: (() => number) | undefined;
  /** How long a request that is no watch may take. @default 60000 */
  readonly requestTimeoutMs?: number | undefined;
  /** Requests in flight, watches apart. @default 400 reads and 200 writes */
  readonly maxInFlight?: { readonly reads?: number | undefined; readonly writes?: number | undefined } | undefined;
}

/** The application. */
export interface ApiServer {
  readonly app: Hono<ApiEnv>;
  /** For a server of Node that speaks HTTP/1.1 and HTTP/2. */
  readonly listener: (
    incoming: IncomingMessage | Http2ServerRequest,
    outgoing: ServerResponse | Http2ServerResponse,
  ) => Promise<void>;
  /** Makes `readyz` fail, so that no new clients come. Serving goes on. */
  shutdown(): void;
  /** Ends every watch within 2 s. */
  close(): void;
}
