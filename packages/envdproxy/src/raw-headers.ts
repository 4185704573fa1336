/** Header fields as they arrived: name, value, name, value…, with case and duplicates. */
export type RawHeaders = readonly string[];

/** Value of the first field with this lower-case name, trimmed. */
export function firstValue(raw: RawHeaders, name: string): string | undefined {
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const field = raw[i];
    if (field !== undefined && field.length === name.length && field.toLowerCase() === name) {
      return raw[i + 1]?.trim();
    }
  }
  return undefined;
}

/** Lower-cased tokens of all fields with this lower-case name: `a, b` and two fields read alike. */
export function tokens(raw: RawHeaders, name: string): string[] {
  const found: string[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const field = raw[i];
    if (field !== undefined && field.length === name.length && field.toLowerCase() === name) {
      for (const token of (raw[i + 1] ?? "").split(",")) {
        const word = token.trim().toLowerCase();
        if (word !== "") {
          found.push(word);
        }
      }
    }
  }
  return found;
}

/** All fields but those with this lower-case name. */
export function withoutField(raw: RawHeaders, name: string): string[] {
  const kept: string[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    if (raw[i]?.toLowerCase() !== name) {
      kept.push(raw[i] ?? "", raw[i + 1] ?? "");
    }
  }
  return kept;
}

/** How many fields have this lower-case name. */
export function count(raw: RawHeaders, name: string): number {
  let seen = 0;
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i]?.toLowerCase() === name) {
      seen += 1;
    }
  }
  return seen;
}

// Fields that HTTP/2 endpoints take only once; a second value would be refused locally.
const SINGLE = new Set([
  "access-control-allow-credentials",
  "access-control-max-age",
  "access-control-request-method",
  "age",
  "authorization",
  "content-encoding",
  "content-language",
  "content-length",
  "content-location",
  "content-md5",
  "content-range",
  "content-type",
  "date",
  "dnt",
  "etag",
  "expires",
  "from",
  "host",
  "if-match",
  "if-modified-since",
  "if-none-match",
  "if-range",
  "if-unmodified-since",
  "last-modified",
  "location",
  "max-forwards",
  "origin",
  "proxy-authorization",
  "range",
  "referer",
  "retry-after",
  "tk",
  "upgrade-insecure-requests",
  "user-agent",
  "x-content-type-options",
]);

/** Fields for an HTTP/2 stream: lower-case names, duplicates as lists, the first value where only one is allowed. */
export function http2Fields(raw: RawHeaders): Record<string, string | string[]> {
  const fields: Record<string, string | string[]> = Object.create(null) as Record<string, string | string[]>;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = (raw[i] ?? "").toLowerCase();
    const value = raw[i + 1] ?? "";
    const known = fields[name];
    if (known === undefined) {
      fields[name] = value;
    } else if (!SINGLE.has(name)) {
      // Grown in place: a copy for each of the ten thousands of fields that a head can have would take many seconds.
      if (Array.isArray(known)) {
        known.push(value);
      } else {
        fields[name] = [known, value];
      }
    }
  }
  return fields;
}
