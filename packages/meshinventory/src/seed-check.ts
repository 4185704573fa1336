import { errorText, MeshStartError, NoAdvertiseAddressError } from "./errors.ts";
import type { Answer } from "./membership.ts";

/**
 * Judges the first tick, seed by seed in flag order. Mesh specification §2.
 * @throws MeshStartError for the first seed that refuses the token or has no key, also when others answered, and when
 * none did.
 */
export function checkSeeds(seeds: readonly string[], answers: ReadonlyMap<string, Answer>): void {
  let firstError: { readonly seed: string; readonly error: unknown } | undefined;
  let answered = false;
  for (const seed of seeds) {
    const answer = answers.get(seed);
    if (answer?.ok === true) {
      answered = true;
      continue;
    }
    const error = answer?.error;
    firstError ??= { seed, error };
    const status = error instanceof Error && "status" in error ? error.status : undefined;
    // A tenant's token is a 403 on the root routes.
    if (status === 401 || status === 403) {
      throw new MeshStartError(
        "unauthorized",
        `meshinventory: seed ${seed} refused the token; GET /v1/info needs the fleet root api_token: ${errorText(error)}`,
        { seed, cause: error },
      );
    }
    if (error instanceof NoAdvertiseAddressError) {
      throw new MeshStartError("no-advertise-addr", `meshinventory: seed ${seed}: ${error.message}`, { seed });
    }
  }
  if (!answered && firstError !== undefined) {
    const { seed, error } = firstError;
    throw new MeshStartError("no-seed-answered", `meshinventory: no seed answered: ${errorText(error)}`, {
      seed,
      cause: error,
    });
  }
}
