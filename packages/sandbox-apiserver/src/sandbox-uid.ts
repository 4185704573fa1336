import { createHash } from "node:crypto";

/** Namespace of our names, itself a name: version 5 of the URL `https://agents.x-k8s.io/sandboxes`. */
const NAMESPACE = Buffer.from("7738ac60d7c35806a155fb8c4a6760f7", "hex");

/**
 * The uid of a sandbox: UUID version 5 of its node and claim id, so that the answer to a create and every later read, by
 * any process, have the same. `undefined` for a sandbox whose id is not known.
 */
export function sandboxUid(node: string, claimId: string): string | undefined {
  if (claimId === "") {
    return undefined;
  }
  const hash = createHash("sha1").update(NAMESPACE).update(`${node}\0${claimId}`).digest().subarray(0, 16);
  hash.writeUInt8((hash.readUInt8(6) & 0x0f) | 0x50, 6);
  hash.writeUInt8((hash.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = hash.toString("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
