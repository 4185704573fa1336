import { Counter, Gauge, Histogram } from "prom-client";
import type { Registry } from "prom-client";
import type { Counters, Tally } from "./counters.ts";

/** Seconds up to which dials and answers are counted. */
const SECONDS: number[] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** Values of a metric with at most two labels, as in `["http2", "5xx"]`. */
type Values = Iterable<readonly [labels: readonly string[], value: number]>;

function* single(value: number): Values {
  yield [[], value];
}

function* each(tally: Tally<string>): Values {
  for (const [key, value] of tally.counts) {
    yield [key.split(" "), value];
  }
}

function labelled(names: readonly string[], values: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.map((name, at) => [name, values[at] ?? ""]));
}

/**
 * Shows a proxy's counters in a registry: they are read when somebody looks, so that requests pay for plain additions
 * only. Labels come from closed sets and never name a sandbox. Throws when the registry has metrics of another proxy.
 */
export function registerMetrics(registry: Registry, counters: Counters): void {
  const registers = [registry];

  function counter(name: string, help: string, labelNames: readonly string[], read: () => Values): void {
    const metric = new Counter({
      name,
      help,
      labelNames: [...labelNames],
      registers,
      collect: () => {
        metric.reset();
        for (const [labels, value] of read()) {
          metric.inc(labelled(labelNames, labels), value);
        }
      },
    });
  }
  function gauge(name: string, help: string, labelNames: readonly string[], read: () => Values): void {
    const metric = new Gauge({
      name,
      help,
      labelNames: [...labelNames],
      registers,
      collect: () => {
        for (const [labels, value] of read()) {
          metric.set(labelled(labelNames, labels), value);
        }
      },
    });
  }
  function histogram(name: string, help: string): (ms: number) => void {
    const metric = new Histogram({ name, help, buckets: SECONDS, registers });
    return (ms) => metric.observe(ms / 1000);
  }

  counter("envdproxy_requests_total", "Requests that are over, by status class", ["protocol", "status"], () =>
    each(counters.requests),
  );
  gauge("envdproxy_requests_running", "Requests that are being served", [], () => single(counters.running));
  counter("envdproxy_refusals_total", "Requests that the proxy answered with an error itself", ["code"], () =>
    each(counters.refusals),
  );
  counter("envdproxy_broken_answers_total", "Answers that guests broke off", [], () => single(counters.broken));
  counters.onHead = histogram("envdproxy_answer_head_seconds", "From a request's head to the head of its answer");
  counter("envdproxy_body_bytes_total", "Bytes of bodies, by whom they are for", ["to"], () => [
    [["guest"], counters.bytesToGuests],
    [["client"], counters.bytesToClients],
  ]);
  gauge("envdproxy_connections", "Connections of clients, by what they speak", ["protocol"], () =>
    Object.entries(counters.connections()).map(([protocol, value]) => [[protocol], value] as const),
  );
  counter("envdproxy_relays_opened_total", "Relays that were opened", [], () => single(counters.relaysOpened));
  counter("envdproxy_relays_reused_total", "Requests over a relay that carried one before", [], () =>
    single(counters.relaysReused),
  );
  counter("envdproxy_relay_retries_total", "Requests that were sent again since their relay was closed", [], () =>
    single(counters.relayRetries),
  );
  gauge("envdproxy_relays", "Relays that are open", ["state"], () => {
    const idle = counters.relaysIdle();
    return [
      [["busy"], counters.relaysOpen - idle],
      [["idle"], idle],
    ];
  });
  counter("envdproxy_relays_dropped_total", "Idle relays that were closed", ["reason"], () => each(counters.dropped));
  counter("envdproxy_relay_dial_failures_total", "Relays that could not be opened", ["code"], () =>
    each(counters.dialFailures),
  );
  counters.onDial = histogram("envdproxy_relay_dial_seconds", "Opening a relay, waking the sandbox included");
  counter("envdproxy_owner_lookups_total", "Look-ups of a sandbox's node", ["result"], () => each(counters.lookups));
  counter("envdproxy_wakes_total", "First requests to paused sandboxes", ["result"], () => each(counters.wakes));
  counter("envdproxy_certificate_reloads_total", "Changed certificates", ["result"], () => each(counters.reloads));
}
