import { createHash } from "node:crypto";
import type { ApiCall, ApiHandler } from "../api-call.ts";
import { notAcceptable } from "../api-status.ts";
import { GROUP_VERSION } from "../group.ts";
import { acceptClauses } from "../negotiation.ts";
import { openApiDocument } from "./document.ts";

/** Path of the list of documents. */
export const OPENAPI_ROOT = "/openapi/v3";

/** Path of the one document. */
export const OPENAPI_DOCUMENT: string = `${OPENAPI_ROOT}/apis/${GROUP_VERSION}`;

/** Choices of `Accept` that JSON satisfies. */
const JSON_TYPES: ReadonlySet<string> = new Set(["application/json", "application/*", "*/*"]);

/** Answers the list of documents, and the document: for ever under its hash. */
export function createOpenApi(version: string): { readonly root: ApiHandler; readonly document: ApiHandler } {
  const body = JSON.stringify(openApiDocument(version));
  const hash = createHash("sha512").update(body).digest("hex").toUpperCase();
  const etag = `"${hash}"`;
  const address = `${OPENAPI_DOCUMENT}?hash=${hash}`;
  const root = JSON.stringify({ paths: { [`apis/${GROUP_VERSION}`]: { serverRelativeURL: address } } });
  return {
    root: (call) => {
      requireJson(call);
      return new Response(root, { headers: { "content-type": "application/json" } });
    },
    document: (call) => {
      requireJson(call);
      const { info, ifNoneMatch } = call;
      const { query } = info;
      const asked = query.get("hash");
      if (asked !== null && asked !== hash) {
        return new Response(null, { status: 301, headers: { location: address } });
      }
      const caching = asked === null ? "no-cache" : "public, immutable";
      const headers = { etag, vary: "Accept", "cache-control": caching };
      return ifNoneMatch === etag
        ? new Response(null, { status: 304, headers })
        : new Response(body, { headers: { ...headers, "content-type": "application/json" } });
    },
  };
}

/** @throws ApiStatusError 406 for a client that takes no JSON: documents come in no other form. */
function requireJson({ accept }: ApiCall): void {
  const takesJson = acceptClauses(accept).some(({ type, parameters }) => JSON_TYPES.has(type) && !parameters.has("as"));
  if (!takesJson) {
    throw notAcceptable(["application/json"]);
  }
}
