import { type LookupAddress } from "node:dns";
import { type Finding, findingsOf } from "./finding.ts";

/** Looks a name up as programs do. */
export type Lookup = (name: string) => Promise<readonly LookupAddress[]>;

/** A label that nobody has an entry of its own for, in the form of a sandbox's host. */
const LABEL = "49983-sb-0123456789abcdef";

/** Whether every sandbox's host name leads somewhere: the wildcard entry of the domain. */
export async function nameFindings(domain: string, lookup: Lookup): Promise<Finding[]> {
  const { ok, fault, warning } = findingsOf("names");
  const host = domain.replace(/:\d+$/, "").replace(/\.$/, "");
  const name = `${LABEL}.${host}`;
  const wild = await addresses(name, lookup);
  const bare = await addresses(host, lookup);
  if (wild.length > 0) {
    const elsewhere = bare.length > 0 && !bare.some((address) => wild.includes(address));
    return [
      ok(`*.${host} leads to ${wild.join(", ")}`),
      ...(elsewhere
        ? [
            warning(
              `${host} itself leads to ${bare.join(", ")}`,
              "check that the wildcard entry is meant for the data plane",
            ),
          ]
        : []),
    ];
  }
  if (host === "localhost" || host.endsWith(".localhost")) {
    return [
      warning(
        `*.${host} is not known to this machine's resolver`,
        "browsers know it without an entry; give other clients E2B_SANDBOX_URL, which needs no names",
      ),
    ];
  }
  return [
    fault(
      `*.${host} leads nowhere: ${name} has no address`,
      `add a wildcard entry to DNS (*.${host} to the data plane), or give clients E2B_SANDBOX_URL, which needs no names`,
    ),
  ];
}

async function addresses(name: string, lookup: Lookup): Promise<string[]> {
  try {
    return (await lookup(name)).map(({ address }) => address);
  } catch {
    return [];
  }
}
