import type { Answer } from "./answer.ts";

const METHODS = "GET, POST, PUT, PATCH, DELETE";
/** Asked for when a browser names no headers, or writes them in a way that is not echoed. */
const USUAL_HEADERS = "x-api-key, authorization, content-type";
const HEADER_LIST = /^[A-Za-z0-9-]+(?:\s*,\s*[A-Za-z0-9-]+)*$/;

/** What browsers of any origin are told. The key is in a header, so there is no ambient authority to borrow. */
export const CORS_HEADERS: Readonly<Record<string, string>> = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": "x-next-token, retry-after",
};

/** The answer to a browser's question before a request with a key. */
export function preflight(requestedHeaders: string | undefined): Answer {
  const known = requestedHeaders !== undefined && HEADER_LIST.test(requestedHeaders);
  return {
    status: 204,
    headers: {
      "access-control-allow-methods": METHODS,
      "access-control-allow-headers": known ? requestedHeaders : USUAL_HEADERS,
      "access-control-max-age": "7200",
    },
  };
}
