import { KubeError, type KubeClient, type Timing } from "@org/kubeinventory/client";
import type { Logger } from "@org/scale";
import { internalError, unavailable, type ApiStatusError } from "../api-status.ts";

/** Options of {@link ReviewCaller}. */
export interface ReviewCallerOptions {
  readonly client: Pick<KubeClient, "request">;
  /** The resource that is created, such as `tokenreviews`, for messages. */
  readonly name: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>> | undefined;
  readonly logger?: Logger | undefined;
  readonly timing: Timing;
}

/** All tries of one review together take no longer, in milliseconds. */
const REVIEW_TIMEOUT_MS = 10_000;
const TRIES = 5;
const FIRST_WAIT_MS = 500;
const WAIT_FACTOR = 1.5;
const JITTER = 0.2;
/** Reviews at once, each on a connection of its own, and those that wait: anybody can cause one. */
const AT_ONCE = 64;
const WAITING = 1024;
const RETRY_AFTER_SECONDS = 1;
const LONGEST_RETRY_AFTER_SECONDS = 60;

/** Sends reviews to the API server: so many at once, tried again where that may help. Kube specification §4.3. */
export class ReviewCaller {
  readonly #options: ReviewCallerOptions;
  #running = 0;
  readonly #queue: (() => void)[] = [];
  /** The kind of failure that the log was last warned of, until a review succeeds. */
  #reported: string | undefined;

  constructor(options: ReviewCallerOptions) {
    this.#options = options;
  }

  /**
   * The reply to a review.
   * @throws ApiStatusError 503 when no answer can be had in time; 500 when the API server refuses to review.
   */
  async review(body: unknown): Promise<unknown> {
    const { timing } = this.#options;
    const life = new AbortController();
    const deadline = timing.now() + REVIEW_TIMEOUT_MS;
    const cancel = timing.after(REVIEW_TIMEOUT_MS, () => life.abort());
    try {
      await this.#enter(life.signal);
      try {
        const reply = await this.#try(body, life.signal, deadline);
        this.#succeeded();
        return reply;
      } finally {
        this.#leave();
      }
    } catch (error) {
      throw this.#failed(error);
    } finally {
      cancel();
    }
  }

  async #try(body: unknown, signal: AbortSignal, deadline: number): Promise<unknown> {
    const { client, path, query, timing } = this.#options;
    let wait = FIRST_WAIT_MS;
    for (let tries = 1; ; tries += 1) {
      try {
        return await client.request({ method: "POST", path, query, body, signal });
      } catch (error) {
        const ms = Math.max(wait * (1 + timing.random() * JITTER), retryAfterMs(error));
        if (tries === TRIES || !mayPass(error) || timing.now() + ms >= deadline) {
          throw error;
        }
        await pause(timing, ms, signal);
        wait *= WAIT_FACTOR;
      }
    }
  }

  async #enter(signal: AbortSignal): Promise<void> {
    if (this.#running < AT_ONCE) {
      this.#running += 1;
      return;
    }
    if (this.#queue.length >= WAITING) {
      throw new KubeError("timeout", "too many reviews wait");
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const giveUp = (): void => {
      const place = this.#queue.indexOf(resolve);
      if (place >= 0) {
        this.#queue.splice(place, 1);
        reject(new KubeError("timeout", "other reviews took too long"));
      }
    };
    this.#queue.push(resolve);
    signal.addEventListener("abort", giveUp, { once: true });
    await promise;
    signal.removeEventListener("abort", giveUp);
  }

  /** Hands the place on, or gives it back. */
  #leave(): void {
    const next = this.#queue.shift();
    if (next === undefined) {
      this.#running -= 1;
    } else {
      next();
    }
  }

  #succeeded(): void {
    if (this.#reported !== undefined) {
      this.#reported = undefined;
      this.#options.logger?.info({ review: this.#options.name }, "reviews by the API server are back");
    }
  }

  #failed(error: unknown): ApiStatusError {
    const { name, logger } = this.#options;
    const { code, status } = error instanceof KubeError ? error : { code: "bad_reply", status: undefined };
    const kind = `${code} ${status ?? ""}`;
    const isOurs = code === "bad_reply" || code === "credentials" || (status !== undefined && isRefusal(status));
    if (kind !== this.#reported) {
      this.#reported = kind;
      const fields = { review: name, code, status, err: error };
      if (isOurs) {
        logger?.error(fields, "the API server does not review for us");
      } else {
        logger?.warn(fields, "no review by the API server");
      }
    }
    if (isOurs) {
      return internalError(`the cluster does not answer ${name}`, error);
    }
    const seconds = Math.ceil(retryAfterMs(error) / 1000);
    return unavailable(
      `${name} of the cluster cannot be reached, please try again later`,
      Math.min(Math.max(seconds, RETRY_AFTER_SECONDS), LONGEST_RETRY_AFTER_SECONDS),
      error,
    );
  }
}

function retryAfterMs(error: unknown): number {
  return error instanceof KubeError ? (error.retryAfterMs ?? 0) : 0;
}

/** Whether another try may succeed. A refused connection will be refused again. */
function mayPass(error: unknown): boolean {
  if (!(error instanceof KubeError)) {
    return false;
  }
  const { code, status, reason, retryAfterMs: asked } = error;
  return (
    code === "connection_lost" ||
    code === "timeout" ||
    (code === "status" && (status === 429 || status === 500 || reason === "Timeout" || asked !== undefined))
  );
}

function isRefusal(status: number): boolean {
  return status < 500 && status !== 429 && status !== 408;
}

/** Resolves after a while. @throws KubeError `timeout` when the signal fires before. */
function pause(timing: Timing, ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const giveUp = (): void => {
    cancel();
    reject(new KubeError("timeout", "no review in time"));
  };
  const cancel = timing.after(ms, () => {
    signal.removeEventListener("abort", giveUp);
    resolve();
  });
  signal.addEventListener("abort", giveUp, { once: true });
  return promise;
}
