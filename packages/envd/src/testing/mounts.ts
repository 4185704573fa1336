import { closeSync, mkdtempSync, openSync, read, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import koffi from "koffi";

/** A mounted file system that somebody else serves. */
export interface FuseMount extends Disposable {
  readonly path: string;
}

/** Detached at once, whoever still looks at it. */
const DETACH = 2;

/** Mounts a file system; false where that is not allowed. */
export function mountAt(target: string, type: string, options: string): boolean {
  const mount = koffi.load(null).func("int mount(str, str, str, ulong, str)");
  return mount("envd-test", target, type, 0, options) === 0;
}

/** Takes a file system away again; nothing happens where there is none. */
export function unmount(target: string): void {
  koffi.load(null).func("int umount2(str, int)")(target, DETACH);
}

const IN_HEAD = 40;
const OUT_HEAD = 16;
const DIRECTORY_MODE = 0o40_755;
const ENOSYS = 38;
const ENOENT = 2;
const LOOKUP = 1;
const GETATTR = 3;
const STATFS = 17;
const RELEASEDIR = 29;
const INIT = 26;
const OPENDIR = 27;
const READDIR = 28;
const ACCESS = 34;
const SILENT = new Set([2, 42]);

/**
 * Mounts an empty directory over FUSE and serves it from here, with the kernel's own protocol. `undefined` where that
 * is not allowed: it takes root and `/dev/fuse`.
 */
export function mountFuse(): FuseMount | undefined {
  let fd: number;
  try {
    fd = openSync("/dev/fuse", "r+");
  } catch {
    return undefined;
  }
  const path = mkdtempSync(join(tmpdir(), "fuse-"));
  const options = `fd=${fd},rootmode=40000,user_id=${process.getuid?.() ?? 0},group_id=${process.getgid?.() ?? 0}`;
  if (!mountAt(path, "fuse", options)) {
    closeSync(fd);
    rmSync(path, { recursive: true });
    return undefined;
  }
  serve(fd);
  return {
    path,
    [Symbol.dispose]() {
      // The read that waits then ends.
      unmount(path);
      rmSync(path, { recursive: true, force: true });
    },
  };
}

function serve(fd: number): void {
  const request = Buffer.alloc(1 << 17);
  const next = (): void => {
    read(fd, request, 0, request.length, null, (error, length) => {
      if (error !== null) {
        closeSync(fd);
        return;
      }
      const opcode = request.readUInt32LE(4);
      if (!SILENT.has(opcode)) {
        answer(fd, request.readBigUInt64LE(8), opcode);
      }
      if (length >= IN_HEAD) {
        next();
      }
    });
  };
  next();
}

function answer(fd: number, unique: bigint, opcode: number): void {
  const body = bodyOf(opcode);
  const failed = typeof body === "number";
  const out = Buffer.alloc(OUT_HEAD + (failed ? 0 : body.length));
  out.writeUInt32LE(out.length, 0);
  out.writeInt32LE(failed ? -body : 0, 4);
  out.writeBigUInt64LE(unique, 8);
  if (!failed) {
    body.copy(out, OUT_HEAD);
  }
  try {
    writeSync(fd, out);
  } catch {
    // Whoever asked has left.
  }
}

/** The body of an answer, or the number of an error. */
function bodyOf(opcode: number): Buffer | number {
  switch (opcode) {
    case INIT: {
      const body = Buffer.alloc(64);
      body.writeUInt32LE(7, 0);
      body.writeUInt32LE(31, 4);
      body.writeUInt32LE(4096, 20);
      return body;
    }
    case GETATTR: {
      const body = Buffer.alloc(104);
      body.writeBigUInt64LE(60n, 0);
      body.writeBigUInt64LE(1n, 16);
      body.writeUInt32LE(DIRECTORY_MODE, 16 + 60);
      body.writeUInt32LE(2, 16 + 64);
      return body;
    }
    case STATFS:
      return Buffer.alloc(80);
    case OPENDIR:
      return Buffer.alloc(16);
    case READDIR:
    case RELEASEDIR:
    case ACCESS:
      return Buffer.alloc(0);
    case LOOKUP:
      return ENOENT;
    default:
      return ENOSYS;
  }
}
