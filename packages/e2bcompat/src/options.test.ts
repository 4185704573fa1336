import { StaticInventorySource } from "@org/scale/testing";
import { createStore } from "@org/scale";
import { describe, expect, it } from "vitest";
import type { ServerOptions } from "./options.ts";
import { createServer } from "./server.ts";

const inventory = new StaticInventorySource();
const store = createStore(inventory);
const KEYS = [{ key: "e2b_1", namespace: "ns1" }];

const build = (change: Partial<ServerOptions>): unknown =>
  createServer(store, { inventory, domain: "example.com", keys: KEYS, ...change });

describe("createServer", () => {
  it.each([
    ["no key", { keys: [] }, "--e2b-api-key-file"],
    ["no key, said otherwise", { keys: undefined }, "--e2b-allow-anonymous"],
    ["no domain", { domain: "" }, "--e2b-domain"],
    ["a blank domain", { domain: " \t" }, "--e2b-domain"],
    ["a URL as domain", { domain: "https://example.com" }, "https://example.com"],
    ["a domain with a path", { domain: "example.com/x" }, "example.com/x"],
    ["a namespace with a slash", { namespace: "a/b" }, "a/b"],
    ["a key's namespace with a slash", { keys: [{ key: "k", namespace: "a/b" }] }, "a/b"],
    ["no version", { envdVersion: "" }, "envd version"],
    ["a version that is none", { envdVersion: "latest" }, "latest"],
    ["a version with a prefix", { envdVersion: "v0.8.0" }, "v0.8.0"],
    ["two numbers", { envdVersion: "0.8" }, "0.8"],
    ["a leading zero", { envdVersion: "0.08.0" }, "0.08.0"],
    ["a version that clients refuse", { envdVersion: "0.0.9" }, "0.1.0"],
    ["no lease", { defaultTimeoutSeconds: 0 }, "timeout"],
    ["half a second", { defaultTimeoutSeconds: 0.5 }, "timeout"],
    ["a blank secret", { envdSecret: " " }, "secret"],
    [
      "an alias twice",
      {
        aliases: [
          { alias: "a", image: "i", size: "small" },
          { alias: "a", image: "j", size: "small" },
        ],
      },
      "twice",
    ],
  ] as const)("refuses %s", (_what, change, words) => {
    expect(() => build(change)).toThrow(expect.objectContaining({ name: "E2bError", code: "invalid_options" }));
    expect(() => build(change)).toThrow(words);
  });

  it.each([
    { domain: "localhost" },
    { domain: "localhost:3000" },
    { envdVersion: "0.1.0" },
    { envdVersion: "1.0.0" },
    { envdVersion: "0.10.12" },
    { keys: [], allowAnonymous: true },
  ])("accepts %j", (change) => {
    expect(() => build(change)).not.toThrow();
  });
});
