import { createHash, type Hash } from "node:crypto";
import { closeSync, lstatSync, readdirSync, readlinkSync, readSync, type Stats } from "node:fs";
import { runPaced, type Steps } from "../shared/paced.ts";
import { idInside, type IdRange } from "./id-range.ts";
import { below, openFile, readRight, type TreePath } from "./tree-reading.ts";

/** Options of {@link digestTree}. */
export interface DigestTreeOptions {
  /** Ids that the tree's owners have on the host; without them owners do not count. */
  readonly owners?: IdRange | undefined;
  readonly signal?: AbortSignal | undefined;
}

const CHUNK = 256 * 1024;

/**
 * `sha256:` and the hash of every path, kind, mode, owner and content below a folder that nobody writes to. Names come
 * in byte order and every field with its length, so equal trees, and only those, have equal digests. Times and hard
 * links do not count.
 *
 * @throws system errors, the signal's reason
 */
export async function digestTree(root: string, options: DigestTreeOptions = {}): Promise<string> {
  const hash = createHash("sha256");
  const top = Buffer.from(root);
  await runPaced(addFolder(hash, top, Buffer.alloc(0), lstatSync(top), options), options.signal);
  return `sha256:${hash.digest("hex")}`;
}

function* addFolder(
  hash: Hash,
  folder: TreePath,
  path: TreePath,
  stat: Stats,
  options: DigestTreeOptions,
): Steps<void> {
  using _ = readRight(folder, stat);
  const names = readdirSync(folder, { encoding: "buffer" }).sort((a, b) => a.compare(b));
  for (const name of names) {
    yield;
    yield* addEntry(hash, below(folder, name), path.length === 0 ? name : below(path, name), options);
  }
}

function* addEntry(hash: Hash, at: TreePath, path: TreePath, options: DigestTreeOptions): Steps<void> {
  const stat = lstatSync(at);
  const { owners } = options;
  const inside = (id: number): number => (owners === undefined ? 0 : idInside(owners, id));
  const head = (kind: string, mode: number): void => {
    addField(hash, Buffer.from(`${kind} ${mode.toString(8)} ${inside(stat.uid)}:${inside(stat.gid)}`));
    addField(hash, path);
  };
  if (stat.isDirectory()) {
    head("folder", stat.mode & 0o7777);
    yield* addFolder(hash, at, path, stat, options);
  } else if (stat.isSymbolicLink()) {
    head("link", 0);
    addField(hash, readlinkSync(at, { encoding: "buffer" }));
  } else if (stat.isFile()) {
    head("file", stat.mode & 0o7777);
    addLength(hash, stat.size);
    yield* addContent(hash, at, stat);
  }
}

function* addContent(hash: Hash, at: TreePath, stat: Stats): Steps<void> {
  using _ = readRight(at, stat);
  const fd = openFile(at);
  try {
    const buffer = Buffer.allocUnsafe(Math.min(CHUNK, Math.max(stat.size, 1)));
    for (let length = readSync(fd, buffer); length > 0; length = readSync(fd, buffer)) {
      hash.update(buffer.subarray(0, length));
      if (stat.size > CHUNK) {
        yield;
      }
    }
  } finally {
    closeSync(fd);
  }
}

function addField(hash: Hash, bytes: Buffer): void {
  addLength(hash, bytes.length);
  hash.update(bytes);
}

function addLength(hash: Hash, length: number): void {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(length));
  hash.update(bytes);
}
