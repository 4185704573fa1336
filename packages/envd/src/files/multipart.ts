import { once } from "node:events";
import type { Readable } from "node:stream";

import { EnvdError } from "../errors.ts";

/** One file of a multipart body. */
export interface FilePart {
  /** As sent, directories included; undefined when the part has none. */
  readonly filename: string | undefined;
  readonly body: Readable;
}

/** Name of the parts that are files; others are ignored. */
const FILE_FIELD = "file";

/**
 * Hands the file parts of a multipart body to `take`, one after the other; a slow `take` holds up the client. Stops at
 * the first failure.
 *
 * @throws EnvdError `invalid_argument` for a malformed body
 */
export async function readMultipart(
  source: Readable,
  contentType: string,
  take: (part: FilePart) => Promise<void>,
): Promise<void> {
  const { Busboy } = await import("@fastify/busboy");
  let work: Promise<void> = Promise.resolve();
  let failure: { readonly error: unknown } | undefined;
  let parser;
  try {
    parser = new Busboy({
      // The parser knows form-data only, but every multipart body is cut the same way.
      headers: { "content-type": contentType.replace(/^\s*multipart\/[^;\s]+/i, "multipart/form-data") },
      preservePath: true,
      // As files all parts are streamed, those that are ignored as well.
      isPartAFile: () => true,
    });
  } catch (error) {
    throw malformed(error);
  }
  parser.on("file", (field: string | undefined, body: Readable, filename: string | undefined) => {
    body.on("error", (error) => body.destroy(error));
    if (field !== FILE_FIELD || failure !== undefined) {
      body.resume();
      return;
    }
    work = after(work, { filename, body });
  });
  async function after(earlier: Promise<void>, part: FilePart): Promise<void> {
    await earlier;
    try {
      if (failure === undefined) await take(part);
    } catch (error) {
      failure = { error };
    }
    // What a failed part leaves unread would hold up the parser for ever.
    part.body.resume();
  }
  const broken = Promise.withResolvers<never>();
  broken.promise.catch(() => undefined);
  source.on("error", broken.reject);
  source.on("close", () => {
    if (!source.readableEnded) broken.reject(new Error("the body ended early"));
  });
  try {
    source.pipe(parser);
    await Promise.race([once(parser, "finish"), broken.promise]);
  } catch (error) {
    failure ??= { error: malformed(error) };
    source.unpipe(parser);
    source.resume();
    parser.destroy();
  }
  await work;
  if (failure !== undefined) throw failure.error;
}

function malformed(error: unknown): EnvdError {
  const why = error instanceof Error ? error.message : "malformed";
  return new EnvdError("invalid_argument", `cannot read the multipart body: ${why}`, { cause: error });
}
