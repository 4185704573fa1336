import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import type { OutgoingHttpHeaders } from "node:http";
import { posix } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";

import { create as contentDisposition } from "content-disposition";

import { EnvdError, errnoOf } from "../errors.ts";
import { type Guest, locate, type ResolvedPath } from "../guest/guest.ts";
import type { GuestUser } from "../guest/users.ts";
import { type Exchange, sendProblem } from "../http/reply.ts";
import { negotiateEncoding } from "./accept-encoding.ts";
import { OCTET_STREAM, sniffType, typeByName } from "./content-type.ts";
import { type ByteRange, parseRange } from "./range.ts";

const READ_BYTES = 256 * 1024;
const SNIFF_BYTES = 512;

/** Answers `GET /files` for an admitted request. */
export async function download(guest: Guest, exchange: Exchange, path: string, user: GuestUser): Promise<void> {
  const at = locate(guest, path, user);
  const file = await openRegular(at);
  try {
    await sendFile(file, at.guest, exchange);
  } finally {
    await file.close().catch(() => undefined);
  }
}

async function openRegular({ guest, host }: ResolvedPath): Promise<FileHandle> {
  let file: FileHandle;
  try {
    // Opening a fifo or device must not wait for its other side.
    file = await open(host, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    const errno = errnoOf(error) ?? "failed";
    if (errno === "ENOENT") throw new EnvdError("not_found", `path '${guest}' does not exist`);
    if (errno === "ENXIO") throw new EnvdError("invalid_argument", `path '${guest}' is not a regular file`);
    throw new EnvdError("internal", `cannot open '${guest}': ${errno}`, { cause: error });
  }
  const stats = await file.stat();
  if (stats.isFile()) return file;
  await file.close();
  throw new EnvdError(
    "invalid_argument",
    `path '${guest}' is ${stats.isDirectory() ? "a directory" : "not a regular file"}`,
  );
}

async function sendFile(file: FileHandle, path: string, { req, res }: Exchange): Promise<void> {
  const { size, mtime } = await file.stat();
  const name = posix.basename(path);
  const wanted = req.headers;
  const conditional =
    wanted.range !== undefined ||
    wanted["if-modified-since"] !== undefined ||
    wanted["if-unmodified-since"] !== undefined ||
    wanted["if-match"] !== undefined ||
    wanted["if-none-match"] !== undefined ||
    wanted["if-range"] !== undefined;
  const encoding = negotiateEncoding(headerText(wanted["accept-encoding"]), conditional ? ["identity"] : undefined);
  if (encoding === undefined) {
    throw new EnvdError("invalid_argument", "no acceptable encoding: gzip and identity are available", { status: 406 });
  }
  const headers: OutgoingHttpHeaders = {
    "content-disposition": contentDisposition(name, { type: "inline", fallback: false }),
    vary: res.hasHeader("vary") ? `${String(res.getHeader("vary"))}, Accept-Encoding` : "Accept-Encoding",
    "last-modified": mtime.toUTCString(),
  };
  const start = await readStart(file);
  if (encoding === "gzip" && (start.length > 0 || !acceptsIdentity(headerText(wanted["accept-encoding"])))) {
    const type = (await typeByName(name)) ?? OCTET_STREAM;
    res.writeHead(200, { ...headers, "content-type": type, "content-encoding": "gzip" });
    await deliver([file.createReadStream({ start: 0, highWaterMark: READ_BYTES }), createGzip()], res);
    return;
  }
  const whole = { ...headers, "accept-ranges": "bytes", "content-type": (await typeByName(name)) ?? sniffType(start) };
  const changed = Math.floor(mtime.getTime() / 1000) * 1000;
  if (isBefore(wanted["if-unmodified-since"], changed)) {
    return sendProblem(res, 412, `path '${path}' has changed`);
  }
  if (wanted["if-none-match"] === undefined && isNotBefore(wanted["if-modified-since"], changed)) {
    res.writeHead(304, headers);
    res.end();
    return;
  }
  const rangeHolds = wanted["if-range"] === undefined || isNotBefore(headerText(wanted["if-range"]), changed);
  const range = rangeHolds ? parseRange(wanted.range, size) : undefined;
  if (range === "unsatisfiable") {
    return sendProblem(res, 416, `range is outside of '${path}'`, { "content-range": `bytes */${size}` });
  }
  if (range !== undefined) {
    const contentRange = `bytes ${range.start}-${range.end}/${size}`;
    return sendSlice(file, range, res, 206, { ...whole, "content-range": contentRange });
  }
  if (size > 0) return sendSlice(file, { start: 0, end: size - 1 }, res, 200, whole);
  if (start.length === 0) {
    res.writeHead(200, { ...whole, "content-length": 0 });
    res.end();
    return;
  }
  // Files of /proc and alike have content but no size.
  res.writeHead(200, whole);
  await deliver([file.createReadStream({ start: 0, highWaterMark: READ_BYTES })], res);
}

async function sendSlice(
  file: FileHandle,
  { start, end }: ByteRange,
  res: Exchange["res"],
  status: number,
  headers: OutgoingHttpHeaders,
): Promise<void> {
  const length = end - start + 1;
  res.writeHead(status, { ...headers, "content-length": length });
  const source = file.createReadStream({ start, end, highWaterMark: READ_BYTES });
  await deliver([source], res, () => source.bytesRead === length);
}

/**
 * Sends the body as fast as the client takes it. When it cannot be completed the connection is cut, so that no client
 * takes a part for the whole.
 */
async function deliver(
  streams: [Readable] | [Readable, NodeJS.ReadWriteStream],
  res: Exchange["res"],
  isComplete: () => boolean = () => true,
): Promise<void> {
  try {
    await pipeline([...streams, res], { end: false });
    if (isComplete()) res.end();
    else res.destroy();
  } catch {
    // The client has left, or the file cannot be read on: either way nothing can be said any more.
    res.destroy();
  }
}

async function readStart(file: FileHandle): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(SNIFF_BYTES), 0, SNIFF_BYTES, 0);
  return buffer.subarray(0, bytesRead);
}

function acceptsIdentity(header: string | undefined): boolean {
  return negotiateEncoding(header, ["identity"]) !== undefined;
}

/** Whether the date in a header lies before `time`; false without a readable date. */
function isBefore(header: string | undefined, time: number): boolean {
  return header !== undefined && Date.parse(header) < time;
}

function isNotBefore(header: string | undefined, time: number): boolean {
  return header !== undefined && Date.parse(header) >= time;
}

function headerText(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(", ") : value;
}
