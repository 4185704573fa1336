import * as z from "zod";
import type { RawStep } from "./build-steps.ts";

type Maybe<T> = T | null | undefined;

/** `POST /v3/templates`. */
export interface TemplateRequest {
  readonly name?: Maybe<string>;
  /** The old spelling of `name`. */
  readonly alias?: Maybe<string>;
  readonly tags?: Maybe<readonly string[]>;
  readonly cpuCount?: Maybe<number>;
  readonly memoryMB?: Maybe<number>;
  readonly minFreeDiskMb?: Maybe<number>;
}

const count = z.int32().positive().nullish();

export const templateRequest: z.ZodType<TemplateRequest> = z.object({
  name: z.string().nullish(),
  alias: z.string().nullish(),
  tags: z.array(z.string()).nullish(),
  cpuCount: count,
  memoryMB: count,
  minFreeDiskMb: z.int32().nonnegative().nullish(),
});

/** `POST /v2/templates/{templateID}/builds/{buildID}`. Nothing is cached, so that `force` changes nothing. */
export interface BuildStart {
  readonly fromImage: string;
  readonly fromTemplate?: Maybe<"">;
  readonly fromImageRegistry?: Maybe<never>;
  readonly steps?: Maybe<readonly RawStep[]>;
  readonly startCmd?: Maybe<string>;
  readonly readyCmd?: Maybe<string>;
}

export const buildStart: z.ZodType<BuildStart> = z.object({
  // First, since clients that ask for one of these name no image.
  fromTemplate: z
    .literal("", {
      error: ({ input }) =>
        typeof input === "string" ? "is not supported: build from an image of a pool" : "want a string",
    })
    .nullish(),
  fromImageRegistry: z.null({ error: "is not supported: images are those that pools serve" }).optional(),
  fromImage: z
    .string({ error: ({ input }) => (input === undefined || input === null ? "an image is required" : undefined) })
    .regex(/\S/, { error: "an image is required" })
    .describe("A pool image, or an alias of one."),
  steps: z
    .array(
      z.object({
        type: z.string().describe("RUN, ENV, WORKDIR, USER or COPY."),
        args: z.array(z.string()).nullish(),
        filesHash: z.string().nullish(),
      }),
    )
    .nullish(),
  startCmd: z.string().nullish(),
  readyCmd: z.string().nullish(),
});
