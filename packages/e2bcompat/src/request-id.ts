import { randomUUID } from "node:crypto";

/** What may stand in a log line and a header as it is. */
const REQUEST_ID = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;

/** The id that a request is logged and answered with: its own `X-Request-Id` when that is one, else a new one. */
export function requestIdOf(header: string | undefined): string {
  return header !== undefined && REQUEST_ID.test(header) ? header : randomUUID();
}
