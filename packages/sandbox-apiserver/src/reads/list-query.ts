import { badRequest, invalid } from "../api-status.ts";
import { parseContinue } from "./continue-token.ts";
import type { ContinuePoint } from "./continue-token.ts";

/** The part of a list's query that is not a selector. */
export interface ListQuery {
  /** 0 lists everything. */
  readonly limit: number;
  readonly after: ContinuePoint | undefined;
}

/** The part of a watch's query that is not a selector. */
export interface WatchQuery {
  /** Empty when none is given. */
  readonly resourceVersion: string;
  /** Whether what is there is sent first; `undefined` leaves it to the version. */
  readonly initialEvents: boolean | undefined;
  readonly bookmarks: boolean;
  /** 0 leaves it to the server. */
  readonly timeoutSeconds: number;
}

const MATCHES: readonly string[] = ["Exact", "NotOlderThan"];
const OPTIONS = { group: "meta.k8s.io", kind: "ListOptions" } as const;

/**
 * Reads the query of a list. Versions are taken and not held against anything: what is sent is the newest there is,
 * which satisfies every version but an exact one, and no older state is kept.
 * @throws ApiStatusError 400 for what cannot be read, 422 for what cannot go together.
 */
export function readListQuery(query: URLSearchParams): ListQuery {
  const version = query.get("resourceVersion") ?? "";
  const match = query.get("resourceVersionMatch") ?? "";
  const token = query.get("continue") ?? "";
  if (query.has("sendInitialEvents")) {
    throw forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
  }
  if (match !== "") {
    checkMatch(match);
    if (version === "") {
      throw forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided");
    }
    if (token !== "") {
      throw forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
    }
    if (match === "Exact" && version === "0") {
      throw forbidden("resourceVersionMatch", 'resourceVersionMatch "Exact" is forbidden for resourceVersion "0"');
    }
  }
  if (token !== "" && version !== "" && version !== "0") {
    throw badRequest("specifying resource version is not allowed when using continue");
  }
  return {
    limit: wholeNumber(query, "limit"),
    after: token === "" ? undefined : parseContinue(token),
  };
}

/**
 * Reads the query of a watch.
 * @throws ApiStatusError 400 for what cannot be read, 422 for what cannot go together.
 */
export function readWatchQuery(query: URLSearchParams): WatchQuery {
  const match = query.get("resourceVersionMatch") ?? "";
  const initialEvents = flag(query, "sendInitialEvents");
  if (initialEvents === undefined && match !== "") {
    throw forbidden(
      "resourceVersionMatch",
      "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
    );
  }
  if (initialEvents !== undefined && match !== "NotOlderThan") {
    if (match !== "") {
      checkMatch(match);
    }
    throw forbidden("resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
  }
  return {
    resourceVersion: query.get("resourceVersion") ?? "",
    initialEvents,
    bookmarks: flag(query, "allowWatchBookmarks") === true,
    timeoutSeconds: wholeNumber(query, "timeoutSeconds"),
  };
}

function checkMatch(match: string): void {
  if (!MATCHES.includes(match)) {
    const message = `Unsupported value: ${JSON.stringify(match)}: supported values: ${MATCHES.map((one) => JSON.stringify(one)).join(", ")}`;
    throw invalid([{ reason: "FieldValueNotSupported", field: "resourceVersionMatch", message }], OPTIONS);
  }
}

function forbidden(field: string, why: string): Error {
  return invalid([{ reason: "FieldValueForbidden", field, message: `Forbidden: ${why}` }], OPTIONS);
}

/** A flag of the query; given without a value it is set. */
function flag(query: URLSearchParams, name: string): boolean | undefined {
  const given = query.get(name)?.toLowerCase();
  return given === undefined ? undefined : given !== "false" && given !== "0";
}

/** A number of the query; 0 when it is not given, and for less than that. */
function wholeNumber(query: URLSearchParams, name: string): number {
  const given = query.get(name) ?? "";
  if (!/^(?:[+-]?\d{1,15})?$/.test(given)) {
    throw badRequest(`${name}: ${JSON.stringify(given)} is no whole number`);
  }
  return Math.max(0, Number(given));
}
