/** The host of an address: without scheme, path, port and the brackets of IPv6. */
export function hostOf(address: string): string {
  const authority = address.replace(/^[^/]*:\/\//, "").replace(/\/.*$/s, "");
  const bracketed = /^\[(.*)\](?::\d*)?$/s.exec(authority)?.[1];
  return bracketed ?? authority.replace(/^([^:]*):\d*$/s, "$1");
}
