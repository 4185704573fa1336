import type { Negotiated } from "./negotiation.ts";
import type { RequestInfo } from "./request-info.ts";
import type { ApiUser, AuthorizationAttributes } from "./security.ts";

/** A request that was let through, with what handlers may see of it: no header that says who sent it. */
export interface ApiCall {
  readonly info: RequestInfo;
  readonly user: ApiUser;
  /** Fires when the client leaves and, but for watches, when the time is over. */
  readonly signal: AbortSignal;
  readonly accept: string | undefined;
  readonly contentType: string | undefined;
  readonly ifNoneMatch: string | undefined;
  /** Authority that the client asked. */
  readonly host: string;
  /**
   * Asks whether the user may do something else that the request comes to.
   * @throws ApiStatusError 403 when not
   */
  readonly require: (attributes: AuthorizationAttributes) => Promise<void>;
  /** @throws ApiStatusError 406 when no form that the client accepts can be made. */
  readonly negotiated: () => Negotiated;
  /** @throws ApiStatusError 413 for more than may be sent. */
  readonly body: () => Promise<Uint8Array>;
  /** Adds a warning to the answer. */
  readonly warn: (message: string) => void;
}

/** Answers a request. Its rejections become Status objects. */
export type ApiHandler = (call: ApiCall) => Response | Promise<Response>;

/** One method of one path. */
export interface ApiRoute {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** In Hono's spelling. */
  readonly path: string;
  readonly answer: ApiHandler;
}
