import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatAddress, parseBindAddress } from "./bind-address.ts";

describe("parseBindAddress", () => {
  it.each([
    [":8080", { port: 8080 }],
    ["127.0.0.1:0", { host: "127.0.0.1", port: 0 }],
    ["localhost:80", { host: "localhost", port: 80 }],
    ["[::1]:8080", { host: "::1", port: 8080 }],
    ["[::]:8080", { host: "::", port: 8080 }],
    ["[fe80::1%eth0]:1", { host: "fe80::1%eth0", port: 1 }],
  ])("reads %j", (text, address) => {
    expect(parseBindAddress(text)).toStrictEqual(address);
  });

  it.each([
    "",
    "8080",
    "localhost",
    "::1:8080",
    "[::1]",
    "[x]:1",
    ":65536",
    ":-1",
    ":http",
    ": 80",
    "http://h:80",
    "a b:80",
  ])("refuses %j", (text) => {
    expect(parseBindAddress(text)).toBeUndefined();
  });

  it("reads back what formatAddress writes", () => {
    const hosts = fc.oneof(fc.ipV4(), fc.ipV6(), fc.domain(), fc.constant(undefined));
    fc.assert(
      fc.property(hosts, fc.integer({ min: 0, max: 65_535 }), (host, port) => {
        expect(parseBindAddress(formatAddress(host, port))).toStrictEqual(
          host === undefined ? { port } : { host, port },
        );
      }),
    );
  });

  it("keeps brackets that are already there", () => {
    expect(formatAddress("[::1]", 80)).toBe("[::1]:80");
    expect(formatAddress("", 80)).toBe(":80");
  });
});
