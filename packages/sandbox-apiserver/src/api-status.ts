import { GROUP, QUALIFIED_RESOURCE, RESOURCE } from "./group.ts";

/** One of the reasons inside of a {@link StatusDetails}. */
export interface StatusCause {
  readonly reason?: string | undefined;
  readonly message: string;
  readonly field?: string | undefined;
}

/** What a Status says beyond its message. */
export interface StatusDetails {
  readonly name?: string | undefined;
  readonly group?: string | undefined;
  readonly kind?: string | undefined;
  readonly uid?: string | undefined;
  readonly causes?: readonly StatusCause[] | undefined;
  readonly retryAfterSeconds?: number | undefined;
}

/** What an {@link ApiStatusError} is made of. */
export interface ApiStatusInit {
  readonly code: number;
  readonly reason: string;
  readonly message: string;
  readonly details?: StatusDetails | undefined;
  /** Whole seconds; sent as `Retry-After` and inside the details. */
  readonly retryAfterSeconds?: number | undefined;
  /** For the log only. */
  readonly cause?: unknown;
}

/** The body of a failed answer. */
export interface StatusBody {
  readonly kind: "Status";
  readonly apiVersion: "v1";
  readonly metadata: Readonly<Record<string, never>>;
  readonly status: "Failure";
  readonly message: string;
  readonly reason: string;
  readonly details?: StatusDetails;
  readonly code: number;
}

/** Clients may send megabytes, and what they sent is quoted: characters of a message, of a text in it, and causes. */
const MESSAGE_SHOWN = 16_384;
const TEXT_SHOWN = 1024;
const CAUSES_SHOWN = 50;

/** An answer of the API that is no success. Its message is fit to show; `cause` is for the log. Kube specification §2.10. */
export class ApiStatusError extends Error {
  override readonly name = "ApiStatusError";
  /** HTTP status. */
  readonly code: number;
  /** Machine-readable word, such as `NotFound`. */
  readonly reason: string;
  readonly details: StatusDetails | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(init: ApiStatusInit) {
    super(shortened(init.message, MESSAGE_SHOWN), init.cause === undefined ? undefined : { cause: init.cause });
    this.code = init.code;
    this.reason = init.reason;
    this.retryAfterSeconds = init.retryAfterSeconds;
    this.details =
      init.retryAfterSeconds === undefined
        ? init.details
        : { ...init.details, retryAfterSeconds: init.retryAfterSeconds };
  }
}

/** The Status object of an error. */
export function statusBody(error: ApiStatusError): StatusBody {
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message: error.message,
    reason: error.reason,
    ...(error.details !== undefined && { details: error.details }),
    code: error.code,
  };
}

/** What the details say of one sandbox, or of all of them. */
function ofSandboxes(name?: string): StatusDetails {
  return { ...(name !== undefined && name !== "" && { name }), group: GROUP, kind: RESOURCE };
}

/** 400: the request can never succeed. */
export function badRequest(message: string, cause?: unknown): ApiStatusError {
  return new ApiStatusError({ code: 400, reason: "BadRequest", message, cause });
}

/** 401: a credential was shown and does not hold. */
export function unauthorized(): ApiStatusError {
  return new ApiStatusError({ code: 401, reason: "Unauthorized", message: "Unauthorized" });
}

/** What a {@link forbidden} request is about. */
export interface ForbiddenSubject {
  readonly group: string;
  readonly resource: string;
}

/** 403 for a sandbox or all of them, or for another resource. `message` follows the words `is forbidden: `. */
export function forbidden(
  message: string,
  name = "",
  { group, resource }: ForbiddenSubject = { group: GROUP, resource: RESOURCE },
): ApiStatusError {
  const subject = `${resource}.${group}${name === "" ? "" : ` "${name}"`}`;
  const details = { ...(name !== "" && { name }), group, kind: resource };
  return new ApiStatusError({
    code: 403,
    reason: "Forbidden",
    message: `${subject} is forbidden: ${message}`,
    details,
  });
}

/** 403 for a path that is no resource. */
export function forbiddenPath(message: string): ApiStatusError {
  return new ApiStatusError({ code: 403, reason: "Forbidden", message: `forbidden: ${message}`, details: {} });
}

/** 404 for a sandbox. */
export function notFound(name: string, cause?: unknown): ApiStatusError {
  const message = `${QUALIFIED_RESOURCE} "${name}" not found`;
  return new ApiStatusError({ code: 404, reason: "NotFound", message, details: ofSandboxes(name), cause });
}

/** 404 for a resource, version or verb that does not exist. */
export function unknownResource(): ApiStatusError {
  const message = "the server could not find the requested resource";
  return new ApiStatusError({ code: 404, reason: "NotFound", message, details: {} });
}

/** 405 for a path that has no such method. */
export function methodNotAllowed(): ApiStatusError {
  const message = "the server does not allow this method on the requested resource";
  return new ApiStatusError({ code: 405, reason: "MethodNotAllowed", message, details: {} });
}

/** 406: nothing that the client accepts can be made. */
export function notAcceptable(accepted: readonly string[]): ApiStatusError {
  const message = `only the following media types are accepted: ${accepted.join(", ")}`;
  return new ApiStatusError({ code: 406, reason: "NotAcceptable", message });
}

/** 409: what the client relies on does not hold. */
export function conflict(name: string, message: string, cause?: unknown): ApiStatusError {
  return new ApiStatusError({
    code: 409,
    reason: "Conflict",
    message: `Operation cannot be fulfilled on ${QUALIFIED_RESOURCE} "${name}": ${message}`,
    details: ofSandboxes(name),
    cause,
  });
}

/** 409: the name is held by a sandbox. */
export function alreadyExists(name: string): ApiStatusError {
  const message = `${QUALIFIED_RESOURCE} "${name}" already exists`;
  return new ApiStatusError({ code: 409, reason: "AlreadyExists", message, details: ofSandboxes(name) });
}

/** 413: the body is too large. `what` may say of what the limit is. */
export function tooLarge(limitBytes: number, what = ""): ApiStatusError {
  const message = `Request entity too large: limit is ${limitBytes}${what === "" ? "" : ` ${what}`}`;
  return new ApiStatusError({ code: 413, reason: "RequestEntityTooLarge", message });
}

/** 415: the body is of a type that cannot be read. */
export function unsupportedMediaType(accepted: readonly string[]): ApiStatusError {
  const message = `the body of the request was in an unknown format - accepted media types include: ${accepted.join(", ")}`;
  return new ApiStatusError({ code: 415, reason: "UnsupportedMediaType", message });
}

/** What an {@link invalid} object is. */
export interface InvalidSubject {
  /** @default the group of sandboxes */
  readonly group?: string | undefined;
  /** @default "Sandbox" */
  readonly kind?: string | undefined;
  readonly name?: string | undefined;
}

/** 422: members whose values cannot be. The message lists every cause, up to a number that somebody may read. */
export function invalid(causes: readonly Required<StatusCause>[], subject: InvalidSubject = {}): ApiStatusError {
  const { group = GROUP, kind = "Sandbox" } = subject;
  const name = shortened(subject.name ?? "", TEXT_SHOWN);
  const shown = causes.slice(0, CAUSES_SHOWN).map(({ reason, message, field }) => {
    return { reason, message: shortened(message, TEXT_SHOWN), field: shortened(field ?? "", TEXT_SHOWN) };
  });
  const each = shown.map(({ field, message }) => `${field}: ${message}`);
  if (causes.length > CAUSES_SHOWN) {
    each.push(`and ${causes.length - CAUSES_SHOWN} more`);
  }
  const words = each.length === 1 ? each.join("") : `[${each.join(", ")}]`;
  return new ApiStatusError({
    code: 422,
    reason: "Invalid",
    message: `${kind}.${group} "${name}" is invalid: ${words}`,
    details: { ...(name !== "" && { name }), group, kind, causes: shown },
  });
}

/** 429: too much is in flight. */
export function tooManyRequests(retryAfterSeconds: number): ApiStatusError {
  const message = "Too many requests, please try again later.";
  return new ApiStatusError({ code: 429, reason: "TooManyRequests", message, retryAfterSeconds });
}

/** 500. The message is shown, the cause is not. */
export function internalError(message: string, cause?: unknown): ApiStatusError {
  return new ApiStatusError({
    code: 500,
    reason: "InternalError",
    message: `Internal error occurred: ${message}`,
    details: { causes: [{ message }] },
    cause,
  });
}

/** 503: try again. */
export function unavailable(message: string, retryAfterSeconds?: number, cause?: unknown): ApiStatusError {
  return new ApiStatusError({ code: 503, reason: "ServiceUnavailable", message, retryAfterSeconds, cause });
}

/** 504: the request took too long. What it began may go on. */
export function timedOut(cause?: unknown): ApiStatusError {
  const message = "Timeout: request did not complete within the allotted timeout";
  return new ApiStatusError({ code: 504, reason: "Timeout", message, details: {}, cause });
}

/** A text without what is beyond so many characters. */
function shortened(text: string, max: number): string {
  return text.length > max ? `${text.slice(0, max)}…` : text;
}
