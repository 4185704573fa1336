import { hash } from "node:crypto";

/** Namespace of our names, itself a name: version 5 of the URL `https://agents.x-k8s.io/sandboxes`. */
const NAMESPACE = Buffer.from("7738ac60d7c35806a155fb8c4a6760f7", "hex");

/** First digits of the fourth group: the variant of RFC 9562 in front of two bits of the hash. */
const VARIANTS = "89ab";

/**
 * The uid of a sandbox: UUID version 5 of its node and claim id, so that the answer to a create and every later read, by
 * any process, have the same. `undefined` for a sandbox whose id is not known.
 */
export function sandboxUid(node: string, claimId: string): string | undefined {
  if (claimId === "") {
    return undefined;
  }
  const name = `${node}\0${claimId}`;
  const input = Buffer.allocUnsafe(NAMESPACE.length + Buffer.byteLength(name));
  NAMESPACE.copy(input);
  input.write(name, NAMESPACE.length);
  const hex = hash("sha1", input, "hex");
  const variant = VARIANTS.charAt(Number.parseInt(hex.charAt(16), 16) & 0b11);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
