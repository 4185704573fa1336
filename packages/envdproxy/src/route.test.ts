import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isHealthPath, isInternalPath, isSignedFile, parseRoute, parseTarget } from "./route.ts";
import type { Target } from "./route.ts";

const DOMAIN = "sandbox.example.com";

function target(text: string): Target {
  const parsed = parseTarget(text);
  if (parsed === undefined) {
    throw new Error(`${text} is no target`);
  }
  return parsed;
}

describe("parseTarget", () => {
  it.each([
    ["/files?path=/etc/hosts", undefined, "/files?path=/etc/hosts", "/files", "path=/etc/hosts"],
    ["http://h.example:80/p?q=1", "h.example:80", "/p?q=1", "/p", "q=1"],
    ["HTTPS://user:pw@h", "h", "/", "/", ""],
    ["http://h?q", "h", "/?q", "/", "q"],
    ["/a%2Fb%zz%41", undefined, "/a%2Fb%zz%41", "/a/b%zzA", ""],
    ["/p?a=1;b=%zz&c", undefined, "/p?a=1;b=%zz&c", "/p", "a=1;b=%zz&c"],
    ["//a/../b", undefined, "//a/../b", "//a/../b", ""],
    ["/p#frag?x", undefined, "/p#frag?x", "/p", ""],
  ])("reads %j", (text, authority, raw, path, query) => {
    expect(parseTarget(text)).toStrictEqual({ authority, raw, path, query });
  });

  it.each(["", "*", "p", "ftp://h/p", "http:/h", "h:80"])("refuses %j", (text) => {
    expect(parseTarget(text)).toBeUndefined();
  });

  it("passes any origin-form target on unchanged", () => {
    fc.assert(fc.property(fc.string({ unit: "binary-ascii" }), (text) => target(`/${text}`).raw === `/${text}`));
  });
});

describe("internal paths", () => {
  const internal = ["/init", "/freeze", "/unfreeze", "/fsfreeze", "/fsthaw", "/collapse", "/upgrade"];
  const spellings: ((path: string) => string)[] = [
    (path) => path,
    (path) => `${path}/`,
    (path) => `${path}//`,
    (path) => path.toUpperCase(),
    (path) => `/${path}`,
    (path) => `/.${path}`,
    (path) => `/x/..${path}`,
    (path) => `/x%ff/..${path}`,
    (path) => `/x/%2e%2E${path}`,
    (path) => `/x\\..${path}`,
    (path) => `${path}%2F`,
    (path) => `${path}/.`,
    (path) => `${path}?a=1`,
    (path) => `${path}#a`,
    (path) => path.replace("/", "/%2e/"),
    (path) => `/%${path.charCodeAt(1).toString(16)}${path.slice(2)}`,
    (path) => `http://host${path}`,
  ];

  it.each(internal.flatMap((path) => spellings.map((spell) => spell(path))))("recognises %j", (text) => {
    expect(isInternalPath(target(text).path)).toBe(true);
  });

  it.each(["/init/x", "/initx", "/init;a", "/init%00", "/xinit", "/", "/%2569nit", "/files", "/health", "/init/../x"])(
    "lets %j through",
    (text) => {
      expect(isInternalPath(target(text).path)).toBe(false);
    },
  );

  it("recognises an internal path behind any climbing prefix", () => {
    const segment = fc.stringMatching(/^[a-z0-9%]{1,8}$/).filter((text) => !/%(?:2f|5c)/i.test(text));
    fc.assert(
      fc.property(fc.array(segment, { maxLength: 5 }), fc.constantFrom(...internal), (prefix, path) => {
        const climb = prefix.map((name) => `/${name}`).join("") + "/..".repeat(prefix.length);
        expect(isInternalPath(target(climb + path).path)).toBe(true);
      }),
    );
  });

  it("never throws", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const path = parseTarget(text)?.path ?? text;
        expect([isInternalPath(path), isHealthPath(path)]).toHaveLength(2);
      }),
    );
  });
});

describe("signed files", () => {
  it.each([
    ["/files?path=a&signature=v1_x", true],
    ["/files?signature=", false],
    ["/files?path=a", false],
    ["/files/?signature=v1_x", false],
    ["/files2?signature=v1_x", false],
    ["/%66iles?signature=v1_x", true],
    ["/files?xsignature=v1_x", false],
  ])("%j is signed: %j", (text, signed) => {
    expect(isSignedFile(target(text))).toBe(signed);
  });
});

describe("parseRoute", () => {
  const host = `80-sb-host.${DOMAIN}`;
  it.each([
    [[], host, { port: 80, id: "sb-host" }, "the host form"],
    [
      ["E2b-Sandbox-Id", "sb_A", "E2B-SANDBOX-PORT", "8080"],
      host,
      { port: 8080, id: "sb_A" },
      "headers win, case stays",
    ],
    [["e2b-sandbox-id", " sb-a ", "e2b-sandbox-port", " 0080 "], "10.0.0.1", { port: 80, id: "sb-a" }, "trimmed"],
    [["e2b-sandbox-id", "", "e2b-sandbox-port", "9"], host, { port: 80, id: "sb-host" }, "an empty id is no id"],
    [["e2b-sandbox-port", "9"], host, { port: 80, id: "sb-host" }, "a port alone is ignored"],
    [["e2b-sandbox-id", "sb-a"], host, undefined, "no fallback to the host"],
    [["e2b-sandbox-id", "sb-a", "e2b-sandbox-port", "+22"], host, undefined, "a bad port"],
    [
      ["e2b-sandbox-id", "sb-a", "e2b-sandbox-id", "sb-b", "e2b-sandbox-port", "9"],
      host,
      { port: 9, id: "sb-a" },
      "first",
    ],
    [[], DOMAIN, undefined, "the bare domain"],
    [[], "", undefined, "no authority at all"],
  ])("%j at %j gives %j: %s", (headers, authority, route, _why) => {
    expect(parseRoute(headers, authority, DOMAIN)).toStrictEqual(route);
  });
});
