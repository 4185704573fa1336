import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parsePort, parseSandboxHost, sandboxHost } from "./sandbox-host.ts";

const DOMAIN = "sandbox.example.com";

describe("parsePort", () => {
  it.each([
    ["80", 80],
    ["0080", 80],
    [" 49983\t", 49_983],
    ["65535", 65_535],
    ["1", 1],
    ["0", undefined],
    ["65536", undefined],
    ["+22", undefined],
    ["-1", undefined],
    ["0x50", undefined],
    ["8e1", undefined],
    ["80.0", undefined],
    ["8 0", undefined],
    ["", undefined],
    [" ", undefined],
    ["٨٠", undefined],
    ["9".repeat(400), undefined],
  ])("reads %j as %j", (text, port) => {
    expect(parsePort(text)).toBe(port);
  });

  it("accepts every port in plain decimal and nothing beyond the range", () => {
    fc.assert(
      fc.property(fc.integer({ min: -10, max: 70_000 }), (number) => {
        expect(parsePort(String(number))).toBe(number >= 1 && number <= 65_535 ? number : undefined);
      }),
    );
  });
});

describe("parseSandboxHost", () => {
  it.each([
    ["49983-sb-abc.sandbox.example.com", "the plain form"],
    ["49983-sb-abc.sandbox.example.com:8443", "a port behind the host is ignored"],
    ["49983-SB-ABC.Sandbox.Example.COM", "host names have no case"],
    ["49983-sb-abc.sandbox.example.com.", "one trailing dot is a full name"],
    ["49983-sb-abc.sandbox.example.com.:8443", "trailing dot and port"],
    ["049983-sb-abc.sandbox.example.com", "leading zeros are normalised"],
  ])("routes %j: %s", (authority) => {
    expect(parseSandboxHost(authority, DOMAIN)).toStrictEqual({ port: 49_983, id: "sb-abc" });
  });

  it.each([
    "example.com",
    "sandbox.example.com",
    "sb-abc.sandbox.example.com",
    "-sb-abc.sandbox.example.com",
    "80-.sandbox.example.com",
    "0-sb-abc.sandbox.example.com",
    "65536-sb-abc.sandbox.example.com",
    "x-sb-abc.sandbox.example.com",
    "80.sandbox.example.com",
    "a.80-sb-abc.sandbox.example.com",
    "80-sb-abc.evilsandbox.example.com",
    "80-sb-abc.sandbox.example.com..",
    "80-sb-abc.sandbox.example.com:1:2",
    ".sandbox.example.com",
    "[::1]",
    "[::1]:8443",
    "127.0.0.1:8443",
    "",
  ])("does not route %j", (authority) => {
    expect(parseSandboxHost(authority, DOMAIN)).toBeUndefined();
  });

  it("ignores the port and the case of the configured domain", () => {
    expect(parseSandboxHost("80-sb-a.localhost:3002", "LocalHost:3002")).toStrictEqual({ port: 80, id: "sb-a" });
    expect(parseSandboxHost("80-sb-a.localhost", "")).toBeUndefined();
  });

  it("reads back what sandboxHost writes", () => {
    const id = fc.stringMatching(/^[a-z0-9][a-z0-9-]{0,40}$/);
    const domain = fc.stringMatching(/^[a-z0-9]{1,10}(\.[a-z]{2,8}){0,3}$/);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 65_535 }), id, domain, fc.boolean(), (port, sandbox, parent, withPort) => {
        const host = sandboxHost(port, sandbox, parent) + (withPort ? ":8443" : "");
        expect(parseSandboxHost(host, parent)).toStrictEqual({ port, id: sandbox });
      }),
    );
  });

  it("never throws, and names a sandbox only below the domain", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const address = parseSandboxHost(text, DOMAIN);
        expect(address === undefined || text.toLowerCase().includes(`.${DOMAIN}`)).toBe(true);
      }),
    );
  });
});
