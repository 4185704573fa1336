import { isScaleError, ScaleError } from "@org/scale";
import type { Answer } from "./answer.ts";
import { E2bError } from "./errors.ts";

/** How long an answer is repeated while its sandbox lives. */
export const REPEAT_MS = 86_400_000;
const MAX_RECORDS = 16_384;

/** A sandbox that was made for a keyed request. */
export interface MadeSandbox {
  readonly node: string;
  readonly id: string;
  /** As nodes name it. */
  readonly template: string | undefined;
}

/** What a keyed request is made of. */
export interface OnceRequest {
  /** Tells the key and its namespace. */
  readonly key: string;
  readonly fingerprint: string;
  readonly signal: AbortSignal;
  /** Makes the sandbox and the answer. */
  readonly make: () => Promise<{ readonly answer: Answer; readonly made: MadeSandbox }>;
  /** The answer for a sandbox that was made before; `undefined` when it is gone. */
  readonly repeat: (made: MadeSandbox) => Promise<Answer | undefined>;
  /** A sandbox that another process made for this key. Asked only for a key that is new here. */
  readonly adopt: () => Promise<MadeSandbox | undefined>;
  /** Ends a sandbox that nobody was told of. */
  readonly abandon: (made: MadeSandbox) => void;
}

type Outcome =
  | { readonly kind: "made"; readonly answer: Answer }
  | { readonly kind: "failed"; readonly error: unknown }
  /** Its client hung up: whoever waits goes first now. */
  | { readonly kind: "left" };

interface Attempt {
  readonly key: string;
  readonly fingerprint: string;
  readonly beganMs: number;
  /** Absent once it is over. */
  running: Promise<Outcome> | undefined;
  made: MadeSandbox | undefined;
  /** How many were told of the sandbox, or are being told. */
  told: number;
}

/** What {@link Once} works with. */
export interface OnceParts {
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicMs: () => number;
  readonly maxRecords?: number | undefined;
}

const REPEATED: Readonly<Record<string, string>> = { "idempotent-replayed": "true" };

/**
 * Does requests with the same key once. A request that comes while the first one runs waits for it and gets its answer,
 * failures included. Later ones get the answer of a sandbox that was made, as long as it lives, and a day at most; after
 * a failure the key is free again. Keeps where sandboxes are and no secrets.
 */
export class Once {
  readonly #now: () => number;
  readonly #max: number;
  readonly #attempts = new Map<string, Attempt>();

  constructor({ monotonicMs, maxRecords = MAX_RECORDS }: OnceParts) {
    this.#now = monotonicMs;
    this.#max = maxRecords;
  }

  /** How many keys are remembered. */
  get size(): number {
    return this.#attempts.size;
  }

  /**
   * @throws E2bError `conflict` when the key stands for another request
   * @throws ScaleError `aborted` when the client leaves while it waits
   */
  async run(request: OnceRequest): Promise<Answer> {
    for (;;) {
      const known = this.#known(request.key);
      const isFree = known === undefined || (known.running === undefined && known.made === undefined);
      if (isFree) {
        // What failed here may still come up on its node, and is ended then: it is not for the next one.
        return this.#first(request, known === undefined);
      }
      if (known.fingerprint !== request.fingerprint) {
        throw new E2bError("conflict", "this Idempotency-Key was used for another request: want a new key");
      }
      const answer = known.made === undefined ? await this.#join(known, request) : await this.#repeat(known, request);
      if (answer !== undefined) {
        return answer;
      }
    }
  }

  #known(key: string): Attempt | undefined {
    const known = this.#attempts.get(key);
    if (known !== undefined && known.running === undefined && this.#now() - known.beganMs > REPEAT_MS) {
      this.#attempts.delete(key);
      return undefined;
    }
    return known;
  }

  async #first(request: OnceRequest, isNew: boolean): Promise<Answer> {
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    const { key, fingerprint } = request;
    const attempt: Attempt = {
      key,
      fingerprint,
      beganMs: this.#now(),
      running: promise,
      made: undefined,
      told: 0,
    };
    this.#attempts.delete(key);
    this.#attempts.set(key, attempt);
    this.#forgetOldest();
    try {
      const adopted = isNew ? await request.adopt() : undefined;
      const repeated = adopted === undefined ? undefined : await request.repeat(adopted);
      let answer: Answer;
      if (adopted !== undefined && repeated !== undefined) {
        attempt.made = adopted;
        // Somebody was told of it before.
        attempt.told = 1;
        answer = this.#tell(attempt, request, { ...repeated, headers: { ...repeated.headers, ...REPEATED } });
      } else {
        const { answer: fresh, made } = await request.make();
        attempt.made = made;
        answer = this.#tell(attempt, request, fresh);
      }
      resolve({ kind: "made", answer });
      return answer;
    } catch (error) {
      const left = request.signal.aborted || isScaleError(error, "aborted");
      resolve(left ? { kind: "left" } : { kind: "failed", error });
      throw error;
    } finally {
      attempt.running = undefined;
    }
  }

  /** Waits for the first one; `undefined` when its client left. */
  async #join(attempt: Attempt, request: OnceRequest): Promise<Answer | undefined> {
    const outcome = await within<Outcome>(attempt.running ?? Promise.resolve({ kind: "left" }), request.signal);
    if (outcome.kind === "left") {
      return undefined;
    }
    if (outcome.kind === "failed") {
      throw outcome.error;
    }
    if (attempt.told === 0) {
      // Nobody could be told, and it was ended.
      return undefined;
    }
    const { headers, ...answer } = outcome.answer;
    return this.#tell(attempt, request, { ...answer, headers: { ...headers, ...REPEATED } });
  }

  async #repeat(attempt: Attempt, request: OnceRequest): Promise<Answer | undefined> {
    const answer = attempt.made === undefined ? undefined : await request.repeat(attempt.made);
    if (answer === undefined || attempt.made === undefined) {
      if (this.#attempts.get(attempt.key) === attempt) {
        attempt.made = undefined;
      }
      return undefined;
    }
    return this.#tell(attempt, request, { ...answer, headers: { ...answer.headers, ...REPEATED } });
  }

  /** The sandbox is ended when none of those who should have been told of it was reached. */
  #tell(attempt: Attempt, request: OnceRequest, answer: Answer): Answer {
    const { made } = attempt;
    attempt.told += 1;
    return {
      ...answer,
      undelivered: () => {
        attempt.told -= 1;
        if (attempt.told === 0 && made !== undefined) {
          attempt.made = undefined;
          request.abandon(made);
        }
      },
    };
  }

  #forgetOldest(): void {
    for (const [key, attempt] of this.#attempts) {
      if (this.#attempts.size <= this.#max) {
        return;
      }
      if (attempt.running === undefined) {
        this.#attempts.delete(key);
      }
    }
  }
}

/** Waits as long as the client does. */
async function within<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: left, reject } = Promise.withResolvers<never>();
  const leave = (): void =>
    reject(new ScaleError("aborted", "the client closed the connection while it waited for the first request"));
  if (signal.aborted) {
    leave();
  }
  signal.addEventListener("abort", leave, { once: true });
  try {
    return await Promise.race([promise, left]);
  } finally {
    signal.removeEventListener("abort", leave);
  }
}
