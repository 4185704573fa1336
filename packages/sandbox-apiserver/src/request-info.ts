import { isScaleError, parseFieldSelector, parseLabelSelector } from "@org/scale";
import { badRequest } from "./api-status.ts";
import type { AuthorizationAttributes, SelectorRequirement } from "./security.ts";

/** What a request's line says: the one reading of it that authorization and handlers share. */
export interface RequestInfo {
  /** In upper case. */
  readonly method: string;
  /** As it came, without its query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly attributes: AuthorizationAttributes;
  /** Of the path alone; a selector names none. Empty in requests that are no resource. */
  readonly namespace: string;
  readonly name: string;
}

const METHOD_VERBS: Readonly<Record<string, string>> = {
  GET: "get",
  HEAD: "get",
  POST: "create",
  PUT: "update",
  PATCH: "patch",
  DELETE: "delete",
};

/**
 * Reads a request's line as Kubernetes does: `/apis/<group>/<version>/[watch/][namespaces/<ns>/]<resource>/<name>/<sub>`
 * is a resource, everything else a path. Kube specification §4.3.
 * @throws ApiStatusError 400 for a path whose percent signs mean nothing.
 */
export function requestInfo(method: string, url: string): RequestInfo {
  const cut = url.indexOf("?");
  const path = cut === -1 ? url : url.slice(0, cut);
  const query = new URLSearchParams(cut === -1 ? "" : url.slice(cut + 1));
  const common = { method, path, query };
  const [root, group = "", version = "", ...parts] = segments(path);
  const watched = parts[0] === "watch" ? parts.shift() : undefined;
  const namespace = parts[0] === "namespaces" && parts.length > 2 ? parts.splice(0, 2).at(1) : undefined;
  const [resource, name, subresource] = parts;
  if (root !== "apis" || version === "" || resource === undefined) {
    const attributes = { kind: "path", verb: method.toLowerCase(), path } as const;
    return { ...common, attributes, namespace: "", name: "" };
  }
  const verb = verbOf(method, query, name !== undefined, watched !== undefined);
  const many = verb === "list" || verb === "watch" || verb === "deletecollection";
  const selectors = many ? selectorsOf(query) : undefined;
  const attributes: AuthorizationAttributes = {
    kind: "resource",
    verb,
    group,
    version,
    resource,
    subresource,
    namespace,
    name: name ?? selectors?.name,
    fieldSelector: selectors?.fields,
    labelSelector: selectors?.labels,
  };
  return { ...common, attributes, namespace: namespace ?? "", name: name ?? "" };
}

/** Whether a parameter of a query is set, as Kubernetes reads truth values. */
function isSet(query: URLSearchParams, key: string): boolean {
  const value = query.get(key);
  return value !== null && value.toLowerCase() !== "false" && value !== "0";
}

/** Whether the request is answered by a stream of changes. */
export function isWatch({ attributes }: Pick<RequestInfo, "attributes">): boolean {
  return attributes.kind === "resource" && attributes.verb === "watch";
}

function segments(path: string): readonly string[] {
  try {
    return path
      .replace(/^\/|\/$/g, "")
      .split("/")
      .map(decodeURIComponent);
  } catch (error) {
    throw badRequest("the path has a percent sign that encodes nothing", error);
  }
}

function verbOf(method: string, query: URLSearchParams, named: boolean, watched: boolean): string {
  if (watched) {
    return "watch";
  }
  if (named) {
    return METHOD_VERBS[method] ?? "";
  }
  if (method === "GET" || method === "HEAD") {
    return isSet(query, "watch") ? "watch" : "list";
  }
  return method === "DELETE" ? "deletecollection" : (METHOD_VERBS[method] ?? "");
}

interface Selectors {
  readonly name: string | undefined;
  readonly fields: readonly SelectorRequirement[] | undefined;
  readonly labels: readonly SelectorRequirement[] | undefined;
}

/** The selectors as a review carries them; one that cannot be read counts for nothing here and is refused later. */
function selectorsOf(query: URLSearchParams): Selectors {
  const fields = readable(parseFieldSelector, query.get("fieldSelector"));
  const labels = readable(parseLabelSelector, query.get("labelSelector"));
  return {
    name: fields?.find(({ field, equal }) => field === "metadata.name" && equal)?.value,
    fields: fields?.map(({ field, equal, value }) => ({
      key: field,
      operator: equal ? "In" : "NotIn",
      values: [value],
    })),
    labels: labels?.map((requirement) =>
      "values" in requirement
        ? { key: requirement.key, operator: requirement.operator === "in" ? "In" : "NotIn", values: requirement.values }
        : { key: requirement.key, operator: requirement.operator === "exists" ? "Exists" : "DoesNotExist" },
    ),
  };
}

function readable<T>(parse: (text: string) => readonly T[], text: string | null): readonly T[] | undefined {
  if (text === null || text === "") {
    return undefined;
  }
  try {
    return parse(text);
  } catch (error) {
    if (isScaleError(error)) {
      return undefined;
    }
    throw error;
  }
}
