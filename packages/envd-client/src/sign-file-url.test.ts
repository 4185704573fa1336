import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { fileSignature, signFileUrl } from "./sign-file-url.ts";

describe("fileSignature", () => {
  it("gives the value the published SDKs give", () => {
    expect(
      fileSignature({
        path: "hello.txt",
        operation: "read",
        username: "user",
        accessToken: "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0",
      }),
    ).toBe("v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
  });

  it("depends on every part and treats an expiration of 0 as one", () => {
    const base = { path: "a", operation: "read", username: "u", accessToken: "t" } as const;
    const variants = [
      base,
      { ...base, path: "b" },
      { ...base, operation: "write" as const },
      { ...base, username: undefined },
      { ...base, accessToken: "s" },
      { ...base, expiration: 0 },
      { ...base, expiration: 1 },
    ];
    expect(new Set(variants.map(fileSignature)).size).toBe(variants.length);
  });
});

describe("signFileUrl", () => {
  it("carries any path and user through the query unchanged, and never the token", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "grapheme" }),
        fc.string({ unit: "grapheme" }),
        fc.nat(),
        (path, username, expiration) => {
          const accessToken = "secret-token-of-the-guest";
          const input = { path, username, expiration, accessToken, operation: "write" } as const;
          const url = new URL(signFileUrl({ ...input, baseUrl: "https://49983-sb-1.example.test" }));
          expect(url.origin + url.pathname).toBe("https://49983-sb-1.example.test/files");
          expect(url.searchParams.get("path")).toBe(path.toWellFormed());
          expect(url.searchParams.get("username")).toBe(username.toWellFormed());
          expect(url.searchParams.get("signature")).toBe(fileSignature(input));
          expect(url.searchParams.get("signature_expiration")).toBe(String(expiration));
          expect(url.href).not.toContain(accessToken);
        },
      ),
    );
  });

  it("leaves out what was not asked for", () => {
    const url = new URL(
      signFileUrl({ baseUrl: "http://127.0.0.1:49983", path: "x", operation: "read", accessToken: "t" }),
    );
    expect([...url.searchParams.keys()]).toEqual(["path", "signature"]);
  });
});
