/** The parts of an OpenAPI document that the page reads. */
export interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, OpenApiOperation>>>>;
  readonly components: unknown;
}

/** One operation of it. */
export interface OpenApiOperation {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema?: Schema }>> };
  readonly responses: Readonly<Record<string, unknown>>;
}

interface Reference {
  readonly $ref?: string;
}

interface Parameter extends Reference {
  readonly name?: string;
  readonly in?: string;
}

interface Schema extends Reference {
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, unknown>>;
}

function follow<T extends Reference>(document: OpenApi, value: T): T {
  const { $ref } = value;
  if ($ref === undefined) {
    return value;
  }
  let found: unknown = document;
  for (const key of $ref.replace(/^#\//, "").split("/")) {
    found = (found as Record<string, unknown>)[key];
  }
  return follow(document, found as T);
}

/** Every operation with its method and path. */
export function operationsOf(
  document: OpenApi,
): readonly { readonly method: string; readonly path: string; readonly operation: OpenApiOperation }[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
}

/** What a request of an operation can say beside its path: fields of the body, of the query, and headers of its own. */
export function choicesOf(document: OpenApi, { requestBody, parameters }: OpenApiOperation): readonly string[] {
  const schema = requestBody?.content["application/json"]?.schema;
  const body = schema === undefined ? undefined : follow(document, schema);
  const [first] = body?.anyOf ?? [];
  const properties = (first === undefined ? body : follow(document, first))?.properties ?? {};
  const named = parameters
    .map((parameter) => follow(document, parameter))
    .filter((parameter) => parameter.in !== "path" && parameter.name !== "X-Request-Id");
  return [...Object.keys(properties), ...named.map(({ name = "" }) => name)];
}
