import { constants } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { randomBytes } from "node:crypto";
import { below, ifThere, openFolder } from "./tree-reading.ts";

/** Where a guest's processes read what the operator says about it. */
export const INSTANCE_DOCUMENT: { readonly folder: string; readonly name: string } = {
  folder: "run",
  name: "instance-metadata.json",
};

/**
 * Puts the document into a guest's tree while the guest runs: the old one or the new one is there, whole, at any time.
 * No link that the guest makes is followed. Resolves `false` when the guest has no such folder.
 */
export async function putInstanceDocument(
  tree: string,
  content: Uint8Array,
  owner: number | undefined,
): Promise<boolean> {
  using root = openFolder(Buffer.from(tree));
  const opened = ifThere(() => openFolder(below(root.path, Buffer.from(INSTANCE_DOCUMENT.folder))));
  if (opened === undefined) {
    return false;
  }
  using folder = opened;
  const draft = below(folder.path, Buffer.from(`.${INSTANCE_DOCUMENT.name}.${randomBytes(8).toString("hex")}`));
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const file = await open(draft, flags, 0o600);
  try {
    await file.writeFile(content);
    if (owner !== undefined) {
      await file.chown(owner, owner);
    }
    await file.chmod(0o644);
    await rename(draft, below(folder.path, Buffer.from(INSTANCE_DOCUMENT.name)));
  } catch (error) {
    await rm(draft, { force: true });
    if ((error as NodeJS.ErrnoException).code === "EISDIR") {
      return false;
    }
    throw error;
  } finally {
    await file.close();
  }
  return true;
}
