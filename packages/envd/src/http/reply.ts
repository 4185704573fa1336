import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";

import type { EnvdError } from "../errors.ts";

/** One request on its way through the layers. */
export interface Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly method: string;
  /** Path as sent, without the query. */
  readonly path: string;
  /** Query as sent, without the question mark. */
  readonly query: string;
}

/** Answers with a JSON document. */
export function sendJson(res: ServerResponse, status: number, body: unknown, headers: OutgoingHttpHeaders = {}): void {
  const payload = Buffer.from(JSON.stringify(body));
  res.writeHead(status, { "content-type": "application/json", "content-length": payload.length, ...headers });
  res.end(payload);
}

/** Answers with the error body of the HTTP routes: `{"code":<status>,"message":…}`. */
export function sendProblem(
  res: ServerResponse,
  status: number,
  message: string,
  headers: OutgoingHttpHeaders = {},
): void {
  sendJson(
    res,
    status,
    { code: status, message },
    { "content-type": "application/json; charset=utf-8", "x-content-type-options": "nosniff", ...headers },
  );
}

/** Answers with an error, or cuts the connection when the answer has begun: nothing is added to a body. */
export function sendError(res: ServerResponse, error: EnvdError): void {
  if (res.headersSent) res.destroy();
  else sendProblem(res, error.status, error.message);
}
