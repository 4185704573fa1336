const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** An age for people, in the words of Kubernetes: `42s`, `4m30s`, `3h`, `2d5h`, `3y`. */
export function humanDuration(milliseconds: number): string {
  const seconds = Math.trunc(milliseconds / SECOND);
  if (seconds < -1) {
    // The clocks of two machines may differ by a second or two, not more.
    return "<invalid>";
  }
  if (seconds < 120) {
    return `${Math.max(0, seconds)}s`;
  }
  const minutes = Math.trunc(milliseconds / MINUTE);
  if (minutes < 10) {
    return withRest(minutes, "m", seconds % 60, "s");
  }
  if (minutes < 180) {
    return `${minutes}m`;
  }
  const hours = Math.trunc(milliseconds / HOUR);
  if (hours < 8) {
    return withRest(hours, "h", minutes % 60, "m");
  }
  if (hours < 48) {
    return `${hours}h`;
  }
  const days = Math.trunc(hours / 24);
  if (days < 8) {
    return withRest(days, "d", hours % 24, "h");
  }
  if (days < 365 * 2) {
    return `${days}d`;
  }
  const years = Math.trunc(days / 365);
  return days < 365 * 8 ? withRest(years, "y", days % 365, "d") : `${years}y`;
}

function withRest(whole: number, unit: string, rest: number, restUnit: string): string {
  return rest === 0 ? `${whole}${unit}` : `${whole}${unit}${rest}${restUnit}`;
}
