import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { ApiHandler } from "./api-call.ts";
import type { Answered } from "./filter-chain.ts";
import { GROUP, RESOURCE, VERSION } from "./group.ts";
import type { InFlight } from "./in-flight.ts";
import { RESOURCE_TABLE } from "./resource-table.ts";

/** Upper bounds of the buckets of durations, in seconds. */
const SECONDS: number[] = [0.001, 0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 5, 10, 20, 30, 60];

const VERBS: ReadonlySet<string> = new Set([...RESOURCE_TABLE.verbs, "update", "deletecollection", "post", "put"]);
const SUBRESOURCES: ReadonlySet<string> = new Set(RESOURCE_TABLE.subresources.map(({ name }) => name));
const MS_PER_SECOND = 1000;

const LABELS = ["verb", "group", "version", "resource", "subresource"] as const;

/** What a request is counted under. From closed sets: no client makes more. */
type Labels = Readonly<Record<(typeof LABELS)[number], string>>;

/** Counts of requests. */
export interface RequestMetrics {
  /** Counts an answer. Watches have no duration: they end when their clients like. */
  count(answered: Answered): void;
  /** Answers a scrape. */
  readonly handler: ApiHandler;
}

/** Counts requests under the names that Kubernetes' own servers use, in a registry of its own. */
export function createRequestMetrics(inFlight: Pick<InFlight, "reads" | "writes">): RequestMetrics {
  const registry = new Registry();
  const registers = [registry];
  const total = new Counter({
    name: "apiserver_request_total",
    help: "Requests that were answered",
    labelNames: [...LABELS, "code"],
    registers,
  });
  const durations = new Histogram({
    name: "apiserver_request_duration_seconds",
    help: "Time until the answer of requests that are no watches",
    labelNames: LABELS,
    buckets: SECONDS,
    registers,
  });
  const running = new Gauge({
    name: "apiserver_current_inflight_requests",
    help: "Requests that are being answered, watches apart",
    labelNames: ["request_kind"],
    registers,
    collect: () => {
      running.set({ request_kind: "readOnly" }, inFlight.reads);
      running.set({ request_kind: "mutating" }, inFlight.writes);
    },
  });
  return {
    count: ({ attributes, status, durationMs }) => {
      const labels = labelsOf(attributes);
      total.inc({ ...labels, code: String(status) });
      if (attributes?.verb !== "watch") {
        durations.observe(labels, durationMs / MS_PER_SECOND);
      }
    },
    handler: async () => new Response(await registry.metrics(), { headers: { "content-type": registry.contentType } }),
  };
}

function labelsOf(attributes: Answered["attributes"]): Labels {
  const verb = attributes?.verb ?? "";
  const isOurs = attributes?.kind === "resource" && attributes.group === GROUP && attributes.resource === RESOURCE;
  const subresource = (isOurs ? attributes.subresource : undefined) ?? "";
  return {
    verb: VERBS.has(verb) ? verb : "other",
    group: isOurs ? GROUP : "",
    version: isOurs ? VERSION : "",
    resource: isOurs ? RESOURCE : "",
    subresource: SUBRESOURCES.has(subresource) ? subresource : "",
  };
}
