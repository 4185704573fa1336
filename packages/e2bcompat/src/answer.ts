/** What a handler says, before it becomes a `Response` or is written to a socket. */
export interface Answer {
  readonly status: number;
  /** JSON text; absent for answers without a body. */
  readonly body?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Called when the client was gone before it could have received the answer. */
  readonly undelivered?: (() => void) | undefined;
}

const JSON_HEADERS: Readonly<Record<string, string>> = { "content-type": "application/json" };
/** Clients take a 2xx without this header for JSON and fail on its missing text. */
const EMPTY_HEADERS: Readonly<Record<string, string>> = { "content-length": "0" };
/** Statuses whose answers have no body by definition, and need not say so. */
const BODILESS: ReadonlySet<number> = new Set([204, 304]);
const NO_HEADERS: Readonly<Record<string, string>> = {};

/** A JSON answer. */
export function json(status: number, value: unknown, headers?: Readonly<Record<string, string>>): Answer {
  return { status, body: JSON.stringify(value), headers };
}

/** An answer without a body. */
export function empty(status: number): Answer {
  return { status };
}

/** The error body of the API: `code` is always the HTTP status, clients decide by it. */
export function failure(status: number, message: string, headers?: Readonly<Record<string, string>>): Answer {
  return json(status, { code: status, message }, headers);
}

/** The headers of an answer, the ones for its body included. */
export function answerHeaders(answer: Answer): Readonly<Record<string, string>> {
  const base = answer.body !== undefined ? JSON_HEADERS : BODILESS.has(answer.status) ? NO_HEADERS : EMPTY_HEADERS;
  return answer.headers === undefined ? base : { ...base, ...answer.headers };
}

/** The answer as a web `Response`. */
export function toResponse(answer: Answer): Response {
  return new Response(answer.body ?? null, { status: answer.status, headers: answerHeaders(answer) });
}
