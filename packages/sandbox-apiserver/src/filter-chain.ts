import { randomUUID } from "node:crypto";
import { isScaleError } from "@org/scale";
import type { Logger } from "@org/scale";
import type { Context } from "hono";
import type { ApiEnv } from "./api-server.ts";
import type { ApiCall, ApiHandler } from "./api-call.ts";
import { statusAnswer } from "./answer.ts";
import {
  ApiStatusError,
  forbidden,
  forbiddenPath,
  internalError,
  methodNotAllowed,
  timedOut,
  unauthorized,
} from "./api-status.ts";
import type { InFlight } from "./in-flight.ts";
import { negotiate, negotiatePlain } from "./negotiation.ts";
import type { NegotiationHints } from "./negotiation.ts";
import { readBody } from "./request-body.ts";
import { timeoutOf, withinDeadline } from "./request-deadline.ts";
import { isWatch, requestInfo } from "./request-info.ts";
import type { RequestInfo } from "./request-info.ts";
import { scaleStatus } from "./scale-status.ts";
import type { ApiUser, AuthorizationAttributes, Authenticator, Authorizer } from "./security.ts";
import { Warnings } from "./warnings.ts";

/** What a {@link FilterChain} works with. */
export interface FilterParts {
  readonly authenticator: Authenticator;
  readonly authorizer: Authorizer;
  readonly inFlight: InFlight;
  readonly logger: Logger;
  readonly requestTimeoutMs: number;
  /** Told of each answer. */
  readonly onAnswer?: ((answered: Answered) => void) | undefined;
}

/** A request that was answered. For a watch the duration ends with the head of its answer. */
export interface Answered {
  readonly attributes: AuthorizationAttributes | undefined;
  readonly status: number;
  readonly durationMs: number;
}

/** Ids of requests as other servers give them. */
const AUDIT_ID = /^[\x21-\x7e]{1,64}$/;

/** Status in the log of a request whose client is gone. Nobody receives it. */
const CLIENT_GONE = 499;

/**
 * What every request passes before its handler and every answer after it: an id, who it is from, whether that is
 * allowed, bounds in number and time, errors as Status objects, one line in the log. Kube specification §4.
 */
export class FilterChain {
  readonly #parts: FilterParts;

  constructor(parts: FilterParts) {
    this.#parts = parts;
  }

  /** Answers a request by a handler. Never rejects. */
  async answer(context: Context<ApiEnv>, handler: ApiHandler): Promise<Response> {
    const { logger, onAnswer } = this.#parts;
    const startedMs = performance.now();
    const { req } = context;
    const auditId = auditIdOf(req.header("audit-id"));
    const warnings = new Warnings();
    const { method } = req;
    const url = pathAndQuery(req.url);
    let info: RequestInfo | undefined;
    let user: ApiUser | undefined;
    let response: Response;
    try {
      info = requestInfo(method, url);
      response = await this.#admitted(context, info, warnings, handler, (found) => {
        user = found;
      });
    } catch (error) {
      const gone = req.raw.signal.aborted;
      const status = statusOf(error, info?.name ?? "");
      const level = gone ? "debug" : loudness(status);
      if (level !== undefined) {
        logger[level]({ requestId: auditId, err: error }, "request failed");
      }
      response = statusAnswer(status, negotiatePlain(req.header("accept"), hintsOf(context, info)));
    }
    response.headers.set("audit-id", auditId);
    if (!response.headers.has("cache-control")) {
      response.headers.set("cache-control", "no-cache, private");
    }
    warnings.appendTo(response.headers);
    const durationMs = Math.round((performance.now() - startedMs) * 10) / 10;
    const status = req.raw.signal.aborted ? CLIENT_GONE : response.status;
    onAnswer?.({ attributes: info?.attributes, status, durationMs });
    const line = { requestId: auditId, method, path: info?.path, user: user?.name, status, durationMs };
    logger.info(line, "request");
    return response;
  }

  async #admitted(
    context: Context<ApiEnv>,
    info: RequestInfo,
    warnings: Warnings,
    handler: ApiHandler,
    onUser: (user: ApiUser) => void,
  ): Promise<Response> {
    const { inFlight, requestTimeoutMs } = this.#parts;
    const clientSignal = context.req.raw.signal;
    const work = async (signal: AbortSignal): Promise<Response> => {
      const user = await this.#authenticated(context, signal);
      onUser(user);
      const leave = inFlight.enter(info, user.groups);
      try {
        const authorize = (attributes: AuthorizationAttributes): Promise<void> =>
          this.#authorized(attributes, user, signal);
        await authorize(info.attributes);
        if (info.method === "HEAD") {
          throw methodNotAllowed();
        }
        return await handler(callOf(context, { info, user, signal, warnings, authorize }));
      } finally {
        leave();
      }
    };
    const timeoutMs = timeoutOf(info.query, requestTimeoutMs);
    return isWatch(info) ? work(clientSignal) : withinDeadline(work, { timeoutMs, signal: clientSignal });
  }

  async #authenticated(context: Context<ApiEnv>, signal: AbortSignal): Promise<ApiUser> {
    const outcome = await this.#parts.authenticator.authenticate(context.env.incoming, { signal });
    if (outcome.kind === "rejected") {
      throw unauthorized();
    }
    if ([...context.req.raw.headers.keys()].some((name) => name.startsWith("impersonate-"))) {
      throw forbiddenPath(
        `User ${JSON.stringify(outcome.user.name)} cannot impersonate: this server does not let anybody`,
      );
    }
    return outcome.user;
  }

  async #authorized(attributes: AuthorizationAttributes, user: ApiUser, signal: AbortSignal): Promise<void> {
    const decision = await this.#parts.authorizer.authorize(user, attributes, { signal });
    if (decision !== "allow") {
      throw refusal(user, attributes);
    }
  }
}

/** The answer to whoever may not do what it wants. */
function refusal(user: ApiUser, attributes: AuthorizationAttributes): ApiStatusError {
  const who = `User ${JSON.stringify(user.name)} cannot`;
  if (attributes.kind === "path") {
    return forbiddenPath(`${who} ${attributes.verb} path ${JSON.stringify(attributes.path)}`);
  }
  const { verb, resource, subresource, group, namespace } = attributes;
  const what = subresource === undefined ? resource : `${resource}/${subresource}`;
  const where = namespace === undefined ? "at the cluster scope" : `in the namespace ${JSON.stringify(namespace)}`;
  return forbidden(
    `${who} ${verb} resource ${JSON.stringify(what)} in API group ${JSON.stringify(group)} ${where}`,
    attributes.name,
    { group, resource },
  );
}

function statusOf(error: unknown, name: string): ApiStatusError {
  if (error instanceof ApiStatusError) {
    return error;
  }
  if (isScaleError(error)) {
    return scaleStatus(error, name);
  }
  if (error instanceof Error && error.name === "AbortError") {
    return timedOut(error);
  }
  return internalError("the request could not be answered", error);
}

/** How loud the log is about a failure. A node that refuses the fleet's token needs somebody to look. */
function loudness(status: ApiStatusError): "warn" | "error" | undefined {
  const { code, cause } = status;
  if (code < 500) {
    return undefined;
  }
  const refusedToken = isScaleError(cause) && (cause.status === 401 || cause.status === 403);
  return code === 500 && (refusedToken || !isScaleError(cause)) ? "error" : "warn";
}

function auditIdOf(given: string | undefined): string {
  return given !== undefined && AUDIT_ID.test(given) ? given : randomUUID();
}

/** The request line's target of an absolute URL. */
function pathAndQuery(url: string): string {
  return url.replace(/^[a-z]+:\/\/[^/?]*/i, "") || "/";
}

function hintsOf(context: Context<ApiEnv>, info: RequestInfo | undefined): NegotiationHints {
  return { query: info?.query, userAgent: context.req.header("user-agent") };
}

/** What was found out of a request. */
interface Admitted extends Pick<ApiCall, "info" | "user" | "signal"> {
  readonly warnings: Warnings;
  readonly authorize: ApiCall["require"];
}

function callOf(context: Context<ApiEnv>, { info, user, signal, warnings, authorize }: Admitted): ApiCall {
  const { req } = context;
  const accept = req.header("accept");
  return {
    info,
    user,
    signal,
    accept,
    contentType: req.header("content-type"),
    ifNoneMatch: req.header("if-none-match"),
    host: new URL(req.url).host,
    require: authorize,
    negotiated: () => negotiate(accept, hintsOf(context, info)),
    body: () => readBody(req.raw),
    warn: (message) => warnings.add(message),
  };
}
