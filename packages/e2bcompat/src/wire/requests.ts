import * as z from "zod";
import { readJson } from "../body.ts";
import type { Call } from "../call.ts";
import { E2bError } from "../errors.ts";

function isStringMap(value: unknown): value is Readonly<Record<string, string>> {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every((entry) => typeof entry === "string")
  );
}

// A record schema would drop the key `__proto__` without a word.
const stringMap = z.custom<Readonly<Record<string, string>>>(isStringMap, {
  error: "want an object whose values are strings",
});
const seconds = z.int32().nonnegative();
const openObject = z.looseObject({});

// Clients send absent, `null` and explicit values alike, so every optional field takes all three.
type Maybe<T> = T | null | undefined;

/** `POST /sandboxes` and `POST /v2/sandboxes`. */
export interface CreateSandbox {
  readonly templateID?: Maybe<string>;
  readonly timeout?: Maybe<number>;
  readonly metadata?: Maybe<Readonly<Record<string, string>>>;
  readonly envVars?: Maybe<Readonly<Record<string, string>>>;
  readonly secure?: Maybe<boolean>;
  readonly allow_internet_access?: Maybe<boolean>;
  readonly autoPause?: Maybe<boolean>;
  readonly autoPauseMemory?: Maybe<boolean>;
  readonly autoResume?: Maybe<{ readonly enabled?: Maybe<boolean> }>;
  readonly network?: Maybe<object>;
  readonly volumeMounts?: Maybe<readonly unknown[]>;
  readonly mcp?: Maybe<object>;
  readonly iam?: Maybe<object>;
}

export const createSandbox: z.ZodType<CreateSandbox> = z.object({
  templateID: z.string().nullish(),
  timeout: seconds.nullish(),
  metadata: stringMap.nullish(),
  envVars: stringMap.nullish(),
  secure: z.boolean().nullish(),
  allow_internet_access: z.boolean().nullish(),
  autoPause: z.boolean().nullish(),
  autoPauseMemory: z.boolean().nullish(),
  autoResume: z.object({ enabled: z.boolean().nullish() }).nullish(),
  network: openObject.nullish(),
  volumeMounts: z.array(z.unknown()).nullish(),
  mcp: openObject.nullish(),
  iam: openObject.nullish(),
});

/** `POST /sandboxes/{sandboxID}/timeout`. */
export const setTimeoutBody: z.ZodType<{ readonly timeout: number }> = z.object({ timeout: seconds });

/** `POST /sandboxes/{sandboxID}/refreshes`. */
export const refreshBody: z.ZodType<{ readonly duration?: Maybe<number> }> = z.object({ duration: seconds.nullish() });

/** `POST /sandboxes/{sandboxID}/pause`. */
export const pauseBody: z.ZodType<{ readonly memory?: Maybe<boolean> }> = z.object({ memory: z.boolean().nullish() });

/** `POST /sandboxes/{sandboxID}/connect`, its v2, and `resume`. A negative timeout only never extends the lease. */
export interface WakeSandbox {
  readonly timeout?: Maybe<number>;
  readonly memory?: Maybe<boolean>;
}

export const connectBody: z.ZodType<WakeSandbox> = z.object({
  timeout: z.int32().nullish(),
  memory: z.boolean().nullish(),
});

/** `POST /sandboxes/{sandboxID}/resume`. */
export const resumeBody: z.ZodType<WakeSandbox & { readonly autoPause?: Maybe<boolean> }> = z.object({
  timeout: z.int32().nullish(),
  memory: z.boolean().nullish(),
  autoPause: z.boolean().nullish(),
});

/** `POST /sandboxes/{sandboxID}/fork`. How many at most is the node's to say. */
export const forkBody: z.ZodType<{ readonly timeout?: Maybe<number>; readonly count?: Maybe<number> }> = z.object({
  timeout: seconds.nullish(),
  count: z.int32().positive().nullish(),
});

/** `POST /sandboxes/{sandboxID}/snapshots`. */
export const snapshotBody: z.ZodType<{ readonly name?: Maybe<string> }> = z.object({ name: z.string().nullish() });

/** `PATCH /templates/{templateID}` and its v2. */
export const templatePatch: z.ZodType<{ readonly public?: Maybe<boolean> }> = z.object({
  public: z.boolean().nullish(),
});

const tagList = z.array(z.string());

/** `POST /templates/tags`. */
export const assignTagsBody: z.ZodType<{ readonly target: string; readonly tags: readonly string[] }> = z.object({
  target: z.string(),
  tags: tagList,
});

/** `DELETE /templates/tags`. */
export const removeTagsBody: z.ZodType<{ readonly name: string; readonly tags: readonly string[] }> = z.object({
  name: z.string(),
  tags: tagList,
});

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
