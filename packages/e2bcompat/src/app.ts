import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context } from "hono";
import { Hono } from "hono";
import type { Access } from "./api-keys.ts";
import { answerHeaders, empty, failure, toResponse } from "./answer.ts";
import type { Answer } from "./answer.ts";
import { directOf } from "./call.ts";
import type { Call, Direct } from "./call.ts";
import { CLIENT_GONE, failureFor } from "./error-answers.ts";
import type { E2bError } from "./errors.ts";
import { endAnswer } from "./last-words.ts";
import { requestIdOf } from "./request-id.ts";
import { receiveUpload, uploadLink } from "./routes/build-files.ts";
import { buildLogs, buildStatus, requestBuild, startBuild } from "./routes/builds.ts";
import { create } from "./routes/create.ts";
import { fork } from "./routes/fork.ts";
import { connect, pause, refresh, remove, resume, setLease } from "./routes/lifecycle.ts";
import { logs, logsV2 } from "./routes/logs.ts";
import { metrics, metricsOfMany } from "./routes/metrics.ts";
import { get, listAll, listPage } from "./routes/read.ts";
import { setNetwork, superseded, unsupported } from "./routes/refused.ts";
import { removeTemplate } from "./routes/remove-template.ts";
import { createSnapshot, listSnapshots } from "./routes/snapshots.ts";
import { assignTags, listTags, removeTags } from "./routes/tags.ts";
import { findAlias, getTemplate, listTemplates, patchTemplate, patchTemplateV2 } from "./routes/templates.ts";
import type { Service } from "./service.ts";

type Handler = (call: Call) => Answer | Promise<Answer>;

interface Route {
  readonly method: string;
  /** As the API documents it, with `{name}` for a variable segment. */
  readonly pattern: string;
  readonly handler: Handler;
  /** Whether the request proves what it may do by something else than a key. @default false */
  readonly keyless?: boolean;
}

const UPLOAD = "/templates/{templateID}/files/{hash}";

const UNSUPPORTED: readonly (readonly [string, string])[] = [
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

const SUPERSEDED: readonly (readonly [string, string])[] = [
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

function newId(context: Context): string {
  return requestIdOf(context.req.header("x-request-id"));
}

/** Stands in for a key on routes that ask for none. */
const NOBODY: Access = { namespace: "" };

function param(call: Call, name: string): string {
  return call.context.req.param(name) ?? "";
}

/** The path as the client wrote it, without its query. */
function pathOf(context: Context): string {
  return new URL(context.req.url).pathname;
}

function routesOf(service: Service): readonly Route[] {
  const sandbox =
    (handler: (service: Service, call: Call, asked: string) => Answer | Promise<Answer>): Handler =>
    (call) =>
      handler(service, call, param(call, "sandboxID"));
  const plain =
    (handler: (service: Service, call: Call) => Answer | Promise<Answer>): Handler =>
    (call) =>
      handler(service, call);
  const refuse =
    (error: (method: string, path: string) => E2bError) =>
    ([method, pattern]: readonly [string, string]): Route => ({
      method,
      pattern,
      handler: ({ context }) => {
        throw error(context.req.method, pathOf(context));
      },
    });
  const template =
    (handler: (service: Service, call: Call, asked: string) => Answer | Promise<Answer>): Handler =>
    (call) =>
      handler(service, call, param(call, "templateID"));
  type OfTwo = (service: Service, call: Call, asked: string, of: string) => Answer | Promise<Answer>;
  const ofTemplate =
    (name: string) =>
    (handler: OfTwo): Handler =>
    (call) =>
      handler(service, call, param(call, "templateID"), param(call, name));
  const build = ofTemplate("buildID");
  const upload = ofTemplate("hash");
  return [
    { method: "POST", pattern: "/sandboxes", handler: plain(create) },
    { method: "POST", pattern: "/v2/sandboxes", handler: plain(create) },
    { method: "GET", pattern: "/sandboxes", handler: plain(listAll) },
    { method: "GET", pattern: "/v2/sandboxes", handler: plain(listPage) },
    // Before `/sandboxes/{sandboxID}`, which would take "metrics" for an id.
    { method: "GET", pattern: "/sandboxes/metrics", handler: plain(metricsOfMany) },
    { method: "GET", pattern: "/sandboxes/{sandboxID}", handler: sandbox(get) },
    { method: "DELETE", pattern: "/sandboxes/{sandboxID}", handler: sandbox(remove) },
    { method: "POST", pattern: "/sandboxes/{sandboxID}/timeout", handler: sandbox(setLease) },
    { method: "POST", pattern: "/sandboxes/{sandboxID}/refreshes", handler: sandbox(refresh) },
    { method: "POST", pattern: "/sandboxes/{sandboxID}/pause", handler: sandbox(pause) },
    { method: "POST", pattern: "/sandboxes/{sandboxID}/connect", handler: sandbox(connect) },
    { method: "POST", pattern: "/v2/sandboxes/{sandboxID}/connect", handler: sandbox(connect) },
    { method: "POST", pattern: "/sandboxes/{sandboxID}/resume", handler: sandbox(resume) },
    { method: "PUT", pattern: "/sandboxes/{sandboxID}/network", handler: sandbox(setNetwork) },
    { method: "POST", pattern: "/sandboxes/{sandboxID}/fork", handler: sandbox(fork) },
    { method: "POST", pattern: "/sandboxes/{sandboxID}/snapshots", handler: sandbox(createSnapshot) },
    { method: "GET", pattern: "/sandboxes/{sandboxID}/metrics", handler: sandbox(metrics) },
    { method: "GET", pattern: "/sandboxes/{sandboxID}/logs", handler: sandbox(logs) },
    { method: "GET", pattern: "/v2/sandboxes/{sandboxID}/logs", handler: sandbox(logsV2) },
    { method: "GET", pattern: "/snapshots", handler: plain(listSnapshots) },
    { method: "GET", pattern: "/templates", handler: plain(listTemplates) },
    { method: "GET", pattern: "/v2/templates", handler: plain(listTemplates) },
    {
      method: "GET",
      pattern: "/templates/aliases/{alias}",
      handler: (call) => findAlias(service, call, param(call, "alias")),
    },
    // Before `/templates/{templateID}`, which would take "tags" for a name.
    { method: "POST", pattern: "/templates/tags", handler: plain(assignTags) },
    { method: "DELETE", pattern: "/templates/tags", handler: plain(removeTags) },
    { method: "GET", pattern: "/templates/{templateID}/tags", handler: template(listTags) },
    { method: "GET", pattern: "/templates/{templateID}", handler: template(getTemplate) },
    { method: "PATCH", pattern: "/templates/{templateID}", handler: template(patchTemplate) },
    { method: "PATCH", pattern: "/v2/templates/{templateID}", handler: template(patchTemplateV2) },
    { method: "DELETE", pattern: "/templates/{templateID}", handler: template(removeTemplate) },
    ...UNSUPPORTED.map(refuse(unsupported)),
    ...SUPERSEDED.map(refuse(superseded)),
    { method: "POST", pattern: "/v3/templates", handler: plain(requestBuild) },
    { method: "GET", pattern: UPLOAD, handler: upload(uploadLink) },
    { method: "PUT", pattern: UPLOAD, handler: upload(receiveUpload), keyless: true },
    { method: "POST", pattern: "/v2/templates/{templateID}/builds/{buildID}", handler: build(startBuild) },
    { method: "GET", pattern: "/templates/{templateID}/builds/{buildID}/status", handler: build(buildStatus) },
    { method: "GET", pattern: "/templates/{templateID}/builds/{buildID}/logs", handler: build(buildLogs) },
  ];
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
  const { logger, keys, cors } = service.settings;
  const app = new Hono();

  const finish = (context: Context, pattern: string, startedMs: number, answer: Answer, ids: LogIds): Response => {
    const status = answer.status;
    const durationMs = Math.round((performance.now() - startedMs) * 10) / 10;
    logger.info({ ...ids, method: context.req.method, route: pattern, status, durationMs }, "request");
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
      const startedMs = performance.now();
      const requestId = newId(context);
      const access = keyless ? NOBODY : keys.check(context.req.header("x-api-key"));
      if (access === undefined) {
        return finish(context, pattern, startedMs, failure(401, "invalid API key"), { requestId });
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
      return finish(context, pattern, startedMs, answer, { requestId, sandboxId: call.sandboxId });
    };

  const open =
    (pattern: string, answer: Answer) =>
    (context: Context): Response =>
      finish(context, pattern, performance.now(), answer, { requestId: newId(context) });

  if (cors.on) {
    app.options("*", (context, next) => {
      if (context.req.header("access-control-request-method") === undefined) {
        return next();
      }
      const answer = cors.preflight(context.req.header("access-control-request-headers"));
      return Promise.resolve(open("*", answer)(context));
    });
  }
  app.get("/health", open("/health", empty(204)));
  const routes = routesOf(service);
  for (const { method, pattern, handler, keyless } of routes) {
    app.on(method, honoPath(pattern), guarded(pattern, handler, keyless));
  }
  for (const tree of UNSUPPORTED_TREES) {
    const refuse = guarded(`${tree}/*`, ({ context }) => {
      throw unsupported(context.req.method, pathOf(context));
    });
    app.all(tree, refuse);
    app.all(`${tree}/*`, refuse);
  }
  for (const pattern of new Set(["/health", ...routes.map((route) => route.pattern)])) {
    app.all(honoPath(pattern), open(pattern, failure(405, "method not allowed")));
  }
  // A route of its own, and not only Hono's handler for unknown paths, which an application around this one replaces.
  app.all("*", open("*", failure(404, "not found")));
  app.onError((error, context) => {
    logger.error({ route: "*", err: error }, "request failed");
    return finish(context, "*", performance.now(), failure(500, "internal error"), { requestId: newId(context) });
  });
  return app;
}
