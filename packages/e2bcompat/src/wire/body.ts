import type * as z from "zod";
import { readJson } from "../body.ts";
import type { Call } from "../call.ts";
import { E2bError } from "../errors.ts";

function decode<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value);
  if (result.success) {
    return result.data;
  }
  const [issue] = result.error.issues;
  const where = issue === undefined || issue.path.length === 0 ? "the request body" : issue.path.join(".");
  throw new E2bError("bad_request", `${where}: ${issue?.message ?? "invalid"}`);
}

/** Reads a body that a request must have. Throws `bad_request` naming the field. */
export async function readBody<T>(call: Call, schema: z.ZodType<T>): Promise<T> {
  const value = await readJson(call);
  if (value === undefined) {
    throw new E2bError("bad_request", "a JSON request body is required");
  }
  return decode(schema, value);
}

/** Reads a body that may be absent: no bytes, `null` and `{}` mean the same. Throws `bad_request` naming the field. */
export async function readOptionalBody<T>(call: Call, schema: z.ZodType<T>): Promise<T> {
  return decode(schema, (await readJson(call)) ?? {});
}
