import type { Logger, SandboxStore } from "@org/scale";
import { isScaleError } from "@org/scale";

/** Sandboxes that were claimed for callers who will not get them. */
export interface Abandoned {
  /** Releases one. Never rejects: a failure is logged, and the lease ends the sandbox later. */
  release(node: string, id: string): Promise<void>;
  /** Resolves when no release is under way. */
  settled(): Promise<void>;
}

/** Keeps track of releases that no request waits for. */
export function createAbandoned(store: Pick<SandboxStore, "release">, logger: Logger): Abandoned {
  const pending = new Set<Promise<void>>();
  return {
    release(node, id) {
      const release = store.release(node, id).then(
        () => logger.debug({ node, sandboxId: id }, "released an uncollected sandbox"),
        (error: unknown) => {
          if (!isScaleError(error, "not_found")) {
            logger.error({ node, sandboxId: id, err: error }, "an uncollected sandbox could not be released");
          }
        },
      );
      pending.add(release);
      return release.finally(() => pending.delete(release));
    },
    async settled() {
      while (pending.size > 0) {
        await Promise.all(pending);
      }
    },
  };
}
