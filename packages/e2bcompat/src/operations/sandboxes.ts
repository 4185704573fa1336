import { IDEMPOTENCY_KEY } from "../idempotency-key.ts";
import { listQuery, pageQuery } from "../list-query.ts";
import { logsQuery, logsV2Query } from "../logs-query.ts";
import { jsonBody, optionalJsonBody } from "../operation.ts";
import type { ErrorStatus, Operation, ReplyDeclaration } from "../operation.ts";
import { route } from "../route.ts";
import type { Route } from "../route.ts";
import { create } from "../routes/create.ts";
import { fork } from "../routes/fork.ts";
import { connect, pause, refresh, remove, resume, setLease } from "../routes/lifecycle.ts";
import { logs, logsV2 } from "../routes/logs.ts";
import { idsQuery, metrics, metricsOfMany, windowQuery } from "../routes/metrics.ts";
import { get, list } from "../routes/read.ts";
import { setNetwork } from "../routes/refused.ts";
import {
  forkReplies,
  logsReply,
  logsV2Reply,
  metricsOfManyReply,
  metricsReplies,
  sandboxDetail,
  sandboxDetails,
  sandboxReply,
} from "../wire/replies.ts";
import {
  connectBody,
  createSandbox,
  forkBody,
  pauseBody,
  refreshBody,
  resumeBody,
  setTimeoutBody,
} from "../wire/requests.ts";

const tag = "sandboxes";
/** Of a route about one sandbox: unknown, or unknown while a node is silent that may hold it. */
const UNKNOWN: readonly ErrorStatus[] = [404, 503];
const DONE: ReplyDeclaration = { about: "Done." };

const creating = {
  method: "POST",
  tag,
  summary: "Create a sandbox",
  details:
    "What cannot be honoured is refused before anything is claimed. A client that hangs up leaves no sandbox behind.",
  headers: [IDEMPOTENCY_KEY],
  body: jsonBody(createSandbox),
  replies: {
    201: {
      about: "The sandbox runs.",
      schema: sandboxReply,
      headers: ["ratelimit", "idempotent-replayed"],
      links: { sandboxID: "$response.body#/sandboxID" },
    },
  },
  errors: [404, 409, 429, 503],
  nodeRefusals: true,
} as const satisfies Partial<Operation>;

const connecting = {
  method: "POST",
  tag,
  summary: "Wake a sandbox, or lengthen its lease",
  body: optionalJsonBody(connectBody),
  replies: {
    200: { about: "It ran already.", schema: sandboxReply },
    201: { about: "It was paused, and runs again.", schema: sandboxReply },
  },
  errors: [...UNKNOWN, 409],
  nodeRefusals: true,
} as const satisfies Partial<Operation>;

/** Sandboxes. */
export const sandboxRoutes: readonly Route[] = [
  route({ ...creating, path: "/sandboxes", id: "createSandbox" }, (service, call, { body }) =>
    create(service, call, body),
  ),
  route({ ...creating, path: "/v2/sandboxes", id: "createSandboxV2" }, (service, call, { body }) =>
    create(service, call, body),
  ),
  route(
    {
      method: "GET",
      path: "/sandboxes",
      id: "listSandboxes",
      tag,
      summary: "List all sandboxes",
      query: listQuery,
      replies: { 200: { about: "All at once, newest first.", schema: sandboxDetails } },
    },
    (service, call, { query }) => list(service, call, query),
  ),
  route(
    {
      method: "GET",
      path: "/v2/sandboxes",
      id: "listSandboxPage",
      tag,
      summary: "List sandboxes page by page",
      query: pageQuery,
      replies: { 200: { about: "A page.", schema: sandboxDetails, headers: ["x-next-token"] } },
    },
    (service, call, { query }) => list(service, call, query),
  ),
  route(
    {
      method: "GET",
      path: "/sandboxes/metrics",
      id: "getMetricsOfMany",
      tag,
      summary: "Measure several sandboxes",
      query: idsQuery,
      replies: {
        200: { about: "The samples of those that have one, by the ids asked for.", schema: metricsOfManyReply },
      },
    },
    (service, call, { query }) => metricsOfMany(service, call, query),
  ),
  route(
    {
      method: "GET",
      path: "/sandboxes/{sandboxID}",
      id: "getSandbox",
      tag,
      summary: "Show a sandbox",
      replies: { 200: { about: "What its node says now.", schema: sandboxDetail } },
      errors: UNKNOWN,
      nodeRefusals: true,
    },
    (service, call, { params }) => get(service, call, params.sandboxID),
  ),
  route(
    {
      method: "DELETE",
      path: "/sandboxes/{sandboxID}",
      id: "killSandbox",
      tag,
      summary: "End a sandbox",
      replies: { 204: DONE },
      errors: UNKNOWN,
      nodeRefusals: true,
    },
    (service, call, { params }) => remove(service, call, params.sandboxID),
  ),
  route(
    {
      method: "POST",
      path: "/sandboxes/{sandboxID}/timeout",
      id: "setSandboxTimeout",
      tag,
      summary: "Set the end of the lease",
      details: "It ends that many seconds from now, also earlier than before.",
      body: jsonBody(setTimeoutBody),
      replies: { 204: DONE },
      errors: [...UNKNOWN, 409],
      nodeRefusals: true,
    },
    (service, call, { params, body }) => setLease(service, call, params.sandboxID, body),
  ),
  route(
    {
      method: "POST",
      path: "/sandboxes/{sandboxID}/refreshes",
      id: "refreshSandbox",
      tag,
      summary: "Begin the lease anew",
      body: optionalJsonBody(refreshBody),
      replies: { 204: DONE },
      errors: [...UNKNOWN, 409],
      nodeRefusals: true,
    },
    (service, call, { params, body }) => refresh(service, call, params.sandboxID, body),
  ),
  route(
    {
      method: "POST",
      path: "/sandboxes/{sandboxID}/pause",
      id: "pauseSandbox",
      tag,
      summary: "Pause a sandbox with its memory",
      body: optionalJsonBody(pauseBody),
      replies: { 204: DONE },
      errors: [...UNKNOWN, 409],
      nodeRefusals: true,
    },
    (service, call, { params }) => pause(service, call, params.sandboxID),
  ),
  route({ ...connecting, path: "/sandboxes/{sandboxID}/connect", id: "connectSandbox" }, (service, call, input) =>
    connect(service, call, input.params.sandboxID, input.body),
  ),
  route({ ...connecting, path: "/v2/sandboxes/{sandboxID}/connect", id: "connectSandboxV2" }, (service, call, input) =>
    connect(service, call, input.params.sandboxID, input.body),
  ),
  route(
    {
      method: "POST",
      path: "/sandboxes/{sandboxID}/resume",
      id: "resumeSandbox",
      tag,
      summary: "Wake a paused sandbox",
      body: optionalJsonBody(resumeBody),
      replies: { 201: { about: "It runs again.", schema: sandboxReply } },
      errors: [...UNKNOWN, 409],
      nodeRefusals: true,
    },
    (service, call, { params, body }) => resume(service, call, params.sandboxID, body),
  ),
  route(
    {
      method: "PUT",
      path: "/sandboxes/{sandboxID}/network",
      id: "setSandboxNetwork",
      tag,
      summary: "Refused: network rules are not supported",
      replies: {},
      errors: UNKNOWN,
    },
    (service, call, { params }) => setNetwork(service, call, params.sandboxID),
  ),
  route(
    {
      method: "POST",
      path: "/sandboxes/{sandboxID}/fork",
      id: "forkSandbox",
      tag,
      summary: "Copy a running sandbox",
      details: "All children or none. A client that hangs up leaves none behind.",
      body: optionalJsonBody(forkBody),
      replies: { 201: { about: "The children run.", schema: forkReplies, headers: ["ratelimit"] } },
      errors: [...UNKNOWN, 409, 429],
      nodeRefusals: true,
    },
    (service, call, { params, body }) => fork(service, call, params.sandboxID, body),
  ),
  route(
    {
      method: "GET",
      path: "/sandboxes/{sandboxID}/metrics",
      id: "getSandboxMetrics",
      tag,
      summary: "Measure a sandbox",
      query: windowQuery,
      replies: {
        200: {
          about: "The sample of now, if now lies in the window. A paused sandbox has none.",
          schema: metricsReplies,
        },
      },
      errors: UNKNOWN,
      nodeRefusals: true,
    },
    (service, call, { params, query }) => metrics(service, call, params.sandboxID, query),
  ),
  route(
    {
      method: "GET",
      path: "/sandboxes/{sandboxID}/logs",
      id: "getSandboxLogs",
      tag,
      summary: "Show what commands printed",
      query: logsQuery,
      replies: { 200: { about: "Every line twice, as older and as newer clients read it.", schema: logsReply } },
      errors: UNKNOWN,
      nodeRefusals: true,
    },
    (service, call, { params, query }) => logs(service, call, params.sandboxID, query),
  ),
  route(
    {
      method: "GET",
      path: "/v2/sandboxes/{sandboxID}/logs",
      id: "getSandboxLogsV2",
      tag,
      summary: "Show what commands printed",
      query: logsV2Query,
      replies: { 200: { about: "A page.", schema: logsV2Reply } },
      errors: UNKNOWN,
      nodeRefusals: true,
    },
    (service, call, { params, query }) => logsV2(service, call, params.sandboxID, query),
  ),
];
