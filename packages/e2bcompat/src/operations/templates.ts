import { jsonBody, optionalJsonBody } from "../operation.ts";
import type { Operation, ReplyDeclaration } from "../operation.ts";
import { route } from "../route.ts";
import type { Route } from "../route.ts";
import { removeTemplate } from "../routes/remove-template.ts";
import { createSnapshot, listSnapshots } from "../routes/snapshots.ts";
import { assignTags, listTags, removeTags } from "../routes/tags.ts";
import { findAlias, getTemplate, listTemplates, patchTemplate, patchTemplateV2 } from "../routes/templates.ts";
import { snapshotQuery } from "../snapshot-query.ts";
import {
  aliasReply,
  assignedTagsReply,
  snapshotReplies,
  snapshotReply,
  tagReplies,
  templateDetailReply,
  templateNamesReply,
  templateReplies,
} from "../wire/replies.ts";
import { assignTagsBody, removeTagsBody, snapshotBody, templatePatch } from "../wire/requests.ts";

const tag = "templates";
const DONE: ReplyDeclaration = { about: "Done." };

const listing = {
  method: "GET",
  tag,
  summary: "List templates",
  replies: { 200: { about: "Pool images, then the namespace's built templates.", schema: templateReplies } },
} as const satisfies Partial<Operation>;

const patching = {
  method: "PATCH",
  tag,
  summary: "Change a built template",
  body: optionalJsonBody(templatePatch),
  errors: [404],
} as const satisfies Partial<Operation>;

/** Snapshots and templates. */
export const templateRoutes: readonly Route[] = [
  route(
    {
      method: "POST",
      path: "/sandboxes/{sandboxID}/snapshots",
      id: "createSnapshot",
      tag: "snapshots",
      summary: "Make a snapshot of a sandbox, which goes on",
      body: optionalJsonBody(snapshotBody),
      replies: { 201: { about: "It is made.", schema: snapshotReply } },
      errors: [404, 409, 503],
      nodeRefusals: true,
    },
    (service, call, { params, body }) => createSnapshot(service, call, params.sandboxID, body),
  ),
  route(
    {
      method: "GET",
      path: "/snapshots",
      id: "listSnapshots",
      tag: "snapshots",
      summary: "List snapshots page by page",
      query: snapshotQuery,
      replies: { 200: { about: "A page, newest first.", schema: snapshotReplies, headers: ["x-next-token"] } },
    },
    (service, call, { query }) => listSnapshots(service, call, query),
  ),
  route({ ...listing, path: "/templates", id: "listTemplates" }, listTemplates),
  route({ ...listing, path: "/v2/templates", id: "listTemplatesV2" }, listTemplates),
  route(
    {
      method: "GET",
      // Before `/templates/{templateID}/tags`, which an alias "tags" would fit too.
      path: "/templates/aliases/{alias}",
      id: "findTemplateAlias",
      tag,
      summary: "Find the template that a name stands for",
      replies: { 200: { about: "There is one.", schema: aliasReply } },
      errors: [404],
    },
    (service, call, { params }) => findAlias(service, call, params.alias),
  ),
  route(
    {
      method: "POST",
      path: "/templates/tags",
      id: "assignTags",
      tag,
      summary: "Give tags to a build",
      body: jsonBody(assignTagsBody),
      replies: { 201: { about: "The build has them, on every node that holds it.", schema: assignedTagsReply } },
      errors: [404, 409],
      nodeRefusals: true,
    },
    (service, call, { body }) => assignTags(service, call, body),
  ),
  route(
    {
      method: "DELETE",
      path: "/templates/tags",
      id: "removeTags",
      tag,
      summary: "Take tags from a template",
      details: "All of them, or none when one is unknown.",
      body: jsonBody(removeTagsBody),
      replies: { 204: DONE },
      errors: [404, 409],
      nodeRefusals: true,
    },
    (service, call, { body }) => removeTags(service, call, body),
  ),
  route(
    {
      method: "GET",
      path: "/templates/{templateID}/tags",
      id: "listTags",
      tag,
      summary: "List the tags of a built template",
      replies: { 200: { about: "Its tags.", schema: tagReplies } },
      errors: [404],
    },
    (service, call, { params }) => listTags(service, call, params.templateID),
  ),
  route(
    {
      method: "GET",
      path: "/templates/{templateID}",
      id: "getTemplate",
      tag,
      summary: "Show a built template",
      replies: { 200: { about: "It and its builds.", schema: templateDetailReply } },
      errors: [404],
    },
    (service, call, { params }) => getTemplate(service, call, params.templateID),
  ),
  route(
    { ...patching, path: "/templates/{templateID}", id: "patchTemplate", replies: { 200: DONE } },
    (service, call, { params }) => patchTemplate(service, call, params.templateID),
  ),
  route(
    {
      ...patching,
      path: "/v2/templates/{templateID}",
      id: "patchTemplateV2",
      replies: { 200: { about: "Done.", schema: templateNamesReply } },
    },
    (service, call, { params }) => patchTemplateV2(service, call, params.templateID),
  ),
  route(
    {
      method: "DELETE",
      path: "/templates/{templateID}",
      id: "deleteTemplate",
      tag,
      summary: "Delete a built template or a snapshot",
      replies: { 204: { about: "No node holds it any more." } },
      errors: [404, 409],
      nodeRefusals: true,
    },
    (service, call, { params }) => removeTemplate(service, call, params.templateID),
  ),
];
