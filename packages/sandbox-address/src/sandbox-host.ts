/** Where a request goes: a port inside one sandbox. `id` is spelled as the client wrote it, lower-cased. */
export interface SandboxAddress {
  readonly port: number;
  readonly id: string;
}

const DECIMAL = /^[0-9]+$/;

/**
 * A port number, 1 to 65535, from decimal digits; blanks around it are ignored and leading zeros allowed. `undefined`
 * for anything else: signs, hex, text, the empty string.
 */
export function parsePort(text: string): number | undefined {
  const digits = text.trim();
  if (!DECIMAL.test(digits)) {
    return undefined;
  }
  const port = Number(digits);
  return port >= 1 && port <= 65_535 ? port : undefined;
}

/** Cuts `:port` off. Text with several colons that is not a bracketed address does not split and stays whole. */
function withoutPort(authority: string): string {
  const colon = authority.lastIndexOf(":");
  if (colon < 0) {
    return authority;
  }
  const host = authority.slice(0, colon);
  if (host.startsWith("[")) {
    return host.endsWith("]") ? host : authority;
  }
  return host.includes(":") ? authority : host;
}

function hostName(authority: string): string {
  const host = withoutPort(authority.trim()).toLowerCase();
  return host.endsWith(".") ? host.slice(0, -1) : host;
}

/**
 * Reads `{port}-{id}.{domain}`, the host of a guest port. Both sides are compared in lower case; a port behind the
 * authority or the configured domain is ignored, and one trailing dot is accepted. The label is cut at its first
 * hyphen, since ids hold hyphens. `undefined` when the authority names no sandbox below `domain`.
 */
export function parseSandboxHost(authority: string, domain: string): SandboxAddress | undefined {
  const host = hostName(authority);
  const parent = hostName(domain);
  const labelEnd = host.length - parent.length - 1;
  if (parent === "" || labelEnd < 1 || host[labelEnd] !== "." || !host.endsWith(parent)) {
    return undefined;
  }
  const label = host.slice(0, labelEnd);
  const hyphen = label.indexOf("-");
  if (hyphen < 1 || hyphen === label.length - 1 || label.includes(".")) {
    return undefined;
  }
  const port = parsePort(label.slice(0, hyphen));
  return port === undefined ? undefined : { port, id: label.slice(hyphen + 1) };
}

/** The host name of a guest port: `{port}-{id}.{domain}`. A port behind `domain` is kept. */
export function sandboxHost(port: number, id: string, domain: string): string {
  return `${port}-${id}.${domain}`;
}
