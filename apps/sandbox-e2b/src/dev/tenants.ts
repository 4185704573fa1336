import { readFile } from "node:fs/promises";

/** A tenant of a development node. */
export interface TenantLine {
  readonly name: string;
  /** A secret. */
  readonly token: string;
  /** Sandboxes it may hold on this node; 0 for no limit. */
  readonly maxClaims: number;
}

const NAME = /^[a-zA-Z0-9][a-zA-Z0-9._:/-]{0,62}$/;

/**
 * Reads a file of tenants, one `name token [max_claims]` per line; `#` begins a comment line.
 * @throws Error naming the file and the line, never what stands in it but a name
 */
export async function readTenants(file: string): Promise<TenantLine[]> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : "failed";
    throw new Error(`read tenant file ${JSON.stringify(file)}: ${reason}`, { cause });
  }
  return parseTenants(text, file);
}

/** The lines of {@link readTenants}. */
export function parseTenants(text: string, file: string): TenantLine[] {
  const tenants = new Map<string, TenantLine>();
  for (const [index, line] of text
    .replace(/^\uFEFF/, "")
    .split(/\r?\n/)
    .entries()) {
    const words = line.trim().split(/\s+/);
    const [name = "", token, most = "0"] = words;
    if (name === "" || name.startsWith("#")) continue;
    const bad = (what: string): Error => new Error(`tenant file ${JSON.stringify(file)}, line ${index + 1}: ${what}`);
    if (token === undefined || words.length > 3) throw bad("want name token [max_claims]");
    if (!NAME.test(name)) throw bad("the name is not valid");
    if (tenants.has(name)) throw bad(`tenant ${name} is there twice`);
    if ([...tenants.values()].some((other) => other.token === token)) throw bad(`tenant ${name} has another's token`);
    if (!/^\d{1,9}$/.test(most)) throw bad("max_claims must be a number that is not negative");
    tenants.set(name, { name, token, maxClaims: Number(most) });
  }
  return [...tenants.values()];
}
