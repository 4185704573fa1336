import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ApiStatusError } from "./api-status.ts";
import { negotiate, negotiatePlain } from "./negotiation.ts";

const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";

describe("negotiation", () => {
  test.each([
    [undefined, "json", "object"],
    ["", "json", "object"],
    ["*/*", "json", "object"],
    ["application/*", "json", "object"],
    ["application/json", "json", "object"],
    ["Application/JSON; charset=utf-8", "json", "object"],
    ["application/yaml", "yaml", "object"],
    [TABLE, "json", "table"],
    ["application/json;v=v1beta1;g=meta.k8s.io;as=Table", "json", "table"],
    [`${TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json`, "json", "table"],
    ["application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "json", "partial"],
    ["application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "json", "partial"],
    ["application/yaml;as=Table;v=v1;g=meta.k8s.io", "yaml", "table"],
    ["application/vnd.kubernetes.protobuf,application/json", "json", "object"],
    [
      "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
      "json",
      "partial",
    ],
    ["application/json;as=Table;v=v2;g=meta.k8s.io,application/json", "json", "object"],
    ["application/json;as=Table;v=v1;g=other,application/yaml", "yaml", "object"],
    ["application/json;q=0.1,application/yaml;q=0.9", "yaml", "object"],
    ["application/json;q=0,application/yaml", "yaml", "object"],
    ["*/*,application/yaml", "yaml", "object"],
    ["text/html,application/xhtml+xml,*/*;q=0.8", "json", "object"],
  ] as const)("of %s", (accept, format, as) => {
    expect(negotiate(accept)).toMatchObject({ format, as });
  });

  test.each([
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "text/html",
    "application/json;as=Table;v=v9;g=meta.k8s.io",
    "application/json;as=constructor;v=v1;g=meta.k8s.io",
    "application/json;q=0",
  ])("of %s is not possible", (accept) => {
    expect(() => negotiate(accept)).toThrow(expect.objectContaining({ code: 406, reason: "NotAcceptable" }) as Error);
    expect(negotiatePlain(accept)).toMatchObject({ format: "json", as: "object" });
  });

  test.each([
    ["", undefined, false],
    ["pretty", undefined, true],
    ["pretty=true", undefined, true],
    ["pretty=false", "curl/8.0", false],
    ["pretty=0", undefined, false],
    ["", "curl/8.0", true],
    ["", "Mozilla/5.0 (X11)", true],
    ["", "kubectl/v1.36.3", false],
  ])("indents for readers: %s %s", (query, userAgent, pretty) => {
    expect(negotiate(undefined, { query: new URLSearchParams(query), userAgent })).toMatchObject({ pretty });
  });

  test.each([
    ["", "Metadata"],
    ["includeObject=None", "None"],
    ["includeObject=Object", "Object"],
    ["includeObject=Metadata", "Metadata"],
    ["includeObject=other", "Metadata"],
  ])("reads what rows carry: %s", (query, includeObject) => {
    expect(negotiate(TABLE, { query: new URLSearchParams(query) })).toMatchObject({ includeObject });
  });

  const word = fc.constantFrom(
    "application",
    "json",
    "*",
    "yaml",
    "as",
    "Table",
    "v",
    "v1",
    "g",
    "q",
    "0.5",
    "meta.k8s.io",
    " ",
  );
  const sign = fc.constantFrom("/", ";", "=", ",", '"', "");
  const header = fc.array(fc.tuple(word, sign), { maxLength: 24 }).map((parts) => parts.flat().join(""));

  test("never fails in another way, and only where nothing can be made", () => {
    fc.assert(
      fc.property(fc.oneof(header, fc.string()), (accept) => {
        try {
          negotiate(accept);
        } catch (error) {
          expect(error).toBeInstanceOf(ApiStatusError);
          expect(error).toMatchObject({ code: 406 });
        }
        expect(negotiatePlain(accept).as).toBe("object");
        expect(negotiate(`${accept},application/json`)).toBeDefined();
      }),
    );
  });
});
