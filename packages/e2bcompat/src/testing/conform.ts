import type { Operation } from "../operation.ts";
import { errorReply } from "../wire/replies.ts";

/** An answer to be held against its declaration. */
interface Answered {
  readonly method: string;
  /** Without its query. */
  readonly path: string;
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

const COMMON = [400, 401, 405, 500];

function patternOf({ path }: Operation): RegExp {
  const text = path.replaceAll(/[.]/g, "\\$&").replaceAll(/\{\w+\}/g, "[^/]+");
  return new RegExp(`^${text}$`);
}

/** Which operation answers a path: the first that fits, as in the application. */
export function createFinder(
  operations: readonly Operation[],
): (method: string, path: string) => Operation | undefined {
  const known = operations.map((operation) => ({ operation, pattern: patternOf(operation) }));
  return (method, path) =>
    known.find(({ operation, pattern }) => operation.method === method && pattern.test(path))?.operation;
}

function isDeclaredError({ errors = [], nodeRefusals = false }: Operation, status: number): boolean {
  return COMMON.includes(status) || errors.some((known) => known === status) || (nodeRefusals && status < 500);
}

/** Throws unless the answer is one that its operation declares. */
export function mustConform(operation: Operation, { method, path, status, headers, text }: Answered): void {
  const where = `${method} ${path} answered ${status} ${text.slice(0, 300)}`;
  const declared = operation.replies[status];
  if (declared === undefined && !isDeclaredError(operation, status)) {
    throw new Error(`${where}: ${operation.id} declares no such status`);
  }
  const schema = declared === undefined ? errorReply : declared.schema;
  if (schema === undefined) {
    if (text !== "") {
      throw new Error(`${where}: ${operation.id} declares no body`);
    }
    return;
  }
  if (headers.get("content-type") !== "application/json") {
    throw new Error(`${where}: its type is ${headers.get("content-type")}`);
  }
  const { error } = schema.safeParse(JSON.parse(text));
  if (error !== undefined) {
    throw new Error(`${where}: not as ${operation.id} declares it: ${error.message}`);
  }
  if (declared === undefined && (JSON.parse(text) as { readonly code: number }).code !== status) {
    throw new Error(`${where}: code is not the status`);
  }
}
