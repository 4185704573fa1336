import { stringify } from "yaml";
import { GROUP_VERSION, KIND } from "../group.ts";
import type { Negotiated } from "../negotiation.ts";
import type { Item, TextCache } from "./item.ts";
import { sandboxBody } from "./sandbox-resource.ts";
import type { SandboxBody } from "./sandbox-resource.ts";
import { cellsOf, COLUMN_DEFINITIONS, EMPTY_CELLS } from "./table.ts";

/** Metadata of a list. */
export interface ListMeta {
  readonly resourceVersion: string;
  readonly continue?: string | undefined;
  readonly remainingItemCount?: number | undefined;
}

/** Types of an event that carries a sandbox. */
export type EventType = "ADDED" | "MODIFIED" | "DELETED";

/** How a client wants sandboxes written: as objects, as rows or without all but their metadata. In JSON. */
export interface Form {
  /** Equal for forms that write alike. */
  readonly key: string;
  /** A list without its members. */
  readonly list: (meta: ListMeta) => object;
  /** The name of the list's members. */
  readonly members: "items" | "rows";
  /** A member of a list. */
  readonly member: (item: Item) => string;
  /** One alone. `first` is the first event of a watch; always so outside of watches. `version` takes the place of its own. */
  readonly single: (item: Item, first: boolean, version?: string) => string;
  /** An object that has nothing but this metadata. */
  readonly bookmark: (metadata: object, first: boolean) => string;
}

/** What forms write with. */
export interface FormParts {
  readonly texts: TextCache;
  /** The wall clock in milliseconds. */
  readonly clock: () => number;
}

const TYPED = `{"kind":"${KIND}","apiVersion":"${GROUP_VERSION}",`;
const END_OF_METADATA = '},"spec":{';

/** The way to write what was negotiated. */
export function formOf(
  { as, metaVersion, includeObject }: Pick<Negotiated, "as" | "metaVersion" | "includeObject">,
  parts: FormParts,
): Form {
  const meta = `meta.k8s.io/${metaVersion}`;
  if (as === "table") {
    return tableForm(parts, meta, includeObject);
  }
  return as === "partial" ? partialForm(parts, meta) : objectForm(parts);
}

function objectForm({ texts }: FormParts): Form {
  return {
    key: "object",
    list: (metadata) => ({ kind: `${KIND}List`, apiVersion: GROUP_VERSION, metadata }),
    members: "items",
    member: (item) => texts.textOf(item),
    single: (item, _first, version) => typed(textAt(texts, item, version)),
    bookmark: (metadata) => JSON.stringify({ kind: KIND, apiVersion: GROUP_VERSION, metadata }),
  };
}

function partialForm({ texts }: FormParts, apiVersion: string): Form {
  const kind = "PartialObjectMetadata";
  const of = (text: string): string => partial(text, apiVersion);
  return {
    key: `partial ${apiVersion}`,
    list: (metadata) => ({ kind: `${kind}List`, apiVersion, metadata }),
    members: "items",
    member: (item) => of(texts.textOf(item)),
    single: (item, _first, version) => of(textAt(texts, item, version)),
    bookmark: (metadata) => JSON.stringify({ kind, apiVersion, metadata }),
  };
}

function tableForm({ texts, clock }: FormParts, apiVersion: string, include: Negotiated["includeObject"]): Form {
  const row = (body: SandboxBody, text: () => string): string =>
    `{"cells":${JSON.stringify(cellsOf(body, clock()))},"object":${rowObject(text, apiVersion, include)}}`;
  const table = (version: string, first: boolean): object => ({
    kind: "Table",
    apiVersion,
    metadata: { resourceVersion: version },
    columnDefinitions: first ? COLUMN_DEFINITIONS : null,
  });
  return {
    key: `table ${apiVersion} ${include}`,
    list: (metadata) => ({ kind: "Table", apiVersion, metadata, columnDefinitions: COLUMN_DEFINITIONS }),
    members: "rows",
    member: (item) => row(sandboxBody(item.sandbox), () => texts.textOf(item)),
    single: (item, first, version) => {
      const body = sandboxBody(item.sandbox);
      const head = JSON.stringify(table(version ?? body.metadata.resourceVersion, first));
      return `${head.slice(0, -1)},"rows":[${row(body, () => textAt(texts, item, version))}]}`;
    },
    bookmark: (metadata, first) =>
      JSON.stringify({
        ...table("resourceVersion" in metadata ? String(metadata.resourceVersion) : "", first),
        rows: [{ cells: EMPTY_CELLS, object: { kind: "PartialObjectMetadata", apiVersion, metadata } }],
      }),
  };
}

/** What a row carries of its object. */
function rowObject(text: () => string, apiVersion: string, include: Negotiated["includeObject"]): string {
  if (include === "None") {
    return "null";
  }
  return include === "Object" ? typed(text()) : partial(text(), apiVersion);
}

/** The JSON of a body, with another version than that of its content when one is given. */
function textAt(texts: TextCache, item: Item, version: string | undefined): string {
  const text = texts.textOf(item);
  // Names stand before it, but no string of JSON has bare quotes inside.
  return version === undefined
    ? text
    : text.replace(/"resourceVersion":"[^"]*"/, () => `"resourceVersion":"${version}"`);
}

function typed(text: string): string {
  return TYPED + text.slice(1);
}

/** A body's metadata alone. No string of JSON has the bare quotes that end it. */
function partial(text: string, apiVersion: string): string {
  const metadata = text.slice(1, text.indexOf(END_OF_METADATA) + 1);
  return `{"kind":"PartialObjectMetadata","apiVersion":"${apiVersion}",${metadata}}`;
}

/** How a list is put on the wire: JSON, indented JSON or YAML. */
export interface Layout {
  readonly contentType: string;
  /** The list's own members, up to where the first item goes. */
  readonly head: (list: object, members: string, empty: boolean) => string;
  /** An item; `first` has none before it. */
  readonly item: (text: string, first: boolean) => string;
  readonly tail: (empty: boolean) => string;
  /** One object alone. */
  readonly whole: (text: string) => string;
}

/** Readers of the older YAML take words and times for other things than text unless they are quoted. */
const YAML_OPTIONS = { version: "1.1", aliasDuplicateObjects: false, lineWidth: 0, indentSeq: false } as const;

const COMPACT: Layout = {
  contentType: "application/json",
  head: (list, members) => `${JSON.stringify(list).slice(0, -1)},"${members}":[`,
  item: (text, first) => (first ? text : `,${text}`),
  tail: () => "]}\n",
  whole: (text) => `${text}\n`,
};

const INDENTED: Layout = {
  contentType: "application/json",
  head: (list, members) => `${JSON.stringify(list, null, 2).slice(0, -2)},\n  "${members}": [`,
  item: (text, first) => `${first ? "" : ","}\n    ${indented(text).replaceAll("\n", "\n    ")}`,
  tail: (empty) => (empty ? "]\n}\n" : "\n  ]\n}\n"),
  whole: (text) => `${indented(text)}\n`,
};

const YAML: Layout = {
  contentType: "application/yaml",
  head: (list, members, empty) =>
    `${stringify(JSON.parse(JSON.stringify(list)), YAML_OPTIONS)}${members}:${empty ? " []" : ""}\n`,
  item: (text) => stringify([JSON.parse(text)], YAML_OPTIONS),
  tail: () => "",
  whole: (text) => stringify(JSON.parse(text), YAML_OPTIONS),
};

/** The layout that was negotiated. */
export function layoutOf({ format, pretty }: Pick<Negotiated, "format" | "pretty">): Layout {
  if (format === "yaml") {
    return YAML;
  }
  return pretty ? INDENTED : COMPACT;
}

function indented(text: string): string {
  return JSON.stringify(JSON.parse(text), null, 2);
}
