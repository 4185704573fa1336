import { existsSync, readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import { CLIENT_ROWS } from "./catalogue.ts";

/**
 * What clients switch on by the version of the daemon that the control plane reports, and the rows that prove that it
 * works. A client that asks for more fails the test below until a row is there.
 */
const GATES: Readonly<Record<string, { readonly what: string; readonly rows: readonly string[] }>> = {
  "0.1.0": { what: "older ones are killed at create", rows: ["base B1"] },
  "0.1.4": { what: "recursive watching", rows: ["files FL19", "data D9"] },
  "0.1.5": { what: "metrics", rows: ["surface S2", "data D23"] },
  "0.2.4": { what: "metrics of disks", rows: ["surface S2", "data D23"] },
  "0.3.0": { what: "commands without input", rows: ["commands CM9", "data D23"] },
  "0.4.0": { what: "no user is named unless asked for", rows: ["commands CM6", "files FL14", "data D23"] },
  "0.5.2": { what: "closing input", rows: ["commands CM9", "data D3", "data D23"] },
  "0.5.7": { what: "uploads as octets", rows: ["files FL2", "files FL12", "data D23"] },
  "0.6.2": { what: "metadata of files", rows: ["files FL13", "data D6", "data D7"] },
  "0.6.3": { what: "entries in events", rows: ["data D10"] },
  "0.6.4": { what: "watching network mounts", rows: ["data D10"] },
};

/** For a daemon that is no release, in the client's debug mode. */
const DEBUG_VERSION = "99.99.99";
const VERSION = /["'`](\d+\.\d+\.\d+)["'`]/g;

/** Versions in lines that compare, or name, one of the daemon. */
function versionsIn(source: string): string[] {
  const found = new Set<string>();
  for (const line of source.split("\n")) {
    // What the client's own platform must be is not asked of the daemon.
    if (/compareVersions|\bENVD_\w+ =|\bVersion\(/.test(line) && !/node(js)?version/i.test(line)) {
      for (const [, version = ""] of line.matchAll(VERSION)) {
        found.add(version);
      }
    }
  }
  found.delete(DEBUG_VERSION);
  return [...found].toSorted();
}

const require = createRequire(import.meta.url);
const wanted = Object.keys(GATES).toSorted();

describe("what the daemon's version switches on", () => {
  it.each(["e2b-2.50", "e2b-2.51"])("in the JavaScript client %s is proved by rows", (module) => {
    expect(versionsIn(readFileSync(require.resolve(module), "utf8"))).toEqual(wanted);
  });

  const home = join(import.meta.dirname, "..");
  const environments = readdirSync(home).filter((name) => /^\.venv-e2b-(\d|newest)/.test(name));
  it.each(environments)("in the Python client of %s is proved by rows", (environment) => {
    const lib = join(home, environment, "lib");
    const found = readdirSync(lib).flatMap((python) => {
      const root = join(lib, python, "site-packages", "e2b");
      const files = existsSync(root) ? readdirSync(root, { recursive: true, encoding: "utf8" }) : [];
      return files
        .filter((name) => name.endsWith(".py"))
        .flatMap((name) => versionsIn(readFileSync(join(root, name), "utf8")));
    });
    expect([...new Set(found)].toSorted()).toEqual(found.length === 0 ? [] : wanted);
  });

  it.each(Object.entries(GATES))("%s has its rows", (_version, { what, rows }) => {
    const known = CLIENT_ROWS.map((row) => `${row.suite} ${row.id}`);
    expect(
      rows.filter((row) => !known.includes(row)),
      what,
    ).toEqual([]);
  });
});
