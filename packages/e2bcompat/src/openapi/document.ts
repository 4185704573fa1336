import type { JsonSchema } from "../query.ts";
import type { Operation, ReplyDeclaration } from "../operation.ts";
import { packageVersion } from "../version.ts";
import { errorReply } from "../wire/replies.ts";
import { ERRORS, HEADERS, HEADERS_OF, NODE_REFUSED, PATH_PARAMETERS, TAGS } from "./parts.ts";
import type { ErrorAnswer } from "./parts.ts";
import { createSchemas } from "./schemas.ts";
import type { Schemas } from "./schemas.ts";

/** Where the document is served. */
export const DOCUMENT_PATH = "/openapi.json";

const ABOUT = `The E2B API as this service has it. Every error answer is \`{"code": <status>, "message": "<text>"}\`, also for unknown
paths (404), known ones with another method (405) and requests that HTTP itself does not allow (400, 408, 417, 431). Parts of the
E2B API that are not served (volumes, secrets, teams, nodes, keys, access tokens, the build routes of older clients) answer 501 and
are not described here.`;

/** How a document is made. */
export interface DocumentOptions {
  /** Whether keys are asked for. */
  readonly authenticated: boolean;
  /** The path that the API is mounted under; empty at the root. */
  readonly base: string;
}

interface Header {
  readonly $ref: string;
}

function headersOf(names: readonly string[]): Readonly<Record<string, Header>> {
  return Object.fromEntries(
    ["X-Request-Id", ...names].map((name) => [name, { $ref: `#/components/headers/${name}` }] as const),
  );
}

function namesIn(path: string): readonly string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? "");
}

/** Which operations can be called with what an answer has. */
function linksFrom({ links }: ReplyDeclaration, operations: readonly Operation[]): object | undefined {
  if (links === undefined) {
    return undefined;
  }
  const reachable = operations.filter(({ path }) => {
    const names = namesIn(path);
    return names.length > 0 && names.every((name) => Object.hasOwn(links, name));
  });
  return Object.fromEntries(
    reachable.map(({ id, path }) => [
      id,
      { operationId: id, parameters: Object.fromEntries(namesIn(path).map((name) => [name, links[name]])) },
    ]),
  );
}

function replyOf(reply: ReplyDeclaration, operations: readonly Operation[], schemas: Schemas): object {
  const { about, schema, headers = [] } = reply;
  const links = linksFrom(reply, operations);
  return {
    description: about,
    headers: headersOf(headers.flatMap((name) => HEADERS_OF[name])),
    ...(schema === undefined ? {} : { content: { "application/json": { schema: schemas.refTo(schema) } } }),
    ...(links === undefined ? {} : { links }),
  };
}

function repliesOf(operation: Operation, operations: readonly Operation[], schemas: Schemas): object {
  const errors = [400, 401, 500, ...(operation.errors ?? [])] as const;
  const own = Object.entries(operation.replies).map(
    ([status, reply]) => [status, replyOf(reply, operations, schemas)] as const,
  );
  const shared = errors
    .filter((status) => mayAnswer(operation, status))
    .map((status) => [String(status), { $ref: `#/components/responses/${ERRORS[status].name}` }] as const);
  const refused =
    operation.nodeRefusals === true ? { "4XX": { $ref: `#/components/responses/${NODE_REFUSED.name}` } } : {};
  return { ...Object.fromEntries([...own, ...shared]), ...refused };
}

/** A route that reads neither key nor query has nobody to turn away. */
function mayAnswer({ keyless, query }: Operation, status: number): boolean {
  return status !== 401 || keyless !== true || query !== undefined;
}

function parametersOf({ path, query, headers = [] }: Operation): readonly object[] {
  return [
    ...namesIn(path).map((name) => {
      const { about, pattern } = PATH_PARAMETERS[name] ?? { about: name };
      const schema = { type: "string", minLength: 1, ...(pattern === undefined ? {} : { pattern: pattern.source }) };
      return { name, in: "path", required: true, description: about, schema };
    }),
    ...Object.entries(query?.parameters ?? {}).map(([name, { about, schema, required }]) => ({
      name,
      in: "query",
      required,
      description: about,
      schema,
      // Lists are written with commas.
      ...(schema["type"] === "array" ? { style: "form", explode: false } : {}),
    })),
    ...headers.map(({ name, about, pattern }) => ({
      name,
      in: "header",
      description: about,
      schema: { type: "string", pattern: pattern.source },
    })),
    { $ref: "#/components/parameters/RequestId" },
  ];
}

function bodyOf({ body }: Operation, schemas: Schemas): object {
  if (body === undefined) {
    return {};
  }
  if (body.kind === "bytes") {
    const content = { "application/octet-stream": { schema: {} } };
    return { requestBody: { description: body.about, required: true, content } };
  }
  const named = schemas.refTo(body.schema);
  const schema = body.optional ? { anyOf: [named, { type: "null" }] } : named;
  return { requestBody: { required: !body.optional, content: { "application/json": { schema } } } };
}

function operationOf(operation: Operation, operations: readonly Operation[], schemas: Schemas): object {
  const { id, tag, summary, details, keyless } = operation;
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(details === undefined ? {} : { description: details }),
    ...(keyless === true ? { security: [] } : {}),
    parameters: parametersOf(operation),
    ...bodyOf(operation, schemas),
    responses: repliesOf(operation, operations, schemas),
  };
}

function pathsOf(operations: readonly Operation[], schemas: Schemas): Record<string, Record<string, object>> {
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of operations) {
    const { path, method } = operation;
    paths[path] = { ...paths[path], [method.toLowerCase()]: operationOf(operation, operations, schemas) };
  }
  return paths;
}

function errorResponses(schemas: Schemas): Readonly<Record<string, object>> {
  const content = { "application/json": { schema: schemas.refTo(errorReply) } };
  const response = ({ name, about, headers = [] }: ErrorAnswer) =>
    [name, { description: about, headers: headersOf(headers), content }] as const;
  return Object.fromEntries([...Object.values(ERRORS), NODE_REFUSED].map(response));
}

function parameters(): Readonly<Record<string, object>> {
  const schema: JsonSchema = { type: "string" };
  const about = "An id for the log and the answer, of 1 to 128 of `A-Z a-z 0-9 . _ : -`. Others are passed over.";
  return { RequestId: { name: "X-Request-Id", in: "header", description: about, schema } };
}

/** JSON in which integers beyond the precision of numbers stay what they are. */
function toJson(value: unknown): string {
  const { rawJSON } = JSON as { readonly rawJSON?: (text: string) => unknown };
  return JSON.stringify(value, (_name, member: unknown) =>
    typeof member === "bigint" ? (rawJSON?.(String(member)) ?? Number(member)) : member,
  );
}

/** The OpenAPI 3.1 document of these operations, as JSON. */
export function createDocument(operations: readonly Operation[], { authenticated, base }: DocumentOptions): string {
  const schemas = createSchemas();
  const version = packageVersion();
  return toJson({
    openapi: "3.1.1",
    info: {
      title: "E2B-compatible sandboxes",
      description: ABOUT,
      version: version ?? "unknown",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: base === "" ? "/" : base }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    ...(authenticated ? { security: [{ apiKey: [] }] } : {}),
    paths: pathsOf(operations, schemas),
    components: {
      schemas: schemas.components,
      responses: errorResponses(schemas),
      parameters: parameters(),
      headers: HEADERS,
      ...(authenticated
        ? {
            securitySchemes: {
              apiKey: { type: "apiKey", in: "header", name: "X-API-Key", description: "A key opens one namespace." },
            },
          }
        : {}),
    },
  });
}
