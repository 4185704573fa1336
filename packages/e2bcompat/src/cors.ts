import type { Answer } from "./answer.ts";
import { E2bError } from "./errors.ts";

/** Pages of which origins may use the API: any, none, or those listed, such as `https://app.example.com`. */
export type CorsOrigins = "*" | "none" | readonly string[];

const METHODS = "GET, POST, PUT, PATCH, DELETE";
/** Asked for when a browser names no headers, or writes them in a way that is not echoed. */
const USUAL_HEADERS = "x-api-key, authorization, content-type, idempotency-key, x-request-id";
const EXPOSED = "x-next-token, x-request-id, retry-after, ratelimit, ratelimit-policy, idempotent-replayed";
/** Names as RFC 9110 has them: in a browser, the SDK sends some with underscores. */
const HEADER_LIST = /^[\w!#$%&'*+.^`|~-]+(?:\s*,\s*[\w!#$%&'*+.^`|~-]+)*$/;
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^/?#@,\s*"]+$/;

type Headers = Readonly<Record<string, string>>;

const ANY: Headers = { "access-control-allow-origin": "*", "access-control-expose-headers": EXPOSED };
const VARY: Headers = { vary: "origin" };
const NOTHING: Headers = {};

/** What browsers are told. The key is in a header, so there is no ambient authority that a page could borrow. */
export interface Cors {
  /** Whether any page may use the API. */
  readonly on: boolean;
  /** Of every answer to a request with this `Origin`. */
  headers(origin: string | undefined): Headers;
  /** The answer to a browser's question before a request with a key. */
  preflight(requestedHeaders: string | undefined): Answer;
}

/**
 * Reads `*`, `none` or a list with commas. Throws `invalid_options` naming what is no origin.
 */
export function parseOrigins(text: string): CorsOrigins {
  const value = text.trim();
  if (value === "*" || value === "none") {
    return value;
  }
  const origins = value.split(",").map((origin) => origin.trim().toLowerCase());
  checkOrigins(origins);
  return origins;
}

function checkOrigins(origins: readonly string[]): void {
  for (const origin of origins) {
    if (!ORIGIN.test(origin)) {
      throw new E2bError(
        "invalid_options",
        `${JSON.stringify(origin)} is not an origin such as https://app.example.com, nor is it "*" or "none"`,
      );
    }
  }
}

/** Throws `invalid_options` for what is no origin. */
export function createCors(origins: CorsOrigins): Cors {
  if (typeof origins !== "string") {
    checkOrigins(origins);
  }
  const listed =
    typeof origins === "string"
      ? undefined
      : new Map(
          origins.map((origin) => [
            origin,
            { ...VARY, "access-control-allow-origin": origin, "access-control-expose-headers": EXPOSED },
          ]),
        );
  return {
    on: origins !== "none",
    headers(origin) {
      if (listed !== undefined) {
        // Also an answer that names no origin depends on it, and caches must know.
        return listed.get(origin ?? "") ?? VARY;
      }
      return origins === "none" || origin === undefined ? NOTHING : ANY;
    },
    preflight(requestedHeaders) {
      const known = requestedHeaders !== undefined && HEADER_LIST.test(requestedHeaders);
      return {
        status: 204,
        headers: {
          "access-control-allow-methods": METHODS,
          "access-control-allow-headers": known ? requestedHeaders : USUAL_HEADERS,
          "access-control-max-age": "7200",
        },
      };
    },
  };
}
