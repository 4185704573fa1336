import { LOG_DIRECTIONS, LOG_LEVELS } from "@org/envd-client";
import { oneOf, queryOf, wholeNumber } from "../query.ts";
import type { Query } from "../query.ts";
import type { BuildLogQuery, BuildLogTimeQuery } from "./build-log.ts";

/** Longest page of a build's log. */
const MAX_PAGE_LINES = 100;

const common = {
  limit: wholeNumber({
    about: `How many lines the page has at most, and never more than ${MAX_PAGE_LINES}.`,
    max: Number.MAX_SAFE_INTEGER,
    fallback: MAX_PAGE_LINES,
  }),
  level: oneOf(LOG_LEVELS, { about: "Only lines of this level and the ones above.", fallback: "debug" }),
};

/** The query of a build's status. */
export const statusQuery: Query<BuildLogQuery> = queryOf(
  {
    ...common,
    logsOffset: wholeNumber({
      about: "How many lines of the level to pass over.",
      max: Number.MAX_SAFE_INTEGER,
      fallback: 0,
    }),
  },
  ({ limit, level, logsOffset }) => ({ limit: Math.min(limit, MAX_PAGE_LINES), level, offset: logsOffset }),
);

const direction = oneOf(LOG_DIRECTIONS, { about: "Oldest or newest lines first.", fallback: "forward" });

/** The query of a build's log. */
export const buildLogsQuery: Query<BuildLogTimeQuery> = queryOf(
  {
    ...common,
    direction,
    cursor: wholeNumber({
      about: "Where the page begins, in milliseconds since 1970.",
      max: Number.MAX_SAFE_INTEGER,
      fallback: undefined,
    }),
  },
  ({ limit, cursor, ...rest }) => ({ ...rest, limit: Math.min(limit, MAX_PAGE_LINES), cursorMs: cursor }),
);
