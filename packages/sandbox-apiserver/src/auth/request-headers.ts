import type { IncomingMessage } from "node:http";
import type { Http2ServerRequest } from "node:http2";

/** A request of either protocol. */
export type RawRequest = IncomingMessage | Http2ServerRequest;

/** Names of the headers in which a front proxy says whom it speaks for. Kube specification §4.2. */
export interface RemoteHeaderNames {
  /** @default ["x-remote-user"] */
  readonly username: readonly string[];
  /** Not looked at unless named. @default [] */
  readonly uid: readonly string[];
  /** @default ["x-remote-group"] */
  readonly group: readonly string[];
  /** @default ["x-remote-extra-"] */
  readonly extraPrefix: readonly string[];
}

/** The names that kube-apiserver uses when nobody chose others. */
export const REMOTE_HEADER_NAMES: RemoteHeaderNames = {
  username: ["x-remote-user"],
  uid: [],
  group: ["x-remote-group"],
  extraPrefix: ["x-remote-extra-"],
};

/** A header line: its name in lower case, and its value. */
type Line = readonly [name: string, value: string];

/**
 * Every header line by itself: Node joins the values of repeated lines with commas, which group names may hold. Bytes of
 * values that are UTF-8 are read as such.
 */
export function headerLines({ rawHeaders }: Pick<RawRequest, "rawHeaders">): readonly Line[] {
  const lines: Line[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    lines.push([(rawHeaders[at] ?? "").toLowerCase(), utf8(rawHeaders[at + 1] ?? "")]);
  }
  return lines;
}

// Anything but ASCII comes as one character for each byte.
const BEYOND_ASCII = /[\u0080-\u00ff]/;

function utf8(value: string): string {
  return BEYOND_ASCII.test(value) ? Buffer.from(value, "latin1").toString("utf8") : value;
}

/** The first value of the first of the named headers that has one; an empty one does not count. */
export function firstValue(lines: readonly Line[], names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = lines.find((line) => line[0] === name.toLowerCase())?.[1];
    if (value !== undefined && value !== "") {
      return value;
    }
  }
  return undefined;
}

/** Every value of the named headers, in the order of the names. */
export function allValues(lines: readonly Line[], names: readonly string[]): readonly string[] {
  return names.flatMap((name) =>
    lines.filter((line) => line[0] === name.toLowerCase() && line[1] !== "").map((line) => line[1]),
  );
}

/** The values of headers by what follows the prefix in their name. */
export function valuesByKey(
  lines: readonly Line[],
  prefixes: readonly string[],
): Readonly<Record<string, readonly string[]>> {
  const found = new Map<string, string[]>();
  for (const prefix of prefixes) {
    for (const [name, value] of lines) {
      if (name.startsWith(prefix.toLowerCase())) {
        const key = decoded(name.slice(prefix.length));
        const values = found.get(key);
        if (values === undefined) {
          found.set(key, [value]);
        } else {
          values.push(value);
        }
      }
    }
  }
  return Object.fromEntries(found);
}

/** Header names have fewer characters than keys, so that others are percent-encoded. What is not stays as it is. */
function decoded(key: string): string {
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}

/** Tells headers that only the authentication may see. */
export type SecretHeaders = (name: string) => boolean;

/** The credential, and the headers of front proxies under these names as well as the usual ones. */
export function secretHeaders(names: RemoteHeaderNames = REMOTE_HEADER_NAMES): SecretHeaders {
  const exact = new Set(["authorization", "x-remote-uid"]);
  const prefixes: string[] = [];
  for (const { username, uid, group, extraPrefix } of [REMOTE_HEADER_NAMES, names]) {
    for (const name of [...username, ...uid, ...group]) {
      exact.add(name.toLowerCase());
    }
    prefixes.push(...extraPrefix.map((prefix) => prefix.toLowerCase()));
  }
  return (name) => {
    const lower = name.toLowerCase();
    return exact.has(lower) || prefixes.some((prefix) => lower.startsWith(prefix));
  };
}

/** Takes headers out of a request: nobody behind the authentication can be led to believe them. */
export function stripHeaders(request: RawRequest, isSecret: SecretHeaders): void {
  const { rawHeaders, headers } = request;
  for (let at = rawHeaders.length - (rawHeaders.length % 2) - 2; at >= 0; at -= 2) {
    if (isSecret(rawHeaders[at] ?? "")) {
      rawHeaders.splice(at, 2);
    }
  }
  for (const name of Object.keys(headers)) {
    if (isSecret(name)) {
      delete headers[name];
    }
  }
}
