import type { IncomingMessage } from "node:http";
import { posix } from "node:path";
import type { Readable } from "node:stream";
import { createGunzip } from "node:zlib";

import { EnvdError } from "../errors.ts";
import { type Guest, locate } from "../guest/guest.ts";
import type { GuestUser } from "../guest/users.ts";
import { type Exchange, sendJson } from "../http/reply.ts";
import type { EnvdLogger } from "../options.ts";
import { metadataOf } from "./metadata.ts";
import { readMultipart } from "./multipart.ts";
import { writeFile } from "./write-file.ts";

interface WrittenFile {
  readonly path: string;
  readonly name: string;
  readonly type: "file";
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Answers `POST /files` for an admitted request. Bodies are streamed to disk, never held. */
export async function upload(
  guest: Guest,
  { req, res }: Exchange,
  path: string | undefined,
  user: GuestUser,
  logger: EnvdLogger,
): Promise<void> {
  const metadata = metadataOf(req);
  const contentType = req.headers["content-type"] ?? "";
  const type = contentType.split(";", 1)[0]?.trim().toLowerCase() ?? "";
  const written = new Map<string, WrittenFile>();

  async function store(target: string, body: AsyncIterable<Buffer>): Promise<void> {
    const at = locate(guest, target, user);
    const key = posix.normalize(at.host);
    if (written.has(key)) throw new EnvdError("invalid_argument", `path '${at.guest}' is given twice`);
    const kept = await writeFile(at, body, user, guest, metadata);
    if (!kept && metadata.size > 0) {
      logger.warn({ keys: [...metadata.keys()] }, "file metadata is not stored: there are no extended attributes here");
    }
    written.set(key, {
      path: at.guest,
      name: posix.basename(at.guest),
      type: "file",
      ...(kept && metadata.size > 0 && { metadata: Object.fromEntries(metadata) }),
    });
  }

  if (type === "application/octet-stream") {
    if (path === undefined) throw new EnvdError("invalid_argument", "path is required for application/octet-stream");
    await store(path, decoded(req));
  } else if (type.startsWith("multipart/")) {
    await readMultipart(decoded(req), contentType, async ({ filename, body }) => {
      const target = path ?? filename;
      if (target === undefined || target === "") {
        throw new EnvdError("invalid_argument", "a part without a filename needs the path query parameter");
      }
      await store(target, body);
    });
  } else {
    throw new EnvdError("invalid_argument", `unsupported content type: ${contentType}`);
  }
  sendJson(res, 200, [...written.values()]);
}

/** The body without its content encoding. */
function decoded(req: IncomingMessage): Readable {
  const encoding = (req.headers["content-encoding"] ?? "identity").trim().toLowerCase();
  if (encoding === "identity" || encoding === "") return req;
  if (encoding !== "gzip") {
    throw new EnvdError("invalid_argument", `unsupported content encoding: ${encoding}; use gzip or identity`);
  }
  const gunzip = createGunzip();
  // Its readers learn of an error when they come to read, which may be later.
  gunzip.on("error", () => undefined);
  req.on("error", (error) => gunzip.destroy(error));
  req.on("close", () => {
    if (!req.readableEnded) gunzip.destroy(new Error("the body ended early"));
  });
  return req.pipe(gunzip);
}
