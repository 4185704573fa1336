import { EnvdError } from "../errors.ts";

const DEFAULT_KEEPALIVE_MS = 90_000;

/**
 * Reads `Connect-Timeout-Ms`: up to ten digits; absent means no limit.
 *
 * @throws EnvdError `invalid_argument`
 */
export function parseTimeoutMs(value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  if (!/^\d{1,10}$/.test(value)) {
    throw new EnvdError("invalid_argument", "connect-timeout-ms must be a whole number of at most ten digits");
  }
  return Number(value);
}

/** Reads `Keepalive-Ping-Interval`, whole seconds, as milliseconds; absent or invalid means 90 seconds. */
export function parseKeepaliveMs(value: string | undefined): number {
  if (value === undefined || !/^\d{1,6}$/.test(value) || Number(value) === 0) return DEFAULT_KEEPALIVE_MS;
  return Number(value) * 1000;
}
