import { createHash, type Hash } from "node:crypto";
import { lstat, readlink } from "node:fs/promises";
import { below, openFile, openFolder, readable, type TreePath } from "./tree-reading.ts";
import { idInside, type IdRange } from "./id-range.ts";

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
  await addFolder(hash, Buffer.from(root), Buffer.alloc(0), options);
  return `sha256:${hash.digest("hex")}`;
}

async function addFolder(hash: Hash, folder: TreePath, path: TreePath, options: DigestTreeOptions): Promise<void> {
  const stat = await lstat(folder);
  await readable(folder, stat, async () => {
    let names: TreePath[];
    {
      await using open = await openFolder(folder);
      names = await open.names();
    }
    names.sort((a, b) => a.compare(b));
    for (const name of names) {
      options.signal?.throwIfAborted();
      await addEntry(hash, below(folder, name), path.length === 0 ? name : below(path, name), options);
    }
  });
}

async function addEntry(hash: Hash, at: TreePath, path: TreePath, options: DigestTreeOptions): Promise<void> {
  const stat = await lstat(at);
  const { owners } = options;
  const inside = (id: number): number => (owners === undefined ? 0 : idInside(owners, id));
  const owner = `${inside(stat.uid)}:${inside(stat.gid)}`;
  const head = (kind: string, mode: number): void => {
    addField(hash, Buffer.from(`${kind} ${mode.toString(8)} ${owner}`));
    addField(hash, path);
  };
  if (stat.isDirectory()) {
    head("folder", stat.mode & 0o7777);
    await addFolder(hash, at, path, options);
  } else if (stat.isSymbolicLink()) {
    head("link", 0);
    addField(hash, await readlink(at, { encoding: "buffer" }));
  } else if (stat.isFile()) {
    head("file", stat.mode & 0o7777);
    addLength(hash, stat.size);
    await readable(at, stat, () => addContent(hash, at, options.signal));
  }
}

async function addContent(hash: Hash, at: TreePath, signal: AbortSignal | undefined): Promise<void> {
  const file = await openFile(at);
  try {
    const buffer = Buffer.allocUnsafe(CHUNK);
    for (;;) {
      signal?.throwIfAborted();
      const { bytesRead } = await file.read(buffer, 0, buffer.length, null);
      if (bytesRead === 0) {
        return;
      }
      hash.update(buffer.subarray(0, bytesRead));
    }
  } finally {
    await file.close();
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
