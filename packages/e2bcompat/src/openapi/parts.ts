import { FILES_HASH } from "../builds/build-steps.ts";
import type { JsonSchema } from "../query.ts";
import type { ErrorStatus, ReplyHeader, Tag } from "../operation.ts";

/** What stands in the place of `{name}` in paths. */
export const PATH_PARAMETERS: Readonly<Record<string, { readonly about: string; readonly pattern?: RegExp }>> = {
  sandboxID: { about: "Id of a sandbox, as its creation answered it." },
  templateID: { about: "Name of a template; where one is deleted, also the id of a snapshot." },
  alias: { about: "An alias, a pool image or the name of a built template." },
  hash: { about: "SHA-256 of what is uploaded.", pattern: FILES_HASH },
  buildID: { about: "Id of a build, as its request answered it." },
};

/** Chapters of the document. */
export const TAGS: Readonly<Record<Tag, string>> = {
  sandboxes: "Sandboxes and their leases.",
  snapshots: "Copies of sandboxes that sandboxes can be made of.",
  templates: "Pool images and built templates.",
  builds: "Template builds. A deployment without them answers 404.",
  service: "The service itself.",
};

interface Header {
  readonly description: string;
  readonly schema: JsonSchema;
  readonly required?: boolean;
}

/** Headers of answers, by the name under which the document has them. */
export const HEADERS: Readonly<Record<string, Header>> = {
  "X-Request-Id": {
    description: "The request's own `X-Request-Id` when that can be one, else a new one. The log has it too.",
    schema: { type: "string" },
    required: true,
  },
  "Retry-After": { description: "When to ask again, in seconds.", schema: { type: "integer", minimum: 1 } },
  "RateLimit-Policy": { description: "The limits of the key, if it has any.", schema: { type: "string" } },
  RateLimit: { description: "What the limits of the key leave.", schema: { type: "string" } },
  "X-Next-Token": {
    description: "`nextToken` of the next page. The last page has none.",
    schema: { type: "string", minLength: 1 },
  },
  "Idempotent-Replayed": {
    description: "The sandbox was made by an earlier request with the same `Idempotency-Key`.",
    schema: { const: "true" },
  },
  ETag: { description: "Changes with the document.", schema: { type: "string" }, required: true },
  "Cache-Control": { description: "How long it may be kept.", schema: { type: "string" }, required: true },
};

/** Which of {@link HEADERS} a declaration means. */
export const HEADERS_OF: Readonly<Record<ReplyHeader, readonly string[]>> = {
  "x-next-token": ["X-Next-Token"],
  ratelimit: ["RateLimit-Policy", "RateLimit"],
  "idempotent-replayed": ["Idempotent-Replayed"],
  etag: ["ETag"],
  "cache-control": ["Cache-Control"],
};

/** One kind of error answer. */
export interface ErrorAnswer {
  readonly name: string;
  readonly about: string;
  readonly headers?: readonly string[];
}

/** Error answers by status. */
export const ERRORS: Readonly<Record<400 | 401 | 500 | ErrorStatus, ErrorAnswer>> = {
  400: { name: "BadRequest", about: "Malformed, or asks for what cannot be honoured. Nothing was done." },
  401: {
    name: "Unauthorized",
    about: "No key or a wrong one; of an upload, an address that is not or no longer good.",
  },
  404: { name: "NotFound", about: "Unknown here, or of another namespace." },
  409: {
    name: "Conflict",
    about: "It is in a state in which this cannot be done, or a key was used for another request.",
  },
  413: { name: "TooLarge", about: "The upload is over its bound." },
  429: {
    name: "Limited",
    about: "A limit is reached, or too much runs at once.",
    headers: ["Retry-After", "RateLimit-Policy", "RateLimit"],
  },
  500: { name: "Failed", about: "A node, a guest or the service failed." },
  503: {
    name: "Unavailable",
    about: "Nothing is warm right now, or an unknown sandbox while a node is silent.",
    headers: ["Retry-After"],
  },
};

/** What a node refuses is answered with its own status. */
export const NODE_REFUSED: ErrorAnswer = {
  name: "NodeRefused",
  about: "The node refused, with its own status and reason.",
};
