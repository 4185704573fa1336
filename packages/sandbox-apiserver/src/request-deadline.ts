import { badRequest, timedOut } from "./api-status.ts";

const DURATION = /^(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h)(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h))*$/;
const PART = /(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)/g;

const UNITS_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/**
 * How long a request may take: what its `timeout` asks for, at most `limitMs`. A timeout of nothing asks for the limit.
 * @throws ApiStatusError 400 for a timeout that is no duration such as `32s`.
 */
export function timeoutOf(query: URLSearchParams, limitMs: number): number {
  const asked = query.get("timeout") ?? "";
  if (asked === "" || asked === "0") {
    return limitMs;
  }
  if (!DURATION.test(asked)) {
    throw badRequest(`invalid timeout specified in the request URL: ${JSON.stringify(asked)} is no duration`);
  }
  let ms = 0;
  for (const [, amount, unit = ""] of asked.matchAll(PART)) {
    ms += Number(amount) * (UNITS_MS[unit] ?? 0);
  }
  return ms === 0 ? limitMs : Math.min(ms, limitMs);
}

/**
 * Runs work that ends with its caller, and after a while at the latest. Its signal fires in both cases; work that goes
 * on nevertheless is not waited for.
 * @throws ApiStatusError 504 when the time is over.
 */
export async function withinDeadline<T>(
  work: (signal: AbortSignal) => Promise<T>,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<T> {
  const controller = new AbortController();
  const leave = (): void => controller.abort(signal.reason);
  if (signal.aborted) {
    leave();
  }
  signal.addEventListener("abort", leave, { once: true });
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    const error = timedOut();
    controller.abort(error);
    reject(error);
  }, timeoutMs);
  try {
    return await Promise.race([work(controller.signal), late]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", leave);
  }
}
