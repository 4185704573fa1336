import { Counter, Gauge, Histogram } from "prom-client";
import type { Registry } from "prom-client";

/** Seconds up to which requests are counted: a warm create takes a few milliseconds, a wake or a capture many seconds. */
const SECONDS: number[] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** What a server counts of its requests. Labels come from closed sets and never name a sandbox or a key. */
export interface RequestMetrics {
  /** Called when a request begins, and the function it gives back once it has its answer. */
  readonly began: () => (request: AnsweredRequest) => void;
}

/** A request that has its answer. */
export interface AnsweredRequest {
  readonly method: string;
  /** Path of the route, with its variables unfilled; `*` for a path that none has. */
  readonly route: string;
  readonly status: number;
  readonly durationMs: number;
}

const ignore = (): void => undefined;

/** Counts nothing. */
export const NO_METRICS: RequestMetrics = { began: () => ignore };

/** Methods that routes have; what else clients send is one value. */
const METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/** Shows what a server counts in a registry. Throws when the registry has the metrics of another server. */
export function requestMetrics(registry: Registry): RequestMetrics {
  const registers = [registry];
  const total = new Counter({
    name: "e2bcompat_requests_total",
    help: "Requests that were answered",
    labelNames: ["method", "route", "status"],
    registers,
  });
  const running = new Gauge({ name: "e2bcompat_requests_running", help: "Requests that are being served", registers });
  const seconds = new Histogram({
    name: "e2bcompat_request_seconds",
    help: "From a request's head to its answer",
    labelNames: ["method", "route"],
    buckets: SECONDS,
    registers,
  });
  return {
    began: () => {
      running.inc();
      return ({ method: sent, route, status, durationMs }) => {
        const method = METHODS.has(sent) ? sent : "other";
        running.dec();
        total.inc({ method, route, status });
        seconds.observe({ method, route }, durationMs / 1000);
      };
    },
  };
}
