import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context } from "hono";
import { Hono } from "hono";
import type { Access } from "./api-keys.ts";
import { answerHeaders, failure, toResponse } from "./answer.ts";
import type { Answer } from "./answer.ts";
import { directOf } from "./call.ts";
import type { Call, Direct } from "./call.ts";
import { CLIENT_GONE, failureFor } from "./error-answers.ts";
import type { E2bError } from "./errors.ts";
import { endAnswer } from "./last-words.ts";
import type { AnsweredRequest } from "./metrics.ts";
import { requestIdOf } from "./request-id.ts";
import { buildRoutes } from "./operations/builds.ts";
import { sandboxRoutes } from "./operations/sandboxes.ts";
import { serviceRoutes } from "./operations/service.ts";
import { templateRoutes } from "./operations/templates.ts";
import type { Route } from "./route.ts";
import { superseded, unsupported } from "./routes/refused.ts";
import type { Settings } from "./options.ts";
import type { Service } from "./service.ts";

type Handler = (call: Call) => Answer | Promise<Answer>;

type Refused = readonly [method: string, path: string];

/** Single routes of the API that no deployment of ours serves. They are no part of the document. */
const UNSUPPORTED: readonly Refused[] = [
  ["GET", "/teams"],
  ["GET", "/teams/{teamID}/metrics"],
  ["GET", "/teams/{teamID}/metrics/max"],
];

/** Whole families that no deployment of ours serves, whatever the method. */
const UNSUPPORTED_TREES: readonly string[] = [
  "/volumes",
  "/volumecontent",
  "/secrets",
  "/nodes",
  "/admin",
  "/access-tokens",
  "/api-keys",
];

/** Old build routes. */
const SUPERSEDED: readonly Refused[] = [
  ["POST", "/templates"],
  ["POST", "/v2/templates"],
  ["POST", "/templates/{templateID}"],
  ["POST", "/templates/{templateID}/builds/{buildID}"],
];

/** Ids of a request in its log line. */
interface LogIds {
  readonly requestId: string;
  readonly sandboxId?: string | undefined;
}

/** A request that is being answered. */
interface Begun {
  readonly startedMs: number;
  readonly ended: (request: AnsweredRequest) => void;
}

function newId(context: Context): string {
  return requestIdOf(context.req.header("x-request-id"));
}

/** Stands in for a key on routes that ask for none. */
const NOBODY: Access = { namespace: "" };

/** The path as the client wrote it, without its query. */
function pathOf(context: Context): string {
  return new URL(context.req.url).pathname;
}

/** Every route of the API. Of two paths with variables that both fit, the earlier one is taken. */
export function routesOf({ settings }: { readonly settings: Pick<Settings, "authenticated"> }): readonly Route[] {
  const routes: Route[] = [...sandboxRoutes, ...templateRoutes, ...buildRoutes];
  routes.push(...serviceRoutes(routes, settings));
  return routes;
}

/** One method of one path, as it is mounted. */
interface Mounted {
  readonly method: string;
  readonly path: string;
  /** Whether clients are told of it. */
  readonly allowed: boolean;
  readonly answer: (context: Context) => Promise<Response>;
}

/** The methods of a path, for `Allow`. */
function allowedAt(path: string, mounted: readonly Mounted[]): string {
  return mounted
    .filter((one) => one.allowed && one.path === path)
    .flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method]))
    .join(", ");
}

function refuse(error: (method: string, path: string) => E2bError): Handler {
  return ({ context }) => {
    throw error(context.req.method, pathOf(context));
  };
}

/** Hono's spelling of a documented pattern. */
function honoPath(pattern: string): string {
  return pattern.replaceAll(/\{(\w+)\}/g, ":$1");
}

function write({ incoming, outgoing, closing }: Direct, answer: Answer): Response {
  const headers = answerHeaders(answer);
  const { undelivered } = answer;
  if (undelivered !== undefined) {
    outgoing.once("close", () => {
      if (!outgoing.writableFinished) {
        undelivered();
      }
    });
  }
  const length = answer.body === undefined ? undefined : { "content-length": Buffer.byteLength(answer.body) };
  const close = closing() ? { connection: "close" } : undefined;
  outgoing.writeHead(answer.status, { ...headers, ...length, ...close });
  endAnswer(incoming, outgoing, answer.body);
  return RESPONSE_ALREADY_SENT;
}

/**
 * Builds the application: one handler per route, which checks the key, answers and writes the access line. There is no
 * middleware, so that the application costs the same alone and inside another one.
 */
export function createApp(service: Service): Hono {
  const { ends } = service;
  const { logger, keys, cors, metrics } = service.settings;
  const routes = routesOf(service);
  const app = new Hono();

  const begin = (): Begun => ({ startedMs: performance.now(), ended: metrics.began() });

  const finish = (context: Context, route: string, begun: Begun, answer: Answer, ids: LogIds): Response => {
    const { status } = answer;
    const { method } = context.req;
    const durationMs = performance.now() - begun.startedMs;
    begun.ended({ method, route, status, durationMs });
    logger.info({ ...ids, method, route, status, durationMs: Math.round(durationMs * 10) / 10 }, "request");
    const browser = cors.headers(context.req.header("origin"));
    const shown = { ...answer, headers: { ...answer.headers, "x-request-id": ids.requestId, ...browser } };
    const direct = directOf(context);
    return direct === undefined ? toResponse(shown) : write(direct, shown);
  };

  /** Turns what a handler threw into an answer, and tells the log what the client is not told. */
  const failed = (error: unknown, pattern: string, call: Call): Answer => {
    const { requestId, sandboxId } = call;
    const gone = call.signal.aborted;
    const { answer, loudness } = failureFor(error);
    const level = gone ? "debug" : loudness;
    if (level !== undefined) {
      logger[level]({ requestId, route: pattern, sandboxId, err: error }, "request failed");
    }
    if (gone) {
      return failure(CLIENT_GONE, "the client closed the request");
    }
    const why = answer.status === 404 && sandboxId !== undefined ? ends.explain(call.namespace, sandboxId) : undefined;
    return why === undefined ? answer : failure(404, `sandbox not found: ${why}`);
  };

  const guarded =
    (pattern: string, handler: Handler, keyless = false) =>
    async (context: Context): Promise<Response> => {
      const begun = begin();
      const requestId = newId(context);
      const access = keyless ? NOBODY : keys.check(context.req.header("x-api-key"));
      if (access === undefined) {
        return finish(context, pattern, begun, failure(401, "invalid API key"), { requestId });
      }
      const { signal } = context.req.raw;
      const { namespace } = access;
      const direct = directOf(context);
      const call: Call = { context, direct, requestId, access, namespace, signal, sandboxId: undefined };
      let answer: Answer;
      try {
        answer = await handler(call);
      } catch (error) {
        answer = failed(error, pattern, call);
      }
      return finish(context, pattern, begun, answer, { requestId, sandboxId: call.sandboxId });
    };

  const refusal = ([method, path]: Refused, error: (method: string, path: string) => E2bError): Mounted => {
    return { method, path, allowed: false, answer: guarded(path, refuse(error)) };
  };

  const open =
    (pattern: string, answer: Answer) =>
    (context: Context): Response =>
      finish(context, pattern, begin(), answer, { requestId: newId(context) });

  if (cors.on) {
    app.options("*", (context, next) => {
      if (context.req.header("access-control-request-method") === undefined) {
        return next();
      }
      const answer = cors.preflight(context.req.header("access-control-request-headers"));
      return Promise.resolve(open("*", answer)(context));
    });
  }
  const mounted: readonly Mounted[] = [
    ...routes.map(({ method, path, run, keyless }) => {
      return { method, path, allowed: true, answer: guarded(path, (call) => run(service, call), keyless) };
    }),
    ...UNSUPPORTED.map((refused) => refusal(refused, unsupported)),
    ...SUPERSEDED.map((refused) => refusal(refused, superseded)),
  ];
  // A path without variables comes before those that would take its words for an id, also with a wrong method.
  for (const isVariable of [false, true]) {
    const some = mounted.filter(({ path }) => path.includes("{") === isVariable);
    for (const { method, path, answer } of some) {
      app.on(method, honoPath(path), answer);
    }
    for (const path of new Set(some.map((one) => one.path))) {
      const answer = failure(405, "method not allowed", { allow: allowedAt(path, some) });
      app.all(honoPath(path), open(path, answer));
    }
  }
  for (const tree of UNSUPPORTED_TREES) {
    const refused = guarded(`${tree}/*`, refuse(unsupported));
    app.all(tree, refused);
    app.all(`${tree}/*`, refused);
  }
  // A route of its own, and not only Hono's handler for unknown paths, which an application around this one replaces.
  app.all("*", open("*", failure(404, "not found")));
  app.onError((error, context) => {
    logger.error({ route: "*", err: error }, "request failed");
    return finish(context, "*", begin(), failure(500, "internal error"), { requestId: newId(context) });
  });
  return app;
}
