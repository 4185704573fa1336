import type { Registry } from "prom-client";

const STEP_MS = 5_000;
/** Ten minutes. */
const KEPT = 120;

/** Routes that make sandboxes. */
const CREATES: ReadonlySet<string> = new Set(["/sandboxes", "/v2/sandboxes"]);

/** What happened within one step. */
export interface HistoryPoint {
  /** End of the step, in milliseconds of the epoch. */
  readonly atMs: number;
  readonly requests: number;
  /** Those of `requests` that were answered with 500 or above. */
  readonly errors: number;
  readonly creates: number;
  /** Upper bounds of the bucket that half, and 95 in 100, of the creates lie in; absent without creates. In seconds. */
  readonly createP50?: number | undefined;
  readonly createP95?: number | undefined;
}

interface Totals {
  readonly requests: number;
  readonly errors: number;
  /** Creates up to each bound, by bound. */
  readonly creates: ReadonlyMap<number, number>;
}

/**
 * The last ten minutes of a control plane, out of what it counts in a registry: the difference of two looks at it, every
 * five seconds.
 */
export class RequestHistory implements Disposable {
  readonly #registry: Registry;
  readonly #now: () => number;
  readonly #timer: NodeJS.Timeout;
  readonly #points: HistoryPoint[] = [];
  #before: Totals | undefined;

  constructor(registry: Registry, now: () => number) {
    this.#registry = registry;
    this.#now = now;
    const look = (): void => {
      // A registry may hold metrics of others. One that fails leaves a gap here, and the program alone.
      this.look().catch(() => undefined);
    };
    look();
    this.#timer = setInterval(look, STEP_MS);
    this.#timer.unref();
  }

  /** Oldest first. */
  get points(): readonly HistoryPoint[] {
    return this.#points;
  }

  /** Takes the next step. */
  async look(): Promise<void> {
    const totals = await this.#totals();
    const before = this.#before;
    this.#before = totals;
    if (before === undefined) return;
    const steps = new Map(
      [...totals.creates].map(([bound, count]) => [bound, count - (before.creates.get(bound) ?? 0)]),
    );
    const creates = steps.get(Number.POSITIVE_INFINITY) ?? 0;
    this.#points.push({
      atMs: this.#now(),
      requests: totals.requests - before.requests,
      errors: totals.errors - before.errors,
      creates,
      createP50: quantile(steps, creates, 0.5),
      createP95: quantile(steps, creates, 0.95),
    });
    if (this.#points.length > KEPT) this.#points.shift();
  }

  async #totals(): Promise<Totals> {
    let [requests, errors] = [0, 0];
    const creates = new Map<number, number>();
    for (const { labels, value } of await this.#values("e2bcompat_requests_total")) {
      requests += value;
      if (Number(labels["status"]) >= 500) errors += value;
    }
    for (const { labels, value } of await this.#values("e2bcompat_request_seconds")) {
      const { method, route, le } = labels;
      if (le === undefined || method !== "POST" || !CREATES.has(String(route))) continue;
      const bound = le === "+Inf" ? Number.POSITIVE_INFINITY : Number(le);
      creates.set(bound, (creates.get(bound) ?? 0) + value);
    }
    return { requests, errors, creates };
  }

  async #values(name: string): Promise<readonly { readonly labels: Labels; readonly value: number }[]> {
    const metric = await this.#registry.getSingleMetric(name)?.get();
    return metric?.values ?? [];
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

type Labels = Partial<Readonly<Record<string, string | number>>>;

function quantile(steps: ReadonlyMap<number, number>, total: number, part: number): number | undefined {
  if (total <= 0) return undefined;
  const bounds = [...steps.keys()].toSorted((a, b) => a - b);
  const found = bounds.find((bound) => (steps.get(bound) ?? 0) >= part * total);
  // Beyond the last bound nothing is known but that it was more.
  return found === Number.POSITIVE_INFINITY ? bounds.at(-2) : found;
}
