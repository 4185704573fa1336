import { z } from "zod";

/** Pool key on the wire. `net` defaults to `none` and `size` to `small` when absent or empty. Node API §1.4. */
export interface WirePoolKey {
  readonly template: string;
  readonly net?: string | undefined;
  readonly size?: string | undefined;
}

/** Shape of a pool key of a request. A missing template reads as empty, which nodes refuse by name. */
export const wirePoolKeySchema: z.ZodType<WirePoolKey> = z.object({
  template: maybe(z.string()).transform((template) => template ?? ""),
  net: maybe(z.string()),
  size: maybe(z.string()),
});

/** Error body of every JSON failure. `error` is for people; match on the status. Node API §3. */
export interface ErrorReply {
  readonly error: string;
}

/** Shape of an error body. */
export const errorReplySchema: z.ZodType<ErrorReply> = z.object({ error: z.string() });

/** A volume as a claim asks for it or a row reports it. `mode` absent means read-only. */
export interface WireVolume {
  readonly name: string;
  readonly mount?: string | undefined;
  readonly mode?: string | undefined;
}

/** Shape of a volume. */
export const wireVolumeSchema: z.ZodType<WireVolume> = z.object({
  name: z.string(),
  mount: maybe(z.string()),
  mode: maybe(z.string()),
});

/** Metadata of a claim and labels of a template: text to text. Bounds are the node's business. */
export type StringMap = Readonly<Record<string, string>>;

/** Shape of metadata and labels. */
export const stringMapSchema: z.ZodType<StringMap> = z.record(z.string(), z.string());

/** What a lease's end does to the sandbox. */
export type OnExpire = "destroy" | "archive";

/** A JSON integer that JavaScript represents exactly. */
export const integerSchema: z.ZodType<number> = z.int();

/** A counter of a reply: anything that is not an exact, non-negative integer reads as 0. */
export const countSchema: z.ZodType<number> = z.unknown().optional().transform(toCount);

/** An optional member of a request: nodes read `null` as absent. */
export function maybe<T>(schema: z.ZodType<T>): z.ZodType<T | undefined> {
  return schema.nullish().transform((value) => value ?? undefined);
}

/** Absent, `null` and the empty list are the same list. */
export function listSchema<T>(item: z.ZodType<T>): z.ZodType<readonly T[]> {
  return z
    .array(item)
    .nullish()
    .transform((items): readonly T[] => items ?? []);
}

/** Reads a counter of a reply: not an exact, non-negative integer → 0. */
export function toCount(value: unknown): number {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : 0;
}

/** Reads a size of a reply: not an exact, positive integer → absent. */
export function toSize(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : undefined;
}

/** Reads an optional text of a reply: not a string, or empty → absent. */
export function toText(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/**
 * Reads an RFC 3339 time of a reply. Absent for what is no time, for a year of more than four digits, which could not
 * be told on, and for the zero time of year 1, by which nodes say "none".
 */
export function parseWireTime(value: unknown): Date | undefined {
  if (typeof value !== "string" || value.length < 20 || value.startsWith("000") || !/^[0-9]/.test(value)) {
    return undefined;
  }
  const date = new Date(value);
  const year = date.getUTCFullYear();
  return year > 1 && year <= 9999 ? date : undefined;
}

/** Zero-time rule of {@link parseWireTime} for a value that stays text: cheap, so the rest is checked when it is parsed. */
export function toTimeText(value: unknown): string | undefined {
  return typeof value === "string" && value.length >= 20 && !value.startsWith("000") ? value : undefined;
}
