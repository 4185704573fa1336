import type { NodeCalls } from "./node-calls.ts";
import type { Overlay } from "./overlay.ts";
import type { Logger } from "./ports.ts";

/** What {@link Releases} work with. */
export interface ReleaseParts {
  readonly calls: NodeCalls;
  readonly overlay: Overlay;
  readonly logger: Logger;
}

/** Ends sandboxes, and tells who wants to know. */
export class Releases {
  readonly #parts: ReleaseParts;
  readonly #listeners = new Set<(node: string, id: string) => void>();

  constructor(parts: ReleaseParts) {
    this.#parts = parts;
  }

  /** Resolves for a sandbox that is already gone. */
  async release(node: string, id: string): Promise<void> {
    const { calls, overlay, logger } = this.#parts;
    await calls.call({ verb: "release", node, id, plain: true }, undefined, async (client, clients) => {
      const statusOf = (error: unknown): number | undefined => clients.failure(error).status;
      try {
        await client.release(id);
      } catch (error) {
        if (statusOf(error) === 404) {
          return;
        }
        // A 500 leaves open whether the claim is gone: asking again tells.
        if (statusOf(error) !== 500) {
          throw error;
        }
        await client.release(id).catch((again: unknown) => {
          if (statusOf(again) !== 404) {
            throw again;
          }
        });
      }
    });
    overlay.released(node, id);
    for (const listener of this.#listeners) {
      try {
        listener(node, id);
      } catch (error) {
        logger.error({ func: "scale.Release", node, id, err: error }, "a listener of releases failed");
      }
    }
  }

  /** Releases a sandbox that nobody will use, and says why. What fails is left to the lease. */
  async abandon(
    { node, id }: { readonly node: string; readonly id: string },
    func: string,
    why: string,
  ): Promise<void> {
    const { logger } = this.#parts;
    const fields = { func, node, id, why };
    try {
      await this.release(node, id);
      logger.debug(fields, "released a sandbox that nobody will use");
    } catch (error) {
      logger.warn(
        { ...fields, err: error },
        "a sandbox that nobody will use was not released; it lives until its lease ends",
      );
    }
  }

  /** Calls the listener after every release. Returns the unsubscribe function. */
  onReleased(listener: (node: string, id: string) => void): () => void {
    // A wrapper of its own, so that a listener that was added twice is removed once.
    const own = (node: string, id: string): void => listener(node, id);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }
}
