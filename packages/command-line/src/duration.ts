import parseDuration from "parse-duration";

const GO_DURATION = /^[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*$/;

/** Milliseconds of a duration such as `10s`, `1m30s` or `300ms`; `0` needs no unit. `undefined` for anything else. */
export function durationMs(text: string): number | undefined {
  if (/^[+-]?0$/.test(text)) return 0;
  return GO_DURATION.test(text) ? (parseDuration(text) ?? undefined) : undefined;
}

/** A duration the way it is written in flags and logs: `10s`, `1m30s`, `1h0m0s`, `300ms`. */
export function formatDuration(ms: number): string {
  if (ms === 0) return "0s";
  if (ms < 1000) return `${ms}ms`;
  const hours = Math.floor(ms / 3_600_000);
  const minutes = Math.floor(ms / 60_000) % 60;
  const seconds = `${Number(((ms % 60_000) / 1000).toFixed(3))}s`;
  if (hours > 0) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}
