import { bearer, idSegment } from "./address.ts";
import type { ClaimReply } from "./wire/claim.ts";
import { toText } from "./wire/common.ts";
import { readAddresses, readFields } from "./wire/readers.ts";

/** What a node makes of a claim. */
export type ClaimOutcome =
  | { readonly kind: "delivered"; readonly reply: ClaimReply }
  | { readonly kind: "redirect"; readonly targets: readonly string[]; readonly requirePromoted: boolean }
  /** Neither a sandbox nor a redirect: no capacity. */
  | { readonly kind: "empty" };

/** A body is a redirect exactly when `id` is empty and `redirect` is not. Node API §5.3. */
export function readClaimOutcome(value: unknown): ClaimOutcome {
  const reply = readFields(value, "the reply");
  if (toText(reply["id"]) !== undefined) {
    return { kind: "delivered", reply: readDelivered(reply) };
  }
  const targets = readAddresses(reply["redirect"], "redirect");
  return targets.length === 0
    ? { kind: "empty" }
    : { kind: "redirect", targets, requirePromoted: reply["require_promoted"] === true };
}

/** A delivered sandbox. What no later request could carry is no sandbox that anybody can use. Node API §5.2. */
export function readDelivered(value: unknown): ClaimReply {
  const reply = readFields(value, "the sandbox");
  const id = toText(reply["id"]);
  const token = toText(reply["token"]);
  if (id === undefined || token === undefined) {
    throw new TypeError(`a sandbox without ${id === undefined ? "an id" : "a token"}`);
  }
  bearer(token);
  if (idSegment(id) !== id) {
    throw new TypeError("a sandbox whose id is no path segment");
  }
  return {
    id,
    token,
    deadline: toText(reply["deadline"]) ?? "",
    owner_addr: toText(reply["owner_addr"]),
    net_route: toText(reply["net_route"]),
    template_digest: toText(reply["template_digest"]),
    from_checkpoint: toText(reply["from_checkpoint"]),
  };
}
