import { tooManyRequests } from "./api-status.ts";
import type { RequestInfo } from "./request-info.ts";
import { isWatch } from "./request-info.ts";

/** How many requests may be answered at once. */
export interface InFlightLimits {
  readonly reads: number;
  readonly writes: number;
}

const RETRY_AFTER_S = 1;

/** Members of it are never turned away: the aggregator's probes and the cluster's own controllers come as such. */
const EXEMPT_GROUP = "system:masters";

/** Counts the requests that are being answered and turns away those that are too many. Watches do not count. */
export class InFlight {
  readonly #limits: InFlightLimits;
  #reads = 0;
  #writes = 0;

  constructor(limits: InFlightLimits) {
    this.#limits = limits;
  }

  get reads(): number {
    return this.#reads;
  }

  get writes(): number {
    return this.#writes;
  }

  /**
   * Counts a request until the returned function is called.
   * @throws ApiStatusError 429 when too many are counted.
   */
  enter(info: RequestInfo, groups: readonly string[]): () => void {
    if (isWatch(info)) {
      return () => undefined;
    }
    const kind = info.method === "GET" || info.method === "HEAD" ? "reads" : "writes";
    const count = kind === "reads" ? this.#reads : this.#writes;
    if (count >= this.#limits[kind] && !groups.includes(EXEMPT_GROUP)) {
      throw tooManyRequests(RETRY_AFTER_S);
    }
    this.#add(kind, 1);
    let counted = true;
    return () => {
      if (counted) {
        counted = false;
        this.#add(kind, -1);
      }
    };
  }

  #add(kind: keyof InFlightLimits, change: 1 | -1): void {
    if (kind === "reads") {
      this.#reads += change;
    } else {
      this.#writes += change;
    }
  }
}
