/** A time in RFC 3339, UTC, to the second; `undefined` for none and for one that no calendar has. */
export function rfc3339(time: Date | undefined): string | undefined {
  return time === undefined || Number.isNaN(time.getTime()) ? undefined : `${time.toISOString().slice(0, -5)}Z`;
}
