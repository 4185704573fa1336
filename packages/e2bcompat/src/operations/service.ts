import { empty } from "../answer.ts";
import type { Settings } from "../options.ts";
import { createDocument, DOCUMENT_PATH } from "../openapi/document.ts";
import { serveDocument } from "../openapi/serve-document.ts";
import { route } from "../route.ts";
import type { Route } from "../route.ts";
import { documentReply } from "../wire/replies.ts";

const tag = "service";

/** The routes about the service itself. Its document describes `routes`, which may grow until it is first asked for. */
export function serviceRoutes(
  routes: readonly Route[],
  { authenticated }: Pick<Settings, "authenticated">,
): readonly Route[] {
  const answer = serveDocument((base) => createDocument(routes, { authenticated, base }));
  return [
    route(
      {
        method: "GET",
        path: "/health",
        id: "checkHealth",
        tag,
        summary: "Tell that the service answers",
        keyless: true,
        replies: { 204: { about: "It does." } },
      },
      () => empty(204),
    ),
    route(
      {
        method: "GET",
        path: DOCUMENT_PATH,
        id: "getOpenApi",
        tag,
        summary: "Show this document",
        keyless: true,
        replies: {
          200: { about: "An OpenAPI 3.1 document.", headers: ["etag", "cache-control"], schema: documentReply },
          304: { about: "It is the one with the tag in `If-None-Match`.", headers: ["etag", "cache-control"] },
        },
      },
      (_service, call) => answer(call),
    ),
  ];
}
