import { E2bError } from "./errors.ts";

/** A JSON Schema, as documents hold it. A `bigint` stands for an integer beyond the precision of numbers. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** One parameter of a query: what the document says of it, and what reads it. */
export interface QueryParameter<T> {
  readonly about: string;
  readonly schema: JsonSchema;
  readonly required: boolean;
  /** What it has in this query. Throws `bad_request` naming it. */
  readonly read: (query: URLSearchParams, name: string) => T;
}

/** What a route reads of its query. */
export interface Query<T> {
  readonly parameters: Readonly<Record<string, QueryParameter<unknown>>>;
  readonly read: (query: URLSearchParams) => T;
}

type Values<P> = { readonly [N in keyof P]: P[N] extends QueryParameter<infer T> ? T : never };

/** Largest value of a signed integer of 64 bits. */
const INT64_MAX = 9_223_372_036_854_775_807n;

function bad(name: string, want: string): E2bError {
  return new E2bError("bad_request", `${name}: want ${want}`);
}

/** A query of these parameters, of which the first one that is malformed is named; `shape` makes of them what handlers use. */
export function queryOf<const P extends Readonly<Record<string, QueryParameter<unknown>>>, T>(
  parameters: P,
  shape: (values: Values<P>) => T,
): Query<T> {
  const readers = Object.entries(parameters);
  return {
    parameters,
    read: (text) => shape(Object.fromEntries(readers.map(([name, { read }]) => [name, read(text, name)])) as Values<P>),
  };
}

/** How far a whole number may go. */
export interface WholeNumberOptions<F> {
  readonly about: string;
  /** @default 0 */
  readonly min?: number;
  /** @default the largest of 64 bits */
  readonly max?: number;
  /** Stands in for an absent one. */
  readonly fallback: F;
  /** Whether `name=` counts as absent. @default false */
  readonly mayBeEmpty?: boolean;
}

/** A whole number in decimal digits. What is beyond the precision of numbers reads as the largest precise one. */
export function wholeNumber<F extends number | undefined>(options: WholeNumberOptions<F>): QueryParameter<number | F> {
  const { about, min = 0, max = INT64_MAX, fallback, mayBeEmpty = false } = options;
  const number: JsonSchema = { type: "integer", minimum: min, maximum: max };
  const schema: JsonSchema = {
    ...(mayBeEmpty ? { anyOf: [number, { const: "" }] } : number),
    ...(fallback === undefined ? {} : { default: fallback }),
  };
  return {
    about,
    schema,
    required: false,
    read(text, name) {
      const value = text.get(name);
      if (value === null || (mayBeEmpty && value === "")) {
        return fallback;
      }
      if (!/^\d{1,19}$/.test(value) || BigInt(value) < min || BigInt(value) > max) {
        throw bad(name, `a whole number from ${min} to ${max}`);
      }
      return Math.min(Number(value), Number.MAX_SAFE_INTEGER);
    },
  };
}

/** One of several words. */
export function oneOf<const W extends string, F extends W | undefined>(
  words: readonly W[],
  { about, fallback }: { readonly about: string; readonly fallback: F },
): QueryParameter<W | F> {
  return {
    about,
    schema: { type: "string", enum: words, ...(fallback === undefined ? {} : { default: fallback }) },
    required: false,
    read(text, name) {
      const value = text.get(name);
      if (value === null) {
        return fallback;
      }
      const found = words.find((known) => known === value);
      if (found === undefined) {
        throw bad(name, words.join(", "));
      }
      return found;
    },
  };
}

/** Choices of {@link anyText}. */
export interface TextOptions {
  readonly maxLength?: number;
  /** Only for the document: whoever reads it decides what its absence means. @default false */
  readonly required?: boolean;
}

/** Any text, `undefined` when it is absent or empty. */
export function anyText(
  about: string,
  { maxLength, required = false }: TextOptions = {},
): QueryParameter<string | undefined> {
  return {
    about,
    schema: { type: "string", ...(maxLength === undefined ? {} : { maxLength }) },
    required,
    read(text, name) {
      const value = text.get(name) ?? undefined;
      // JSON Schema counts characters, and not their halves.
      if (
        maxLength !== undefined &&
        value !== undefined &&
        value.length > maxLength &&
        Array.from(value).length > maxLength
      ) {
        throw bad(name, `at most ${maxLength} characters`);
      }
      return value === "" ? undefined : value;
    },
  };
}

/** Text with a form of its own. `parse` gets it as it stands, and throws for what has another form. */
export function parsed<T>(
  about: string,
  schema: JsonSchema,
  parse: (value: string | undefined, name: string) => T,
): QueryParameter<T> {
  return { about, schema, required: false, read: (text, name) => parse(text.get(name) ?? undefined, name) };
}

/** Several texts in one, separated by commas; a repeated parameter adds to them, and an empty one has one empty text. */
export function commaList<T>(
  about: string,
  schema: JsonSchema,
  parse: (values: readonly string[], name: string) => T,
  { required = false }: { readonly required?: boolean } = {},
): QueryParameter<T> {
  return {
    about,
    schema: { type: "array", ...schema },
    required,
    read: (from, name) =>
      parse(
        from.getAll(name).flatMap((value) => value.split(",")),
        name,
      ),
  };
}
