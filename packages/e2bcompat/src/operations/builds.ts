import { buildLogsQuery, statusQuery } from "../builds/build-query.ts";
import { buildLogsReply, buildRequest, buildStatus as statusReply } from "../builds/build-reply.ts";
import { buildStart, templateRequest } from "../builds/build-requests.ts";
import { uploadQuery } from "../builds/upload-signature.ts";
import { jsonBody } from "../operation.ts";
import { route } from "../route.ts";
import type { Route } from "../route.ts";
import { receiveUpload, uploadLink } from "../routes/build-files.ts";
import { buildLogs, buildsOf, buildStatus, requestBuild, startBuild } from "../routes/builds.ts";
import { uploadLinkReply } from "../wire/replies.ts";

const tag = "builds";

/** Template builds. A deployment without them answers each with 404. */
export const buildRoutes: readonly Route[] = [
  route(
    {
      method: "POST",
      path: "/v3/templates",
      id: "requestBuild",
      tag,
      summary: "Ask for a build, which waits to be started",
      requires: buildsOf,
      body: jsonBody(templateRequest),
      replies: {
        202: {
          about: "It waits.",
          schema: buildRequest,
          links: { templateID: "$response.body#/templateID", buildID: "$response.body#/buildID" },
        },
      },
      errors: [404],
    },
    (service, call, { body }) => requestBuild(service, call, body),
  ),
  route(
    {
      method: "GET",
      path: "/templates/{templateID}/files/{hash}",
      id: "getUploadLink",
      tag,
      summary: "Ask where to upload files",
      replies: { 201: { about: "Whether they are there, and else where they go.", schema: uploadLinkReply } },
      errors: [404],
    },
    (service, call, { params }) => uploadLink(service, call, params.templateID, params.hash),
  ),
  route(
    {
      method: "PUT",
      path: "/templates/{templateID}/files/{hash}",
      id: "uploadFiles",
      tag,
      summary: "Upload files to an address that was given out",
      details: "It needs no key: the address is signed.",
      keyless: true,
      query: uploadQuery,
      body: { kind: "bytes", about: "A tar archive, compressed or not." },
      replies: { 200: { about: "The files are there." } },
      errors: [404, 413],
    },
    (service, call, { params, query }) => receiveUpload(service, call, params.templateID, params.hash, query),
  ),
  route(
    {
      method: "POST",
      path: "/v2/templates/{templateID}/builds/{buildID}",
      id: "startBuild",
      tag,
      summary: "Start a build",
      details: "Started again, it is left alone.",
      requires: buildsOf,
      body: jsonBody(buildStart),
      replies: { 202: { about: "It runs." } },
      errors: [404, 429],
    },
    (service, call, { params, body }) => startBuild(service, call, params.templateID, params.buildID, body),
  ),
  route(
    {
      method: "GET",
      path: "/templates/{templateID}/builds/{buildID}/status",
      id: "getBuildStatus",
      tag,
      summary: "Show how a build goes on",
      query: statusQuery,
      replies: { 200: { about: "Its state and the lines of its log.", schema: statusReply } },
      errors: [404],
    },
    (service, call, { params, query }) => buildStatus(service, call, params.templateID, params.buildID, query),
  ),
  route(
    {
      method: "GET",
      path: "/templates/{templateID}/builds/{buildID}/logs",
      id: "getBuildLogs",
      tag,
      summary: "Show the log of a build",
      query: buildLogsQuery,
      replies: { 200: { about: "A page.", schema: buildLogsReply } },
      errors: [404],
    },
    (service, call, { params, query }) => buildLogs(service, call, params.templateID, params.buildID, query),
  ),
];
