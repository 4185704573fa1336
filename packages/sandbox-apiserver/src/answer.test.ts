import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { objectAnswer, statusAnswer } from "./answer.ts";
import { notFound, unavailable } from "./api-status.ts";

const YAML = { format: "yaml", pretty: false } as const;
const JSON_FORM = { format: "json", pretty: false } as const;

describe("an answer", () => {
  test("is JSON on one line, or indented for readers", async () => {
    const body = { a: { b: 1 }, c: undefined };
    const plain = objectAnswer(body, JSON_FORM, { status: 201, headers: { vary: "Accept" } });
    expect(plain.status).toBe(201);
    expect(plain.headers.get("content-type")).toBe("application/json");
    expect(plain.headers.get("vary")).toBe("Accept");
    expect(await plain.text()).toBe('{"a":{"b":1}}\n');
    expect(await objectAnswer(body, { format: "json", pretty: true }).text()).toBe('{\n  "a": {\n    "b": 1\n  }\n}\n');
  });

  test("is YAML that reads as the same, whatever its length", async () => {
    const shared = { x: ["1", "yes", "2026-11-30T10:00:00Z", "line\nline", " ", "é"] };
    for (const body of [{ a: shared, b: shared }, { long: Array.from({ length: 5000 }, () => shared) }]) {
      const answer = objectAnswer(body, YAML);
      expect(answer.headers.get("content-type")).toBe("application/yaml");
      const text = await answer.text();
      expect(text).not.toContain("&");
      expect(parse(text)).toEqual(body);
    }
  });

  test("of a failure is a Status in the same form, and says when to try again", async () => {
    const late = statusAnswer(unavailable("nothing warm", 3), YAML);
    expect(late.status).toBe(503);
    expect(late.headers.get("retry-after")).toBe("3");
    expect(parse(await late.text())).toEqual({
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Failure",
      message: "nothing warm",
      reason: "ServiceUnavailable",
      details: { retryAfterSeconds: 3 },
      code: 503,
    });
    expect(statusAnswer(notFound("x"), JSON_FORM).headers.has("retry-after")).toBe(false);
  });
});
