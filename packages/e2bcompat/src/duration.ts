import parseDuration from "parse-duration";

const DURATION = /^(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+$/;
const SECONDS = /^\d+$/;

/**
 * Whole seconds of a duration such as `300s`, `1m30s` or `300`, where a bare number counts seconds. `undefined` for
 * anything else, for fractions of a second and for what does not fit 32 bits.
 */
export function parseSeconds(text: string): number | undefined {
  let seconds: number | null;
  if (SECONDS.test(text)) {
    seconds = Number(text);
  } else if (DURATION.test(text)) {
    seconds = parseDuration(text, "s");
  } else {
    return undefined;
  }
  return seconds !== null && Number.isInteger(seconds) && seconds <= 2_147_483_647 ? seconds : undefined;
}
