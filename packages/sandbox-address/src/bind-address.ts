/** An address to listen on. Without a host, every interface is meant; port 0 lets the system choose. */
export interface BindAddress {
  readonly host?: string;
  readonly port: number;
}

const BRACKETED = /^\[([0-9a-fA-F:.]+(?:%[^\]\s]+)?)\]:([0-9]{1,5})$/;
const PLAIN = /^([^\s:/[\]@]*):([0-9]{1,5})$/;

/**
 * Reads `host:port`, `:port` or `[ipv6]:port`, with a port from 0 to 65535. `undefined` for anything else, for example
 * a bare port, an IPv6 address without brackets or a URL.
 */
export function parseBindAddress(text: string): BindAddress | undefined {
  const match = BRACKETED.exec(text) ?? PLAIN.exec(text);
  const host = match?.[1];
  const port = Number(match?.[2]);
  if (host === undefined || !(port <= 65_535)) {
    return undefined;
  }
  return host === "" ? { port } : { host, port };
}

/** `host:port` for people and URLs: an IPv6 host gets brackets, an absent host gives `:port`. */
export function formatAddress(host: string | undefined, port: number): string {
  if (host === undefined || host === "") {
    return `:${port}`;
  }
  return host.includes(":") && !host.startsWith("[") ? `[${host}]:${port}` : `${host}:${port}`;
}
