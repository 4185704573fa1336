import { memoryUsage, uptime } from "node:process";
import type { ApiHandler } from "./api-call.ts";
import type { Answered } from "./filter-chain.ts";
import { GROUP, RESOURCE, VERSION } from "./group.ts";
import type { InFlight } from "./in-flight.ts";
import { RESOURCE_TABLE } from "./resource-table.ts";

/** Upper bounds of the buckets of durations, in seconds. */
const BOUNDS: readonly number[] = [0.001, 0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 5, 10, 20, 30, 60];

const VERBS: ReadonlySet<string> = new Set([...RESOURCE_TABLE.verbs, "update", "deletecollection", "post", "put"]);
const SUBRESOURCES: ReadonlySet<string> = new Set(RESOURCE_TABLE.subresources.map(({ name }) => name));
const MS_PER_SECOND = 1000;

interface Durations {
  /** Counts of durations up to each bound, and above the last. */
  readonly buckets: number[];
  sum: number;
}

/** Counts answers and shows the counts as Prometheus reads them. Labels come from closed sets: no client makes more. */
export class RequestMetrics {
  readonly #inFlight: Pick<InFlight, "reads" | "writes">;
  readonly #total = new Map<string, number>();
  readonly #durations = new Map<string, Durations>();

  constructor(inFlight: Pick<InFlight, "reads" | "writes">) {
    this.#inFlight = inFlight;
  }

  /** Counts an answer. Watches have no duration: they end when their clients like. */
  count({ attributes, status, durationMs }: Answered): void {
    const labels = labelsOf(attributes);
    const key = `${labels},code="${status}"`;
    this.#total.set(key, (this.#total.get(key) ?? 0) + 1);
    if (attributes?.verb === "watch") {
      return;
    }
    const durations = this.#durations.get(labels) ?? { buckets: Array<number>(BOUNDS.length + 1).fill(0), sum: 0 };
    this.#durations.set(labels, durations);
    const seconds = durationMs / MS_PER_SECOND;
    const at = BOUNDS.findIndex((bound) => seconds <= bound);
    const bucket = at === -1 ? BOUNDS.length : at;
    durations.buckets[bucket] = (durations.buckets[bucket] ?? 0) + 1;
    durations.sum += seconds;
  }

  /** Everything that was counted, in the text format of Prometheus. */
  text(): string {
    const lines = [
      "# HELP apiserver_request_total Requests that were answered.",
      "# TYPE apiserver_request_total counter",
      ...[...this.#total].map(([labels, count]) => `apiserver_request_total{${labels}} ${count}`),
      "# HELP apiserver_request_duration_seconds Time until the answer of requests that are no watches.",
      "# TYPE apiserver_request_duration_seconds histogram",
      ...[...this.#durations].flatMap(([labels, durations]) => histogram(labels, durations)),
      "# HELP apiserver_current_inflight_requests Requests that are being answered, watches apart.",
      "# TYPE apiserver_current_inflight_requests gauge",
      `apiserver_current_inflight_requests{request_kind="readOnly"} ${this.#inFlight.reads}`,
      `apiserver_current_inflight_requests{request_kind="mutating"} ${this.#inFlight.writes}`,
      "# HELP process_resident_memory_bytes Memory of the process.",
      "# TYPE process_resident_memory_bytes gauge",
      `process_resident_memory_bytes ${memoryUsage.rss()}`,
      "# HELP process_uptime_seconds Age of the process.",
      "# TYPE process_uptime_seconds gauge",
      `process_uptime_seconds ${uptime()}`,
    ];
    return `${lines.join("\n")}\n`;
  }

  /** Answers a scrape. */
  get handler(): ApiHandler {
    return () => new Response(this.text(), { headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" } });
  }
}

function labelsOf(attributes: Answered["attributes"]): string {
  const resource =
    attributes?.kind === "resource" && attributes.group === GROUP && attributes.resource === RESOURCE
      ? attributes
      : undefined;
  const verb = VERBS.has(attributes?.verb ?? "") ? attributes?.verb : "other";
  const subresource = SUBRESOURCES.has(resource?.subresource ?? "") ? resource?.subresource : "";
  const where =
    resource === undefined
      ? `group="",version="",resource=""`
      : `group="${GROUP}",version="${VERSION}",resource="${RESOURCE}"`;
  return `verb="${verb}",${where},subresource="${subresource}"`;
}

function histogram(labels: string, { buckets, sum }: Durations): readonly string[] {
  const name = "apiserver_request_duration_seconds";
  let count = 0;
  const lines = buckets.map((amount, at) => {
    count += amount;
    return `${name}_bucket{${labels},le="${BOUNDS[at] ?? "+Inf"}"} ${count}`;
  });
  return [...lines, `${name}_sum{${labels}} ${sum}`, `${name}_count{${labels}} ${count}`];
}
