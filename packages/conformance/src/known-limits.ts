import { readFile } from "node:fs/promises";

import type { ProductLimit, RowResult } from "./results.ts";

/** A row that a client is known to fail, and why. `docs/known-limits.md` shows the same list. */
export interface KnownLimit {
  readonly suite: string;
  readonly row: string;
  readonly reason: string;
}

/** The list of known failures of one client version, beside those of the product itself. */
export interface ClientLimits {
  readonly client: string;
  readonly version: string;
  readonly rows: readonly KnownLimit[];
}

/** What `known-limits.json` holds. */
export interface KnownLimits {
  /** Rows that no client passes yet. */
  readonly product: readonly ProductLimit[];
  /** Rows that want a second user in the guest, which a development node of an ordinary user cannot give. */
  readonly oneUser: readonly ProductLimit[];
  /** Rows that only the newest Python client fails. */
  readonly newestPython: ClientLimits;
}

/** Reads the list beside this package's manifest. */
export async function readKnownLimits(): Promise<KnownLimits> {
  return JSON.parse(await readFile(new URL("../known-limits.json", import.meta.url), "utf8")) as KnownLimits;
}

/** The limits that hold where the development nodes run as this user: only the host's root can give guests two ids. */
export function limitsFor(limits: KnownLimits, userId: number | undefined): readonly ProductLimit[] {
  return userId === 0 ? limits.product : [...limits.product, ...limits.oneUser];
}

/** Where a run and the list disagree, one line each. */
export function compareWithKnownLimits(limits: ClientLimits, results: readonly RowResult[]): string[] {
  const listed = new Map(limits.rows.map((limit) => [`${limit.suite} ${limit.row}`, limit]));
  const failed = new Map<string, string>();
  const ran = new Set<string>();
  for (const result of results) {
    const key = `${result.suite} ${result.row}`;
    ran.add(key);
    if (result.status === "fail") {
      failed.set(key, result.detail);
    }
  }
  const lines: string[] = [];
  for (const [key, detail] of failed) {
    if (!listed.has(key)) {
      lines.push(`${key} fails but is not in the list: ${detail}`);
    }
  }
  for (const key of listed.keys()) {
    if (ran.has(key) && !failed.has(key)) {
      lines.push(`${key} is in the list but passes`);
    }
  }
  return lines;
}

/** The whole list as the tables that `docs/known-limits.md` holds. */
export function knownLimitsTables(limits: KnownLimits): string {
  const { product, oneUser, newestPython } = limits;
  const table = (rows: readonly KnownLimit[]): string[] => [
    "| row | suite | why |",
    "|---|---|---|",
    ...rows.map((limit) => `| ${limit.row} | ${limit.suite} | ${limit.reason} |`),
  ];
  return [
    ...(product.length === 0 ? ["Every client passes every row."] : table(product)),
    "",
    ...(oneUser.length === 0
      ? []
      : ["With development nodes that an ordinary user runs, these rows fail as well:", "", ...table(oneUser), ""]),
    ...(newestPython.rows.length === 0
      ? [`${newestPython.client} ${newestPython.version} fails no other row.`]
      : [`${newestPython.client} ${newestPython.version} fails these rows as well:`, "", ...table(newestPython.rows)]),
    "",
  ].join("\n");
}
