import { ScaleError } from "@org/scale";

/** How many nodes are asked at once. */
const PARALLEL = 16;
/** Some answers list a directory of the node: more time than for one sandbox, less than a client waits. */
const TIMEOUT_MS = 5000;

/** What came of asking several nodes. */
export interface Asked<N, T> {
  /** In the order in which they came. */
  readonly answers: readonly { readonly node: N; readonly value: T }[];
  readonly failures: readonly { readonly node: N; readonly error: unknown }[];
}

/** Options of {@link askNodes}. */
export interface AskOptions<T> {
  /** Ends it all. Absent for writes, which are carried out whatever the caller does. */
  readonly signal?: AbortSignal | undefined;
  /** Whether this answer makes the others needless. */
  readonly enough?: ((value: T) => boolean) | undefined;
}

/**
 * Asks several nodes for the same, some at a time and each within a bound; without a signal the node client's own bounds
 * hold. `nodes` are node keys, or what else tells a node. A node that fails is no failure of the whole.
 * @throws ScaleError `aborted` when the signal fires
 */
export async function askNodes<N, T>(
  nodes: readonly N[],
  ask: (node: N, signal: AbortSignal | undefined) => Promise<T>,
  { signal, enough }: AskOptions<T> = {},
): Promise<Asked<N, T>> {
  const answers: { node: N; value: T }[] = [];
  const failures: { node: N; error: unknown }[] = [];
  const running = new Set<AbortController>();
  let done = false;
  const stop = (): void => {
    done = true;
    for (const controller of running) {
      controller.abort();
    }
  };
  const askOne = async (node: N): Promise<void> => {
    const controller = new AbortController();
    running.add(controller);
    const timer = setTimeout(() => controller.abort(), TIMEOUT_MS);
    try {
      const value = await ask(node, signal === undefined ? undefined : controller.signal);
      answers.push({ node, value });
      if (enough?.(value) === true) {
        stop();
      }
    } catch (error) {
      if (!done) {
        failures.push({ node, error });
      }
    } finally {
      clearTimeout(timer);
      running.delete(controller);
    }
  };
  const queue = nodes[Symbol.iterator]();
  const work = async (): Promise<void> => {
    for (;;) {
      const at = done ? undefined : queue.next();
      if (at === undefined || at.done === true) {
        return;
      }
      await askOne(at.value);
    }
  };
  if (signal?.aborted === true) {
    stop();
  }
  signal?.addEventListener("abort", stop, { once: true });
  try {
    await Promise.all(Array.from({ length: Math.min(PARALLEL, nodes.length) }, work));
  } finally {
    signal?.removeEventListener("abort", stop);
  }
  if (signal?.aborted === true) {
    throw new ScaleError("aborted", "the client closed the connection while nodes were asked");
  }
  return { answers, failures };
}
