import { ScaleError } from "./errors.ts";

/** Refuses names and leases that no claim can have. @throws ScaleError `bad_request` */
export function checkClaimInput(
  verb: string,
  claim: { readonly namespace: string; readonly name?: string | undefined; readonly ttlSeconds?: number | undefined },
): void {
  if (claim.namespace === "" || claim.namespace.includes("/")) {
    throw badRequest(verb, `a ${verb} needs a namespace without a slash`);
  }
  if (claim.name === "") {
    throw badRequest(verb, `a ${verb} needs a name`);
  }
  const ttl = claim.ttlSeconds ?? 0;
  if (!Number.isSafeInteger(ttl) || ttl < 0) {
    throw badRequest(verb, "a lease is a whole number of seconds, 0 for the node's default");
  }
}

/** The error of input that can never succeed. */
export function badRequest(verb: string, message: string): ScaleError {
  return new ScaleError("bad_request", message, { verb });
}
