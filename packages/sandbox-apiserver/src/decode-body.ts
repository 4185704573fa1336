import { isUtf8 } from "node:buffer";
import { isMap, isScalar, isSeq, LineCounter, parseDocument } from "yaml";
import type { Document, ParsedNode } from "yaml";
import { badRequest, tooLarge } from "./api-status.ts";
import { duplicateFields, fieldPath } from "./json-duplicates.ts";

/** A body as an object, with what it says twice. */
export interface DecodedBody {
  readonly value: Readonly<Record<string, unknown>>;
  /** Paths of members that an object has more than once. The last one counts. */
  readonly duplicates: readonly string[];
}

/** YAML is read a hundred times slower than JSON, and on the thread that serves everybody: this much takes 0.4 s at worst. */
const YAML_LIMIT_BYTES = 32 * 1024;

/** Deepest nesting of a body. */
const DEPTH_LIMIT = 500;

/**
 * Reads a body as JSON or YAML. YAML that is written as JSON is read as JSON: so clients send server-side applies.
 * @param type `application/json`, or anything that ends in `yaml`
 * @throws ApiStatusError 400 for what is neither, or no object; 413 for more YAML than is read.
 */
export function decodeBody(bytes: Uint8Array, type: string): DecodedBody {
  if (!isUtf8(bytes)) {
    throw badRequest("the body of the request is not UTF-8");
  }
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
  const decoded = type.endsWith("yaml") ? yaml(text, bytes.byteLength) : json(text);
  if (typeof decoded.value !== "object" || decoded.value === null || Array.isArray(decoded.value)) {
    throw badRequest("the body of the request is not an object");
  }
  return { value: decoded.value as Readonly<Record<string, unknown>>, duplicates: decoded.duplicates };
}

interface Decoded {
  readonly value: unknown;
  readonly duplicates: readonly string[];
}

function json(text: string): Decoded {
  const value = parsedJson(text);
  if (value instanceof SyntaxError) {
    throw badRequest(`the body of the request is not JSON: ${value.message}`, value);
  }
  checkDepth(value);
  return { value, duplicates: duplicateFields(text) };
}

/** The value, or the error that says why there is none. No JSON text is an error. */
function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    return error instanceof SyntaxError ? error : new SyntaxError(String(error));
  }
}

function yaml(text: string, bytes: number): Decoded {
  if (text.trimStart().startsWith("{") && !(parsedJson(text) instanceof SyntaxError)) {
    return json(text);
  }
  if (bytes > YAML_LIMIT_BYTES) {
    throw tooLarge(YAML_LIMIT_BYTES, "of YAML; send it as JSON");
  }
  const lineCounter = new LineCounter();
  // Each of thousands of errors would quote its surroundings.
  const document = parseDocument(text, {
    uniqueKeys: false,
    logLevel: "error",
    merge: true,
    prettyErrors: false,
    lineCounter,
  });
  const [error] = document.errors;
  if (error !== undefined) {
    const { line, col } = lineCounter.linePos(error.pos[0]);
    throw badRequest(`the body of the request is not YAML: ${error.message} at line ${line}, column ${col}`, error);
  }
  const value = plain(document);
  checkDepth(value);
  return { value, duplicates: repeated(document.contents, "") };
}

function plain(document: Document): unknown {
  try {
    // As JSON has it: dates and other types of YAML become text.
    return JSON.parse(JSON.stringify(document.toJS({ maxAliasCount: 100 })) ?? "null") as unknown;
  } catch (error) {
    throw badRequest("the body of the request is YAML that cannot be an object", error);
  }
}

function repeated(node: ParsedNode | null, path: string): readonly string[] {
  if (isSeq(node)) {
    return node.items.flatMap((item, at) => repeated(item as ParsedNode | null, `${path}[${at}]`));
  }
  if (!isMap(node)) {
    return [];
  }
  const seen = new Set<string>();
  const found = new Set<string>();
  for (const { key, value } of node.items) {
    const name = isScalar(key) ? String(key.value) : String(key);
    const place = fieldPath(path, name);
    if (seen.has(name)) {
      found.add(place);
    }
    seen.add(name);
    for (const inner of repeated(value, place)) {
      found.add(inner);
    }
  }
  return [...found];
}

/** What reads the object later may do so level by level: no client decides how deep. */
function checkDepth(value: unknown): void {
  let level: readonly unknown[] = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > DEPTH_LIMIT) {
      throw badRequest(`the body of the request is nested deeper than ${DEPTH_LIMIT} levels`);
    }
    level = level.flatMap((one) =>
      typeof one === "object" && one !== null
        ? Object.values(one).filter((inner) => typeof inner === "object" && inner !== null)
        : [],
    );
  }
}
