import { createHash } from "node:crypto";

function uuid5(namespace: Buffer, name: string): Buffer {
  const bytes = createHash("sha1").update(namespace).update(name).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x50, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes;
}

/** The standard namespace for names that are URLs (RFC 9562 §6.6). */
const URL_NAMESPACE = Buffer.from("6ba7b8119dad11d180b400c04fd430c8", "hex");
const BUILD_NAMESPACE: Buffer = uuid5(URL_NAMESPACE, "https://github.com/cocoonstack/sandbox-operator/e2b");

/** Build id of a promoted template: clients parse it as a UUID, nodes know a content digest. */
export function buildIdOf(contentDigest: string): string {
  const hex = uuid5(BUILD_NAMESPACE, contentDigest).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
