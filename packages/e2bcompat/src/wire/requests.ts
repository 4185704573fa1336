import * as z from "zod";

// Clients send absent, `null` and explicit values alike, so every optional field takes all three.
type Maybe<T> = T | null | undefined;

interface StringMapOptions {
  readonly want: string;
  readonly name?: RegExp;
  readonly value?: RegExp;
}

/** Half a character can be written in JSON; nodes make another one of it, and the same one of all. */
function fits(text: unknown, form: RegExp | undefined): boolean {
  return typeof text === "string" && text.isWellFormed() && (form?.test(text) ?? true);
}

/** An object of strings in well-formed Unicode. A record schema would drop the key `__proto__` without a word. */
function stringMap({ want, name, value }: StringMapOptions): z.ZodType<Readonly<Record<string, string>>> {
  const isMap = (input: unknown): boolean =>
    typeof input === "object" &&
    input !== null &&
    !Array.isArray(input) &&
    Object.entries(input).every(([key, entry]) => fits(key, name) && fits(entry, value));
  const error = `want an object ${want}, all in well-formed Unicode`;
  return z.custom<Readonly<Record<string, string>>>(isMap, { error }).meta({
    type: "object",
    ...(name === undefined ? {} : { propertyNames: { pattern: name.source } }),
    additionalProperties: { type: "string", ...(value === undefined ? {} : { pattern: value.source }) },
  });
}

/** An option that is honoured only where it asks for nothing: an empty object. */
function nothing(why: string): z.ZodType<object> {
  return z.strictObject({}, { error: ({ code }) => (code === "unrecognized_keys" ? why : undefined) });
}

const HERE = "is not supported by this deployment";
const seconds = z.int32().nonnegative();
const withMemory = z.literal(true, {
  error: ({ input }) => (input === false ? "false is not supported: a sandbox pauses with its memory" : undefined),
});

/** `POST /sandboxes` and `POST /v2/sandboxes`. What is here but cannot be honoured has room for the harmless values only. */
export interface CreateSandbox {
  readonly templateID: string;
  readonly timeout?: Maybe<number>;
  readonly metadata?: Maybe<Readonly<Record<string, string>>>;
  readonly envVars?: Maybe<Readonly<Record<string, string>>>;
  readonly secure?: Maybe<true>;
  readonly allow_internet_access?: Maybe<boolean>;
  readonly autoPause?: Maybe<boolean>;
  readonly autoPauseMemory?: Maybe<never>;
  readonly autoResume?: Maybe<{ readonly enabled?: Maybe<boolean> }>;
  readonly network?: Maybe<object>;
  readonly volumeMounts?: Maybe<readonly never[]>;
  readonly mcp?: Maybe<object>;
  readonly iam?: Maybe<object>;
}

export const createSandbox: z.ZodType<CreateSandbox> = z
  .object({
    templateID: z
      .string({ error: ({ input }) => (input === undefined || input === null ? "a template is required" : undefined) })
      .regex(/\S/, { error: "a template is required" })
      .describe("An alias, a pool image, the id of a snapshot, or a built template as `name` or `name:tag`."),
    timeout: seconds.nullish().describe("Length of the lease in seconds; 0 leaves it to the node."),
    metadata: stringMap({ want: "whose values are strings" })
      .nullish()
      .describe("Kept with the sandbox. Nodes take 16 pairs, with keys of printable ASCII without `=` and `&`."),
    envVars: stringMap({
      want: "of variables: names without `=` and NUL, values that are strings without NUL",
      // The document has them as they stand, and `\0` is not read everywhere.
      // oxlint-disable-next-line no-control-regex -- NUL is what a name must not have
      name: /^[^=\u0000]+$/,
      // oxlint-disable-next-line no-control-regex -- nor a value
      value: /^[^\u0000]*$/,
    })
      .nullish()
      .describe("What its commands start with. Needs a deployment with a secret."),
    secure: z
      .literal(true, {
        error: ({ input }) =>
          input === false ? "false is not supported, every sandbox needs its access token" : undefined,
      })
      .nullish(),
    allow_internet_access: z.boolean().nullish().describe("Whether it is on the lane with network."),
    autoPause: z.boolean().nullish().describe("Whether the end of its lease pauses it. Not with internet access."),
    autoPauseMemory: z.null({ error: HERE }).optional(),
    autoResume: z
      .object({ enabled: z.boolean().nullish() })
      .nullish()
      .describe("Any value: a request with its token wakes a paused sandbox."),
    network: nothing("is not supported: network rules are not available in this deployment").nullish(),
    volumeMounts: z
      .array(z.never({ error: HERE }))
      .max(0, { error: HERE })
      .nullish(),
    mcp: nothing(HERE).nullish(),
    iam: nothing(HERE).nullish(),
  })
  .refine(({ autoPause, allow_internet_access }) => autoPause !== true || allow_internet_access !== true, {
    error: "is not supported together with allow_internet_access: a sandbox with internet access cannot pause",
    path: ["autoPause"],
  })
  .meta({
    not: {
      required: ["autoPause", "allow_internet_access"],
      properties: { autoPause: { const: true }, allow_internet_access: { const: true } },
    },
  });

/** `POST /sandboxes/{sandboxID}/timeout`. */
export interface SetTimeout {
  readonly timeout: number;
}

export const setTimeoutBody: z.ZodType<SetTimeout> = z.object({ timeout: seconds });

/** `POST /sandboxes/{sandboxID}/refreshes`. */
export interface Refresh {
  readonly duration?: Maybe<number>;
}

export const refreshBody: z.ZodType<Refresh> = z.object({
  duration: seconds.nullish().describe("In seconds; 0 and none are the default of the deployment."),
});

/** `POST /sandboxes/{sandboxID}/pause`. */
export const pauseBody: z.ZodType<{ readonly memory?: Maybe<true> }> = z.object({ memory: withMemory.nullish() });

/** `POST /sandboxes/{sandboxID}/connect`, its v2, and `resume`. */
export interface WakeSandbox {
  readonly timeout?: Maybe<number>;
  readonly memory?: Maybe<true>;
}

const wake = {
  timeout: z
    .int32()
    .nullish()
    .describe(
      "The lease is to last so many seconds from now. It is never shortened, so a negative number does nothing.",
    ),
  memory: withMemory.nullish(),
};

export const connectBody: z.ZodType<WakeSandbox> = z.object(wake);

/** `POST /sandboxes/{sandboxID}/resume`. */
export interface ResumeSandbox extends WakeSandbox {
  readonly autoPause?: Maybe<boolean>;
}

export const resumeBody: z.ZodType<ResumeSandbox> = z.object({
  ...wake,
  autoPause: z.boolean().nullish().describe("Whether the end of the lease is to pause it, from now on."),
});

/** `POST /sandboxes/{sandboxID}/fork`. How many at most is the node's to say. */
export interface ForkSandbox {
  readonly timeout?: Maybe<number>;
  readonly count?: Maybe<number>;
}

export const forkBody: z.ZodType<ForkSandbox> = z.object({
  timeout: seconds.nullish().describe("Length of each child's lease, in seconds."),
  count: z.int32().positive().nullish().describe("How many children. How many at most is the node's to say."),
});

/** `POST /sandboxes/{sandboxID}/snapshots`. */
export interface SnapshotSandbox {
  readonly name?: Maybe<string>;
}

export const snapshotBody: z.ZodType<SnapshotSandbox> = z.object({ name: z.string().nullish() });

/** `PATCH /templates/{templateID}` and its v2. */
export const templatePatch: z.ZodType<{ readonly public?: Maybe<boolean> }> = z.object({
  public: z.boolean().nullish().describe("Changes nothing: a namespace sees its own templates."),
});

/** Nodes keep tags as labels. */
export const TAG: RegExp = /^[A-Za-z0-9._-]{1,63}$/;

const tags = z
  .array(z.string().regex(TAG, { error: "want 1 to 63 characters of a-z A-Z 0-9 . _ -" }))
  .min(1, { error: "want at least one" });

/** `POST /templates/tags`. */
export interface AssignTags {
  readonly target: string;
  readonly tags: readonly string[];
}

export const assignTagsBody: z.ZodType<AssignTags> = z.object({
  target: z.string().describe("`name` or `name:tag`."),
  tags,
});

/** `DELETE /templates/tags`. */
export interface RemoveTags {
  readonly name: string;
  readonly tags: readonly string[];
}

export const removeTagsBody: z.ZodType<RemoveTags> = z.object({ name: z.string(), tags });
