import { LOG_DIRECTIONS, LOG_LEVELS, MAX_LOG_LINES } from "@org/envd-client";
import type { LogQuery } from "@org/envd-client";
import { anyText, oneOf, queryOf, wholeNumber } from "./query.ts";
import type { Query } from "./query.ts";

const MAX_PAGE_LINES = 1000;
const MAX_SEARCH_CHARS = 256;
const INT32_MAX = 2_147_483_647;

/** The query of `GET /sandboxes/{sandboxID}/logs`. Without a limit the page has all there is. */
export const logsQuery: Query<LogQuery> = queryOf(
  {
    start: wholeNumber({ about: "First moment of the page, in milliseconds since 1970.", fallback: undefined }),
    limit: wholeNumber({
      about: `How many lines the page has at most, and never more than ${MAX_LOG_LINES}.`,
      max: INT32_MAX,
      fallback: MAX_LOG_LINES,
    }),
  },
  ({ start, limit }) => ({ cursorMs: start, limit: Math.min(limit, MAX_LOG_LINES) }),
);

/** The query of `GET /v2/sandboxes/{sandboxID}/logs`. */
export const logsV2Query: Query<LogQuery> = queryOf(
  {
    cursor: wholeNumber({
      about: "Where the page begins, in milliseconds since 1970. Absent is the first moment, or the last one backward.",
      fallback: undefined,
    }),
    limit: wholeNumber({
      about: "How many lines the page has at most.",
      max: MAX_PAGE_LINES,
      fallback: MAX_PAGE_LINES,
    }),
    direction: oneOf(LOG_DIRECTIONS, { about: "Later or earlier lines than `cursor`.", fallback: undefined }),
    level: oneOf(LOG_LEVELS, { about: "Only lines of this level and the ones above.", fallback: undefined }),
    search: anyText("Only lines with this text.", { maxLength: MAX_SEARCH_CHARS }),
  },
  ({ cursor, ...rest }) => ({ ...rest, cursorMs: cursor }),
);
