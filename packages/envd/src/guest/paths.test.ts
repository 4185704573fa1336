import { posix } from "node:path";

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { EnvdError } from "../errors.ts";
import { createPathMap, resolveGuestPath } from "./paths.ts";

describe("resolveGuestPath", () => {
  it.each([
    ["", undefined, "/home/user"],
    ["", "/work", "/work"],
    ["~", "/work", "/home/user"],
    ["~/a/../b", "/work", "/home/user/b"],
    ["a/b", "/work", "/home/user/a/b"],
    ["./a//b/", undefined, "/home/user/a/b/"],
    ["../x", undefined, "/home/x"],
    ["/a/../b//c", undefined, "/a/../b//c"],
    [" ", undefined, "/home/user/ "],
  ])("reads '%s' (default directory %s) as %s", (path, workdir, expected) => {
    expect(resolveGuestPath(path, "/home/user", workdir)).toBe(expected);
  });

  it.each(["~root", "~root/x", "a\0b"])("refuses %j", (path) => {
    expect(() => resolveGuestPath(path, "/home/user", undefined)).toThrow(EnvdError);
  });

  it("gives an absolute path or an error for any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (path) => {
        try {
          expect(posix.isAbsolute(resolveGuestPath(path, "/home/user", undefined))).toBe(true);
        } catch (error) {
          expect(error).toMatchObject({ code: "invalid_argument" });
        }
      }),
    );
  });
});

describe("a path map", () => {
  const map = createPathMap([
    { guest: "/home/user/", host: "/guests/1/home/user" },
    { guest: "/home/user/mnt", host: "/data" },
    { guest: "/root", host: "/guests/1/root" },
  ]);

  it.each([
    ["/home/user", "/guests/1/home/user"],
    ["/home/user/a b", "/guests/1/home/user/a b"],
    ["/home/user/mnt/x", "/data/x"],
    ["/home/username", "/home/username"],
    ["/home/./user//x", "/guests/1/home/user/x"],
    ["/root/x", "/guests/1/root/x"],
    ["/tmp/../etc", "/tmp/../etc"],
    ["/home/user/../other", "/home/user/../other"],
  ])("leads %s to %s", (guest, host) => {
    expect(map.toHost(guest)).toBe(host);
  });

  it("leads back", () => {
    for (const path of ["/home/user/a", "/home/user/mnt/x", "/root", "/etc/passwd"]) {
      expect(map.toGuest(map.toHost(path))).toBe(path);
    }
  });

  it("changes nothing without mappings, and wants absolute ones", () => {
    const none = createPathMap([]);
    expect([none.toHost("/a/../b"), none.toGuest("/x")]).toEqual(["/a/../b", "/x"]);
    expect(() => createPathMap([{ guest: "home", host: "/x" }])).toThrow(TypeError);
  });
});
