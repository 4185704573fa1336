import { notAcceptable } from "./api-status.ts";

/** In what form the client wants its answer. */
export interface Negotiated {
  readonly format: "json" | "yaml";
  /** `partial` is PartialObjectMetadata, of one object or of a list. */
  readonly as: "object" | "table" | "partial";
  /** Version of the Table or PartialObjectMetadata. */
  readonly metaVersion: "v1" | "v1beta1";
  /** Whether JSON is indented. */
  readonly pretty: boolean;
  /** What rows of a Table carry of their object. */
  readonly includeObject: "None" | "Metadata" | "Object";
}

/** One choice of an `Accept` header. */
export interface AcceptClause {
  /** Lower case, such as `application/json`; parts may be `*`. */
  readonly type: string;
  /** Keys in lower case. */
  readonly parameters: ReadonlyMap<string, string>;
}

/** Types that answers come in. */
export const ANSWER_TYPES: readonly string[] = ["application/json", "application/yaml"];

const META_GROUP = "meta.k8s.io";

const TRANSFORMS: Readonly<Record<string, Negotiated["as"]>> = {
  Table: "table",
  PartialObjectMetadata: "partial",
  PartialObjectMetadataList: "partial",
};

const FORMATS: ReadonlyMap<string, Negotiated["format"]> = new Map([
  ["application/json", "json"],
  ["application/yaml", "yaml"],
  ["application/*", "json"],
  ["*/*", "json"],
]);

/** Programs that show answers to people. */
const READERS = /^(?:curl|Wget|Mozilla\/5\.0)/;

/** What {@link negotiate} looks at beside `Accept`. */
export interface NegotiationHints {
  readonly query?: URLSearchParams | undefined;
  readonly userAgent?: string | undefined;
}

/**
 * The first choice of an `Accept` header that can be served, by descending preference. Without a header JSON.
 * @throws ApiStatusError 406 when none can.
 */
export function negotiate(accept: string | undefined, hints: NegotiationHints = {}): Negotiated {
  for (const { type, parameters } of acceptClauses(accept)) {
    const format = FORMATS.get(type);
    const form = formOf(parameters);
    if (format !== undefined && form !== undefined) {
      return { format, ...form, pretty: isPretty(hints), includeObject: includeObjectOf(hints.query) };
    }
  }
  throw notAcceptable(ANSWER_TYPES);
}

/** The plain form of an answer, for what has no other: errors above all. Never throws. */
export function negotiatePlain(accept: string | undefined, hints: NegotiationHints = {}): Negotiated {
  const clause = acceptClauses(accept).find(({ type }) => FORMATS.has(type));
  const format = FORMATS.get(clause?.type ?? "") ?? "json";
  return { format, as: "object", metaVersion: "v1", pretty: isPretty(hints), includeObject: "Metadata" };
}

/** The choices of an `Accept` header, the most wanted first. An absent or empty header takes anything. */
export function acceptClauses(accept: string | undefined): readonly AcceptClause[] {
  if (accept === undefined || accept.trim() === "") {
    return [{ type: "*/*", parameters: new Map() }];
  }
  return accept
    .split(",")
    .map(clauseOf)
    .filter(({ quality }) => quality > 0)
    .sort((a, b) => b.quality - a.quality || stars(a.type) - stars(b.type));
}

function clauseOf(text: string): AcceptClause & { readonly quality: number } {
  const [type = "", ...rest] = text.split(";").map((part) => part.trim());
  const parameters = new Map(
    rest.map((part) => {
      const at = part.indexOf("=");
      const [key, value] = at === -1 ? [part, ""] : [part.slice(0, at).trim(), part.slice(at + 1).trim()];
      return [key.toLowerCase(), value.replace(/^"(.*)"$/s, "$1")] as const;
    }),
  );
  const asked = parameters.get("q");
  const quality = asked === undefined ? 1 : Number(asked);
  parameters.delete("q");
  return { type: type.toLowerCase(), parameters, quality: Number.isNaN(quality) ? 1 : quality };
}

function stars(type: string): number {
  return type.split("*").length - 1;
}

/** Object, Table or metadata; `undefined` for a form that does not exist. */
function formOf(parameters: ReadonlyMap<string, string>): Pick<Negotiated, "as" | "metaVersion"> | undefined {
  const as = parameters.get("as");
  if (as === undefined) {
    return { as: "object", metaVersion: "v1" };
  }
  const version = parameters.get("v");
  const form = Object.hasOwn(TRANSFORMS, as) ? TRANSFORMS[as] : undefined;
  if (form === undefined || parameters.get("g") !== META_GROUP || (version !== "v1" && version !== "v1beta1")) {
    return undefined;
  }
  return { as: form, metaVersion: version };
}

function isPretty({ query, userAgent = "" }: NegotiationHints): boolean {
  const asked = query?.get("pretty") ?? undefined;
  return asked === undefined ? READERS.test(userAgent) : asked !== "false" && asked !== "0";
}

function includeObjectOf(query: URLSearchParams | undefined): Negotiated["includeObject"] {
  const asked = query?.get("includeObject");
  return asked === "None" || asked === "Object" ? asked : "Metadata";
}
