const MAX_QUOTED = 80;

/** Text of a caller in a message: in quotes, and only so much of it. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED)}…` : text);
}
