import { ScaleError } from "@org/scale";
import type { ScaleErrorCode } from "@org/scale";
import { describe, expect, it } from "vitest";
import { failureFor } from "./error-answers.ts";
import { E2bError } from "./errors.ts";
import type { E2bErrorCode } from "./errors.ts";

const SECRET = "10.0.0.2:27777 said something private";

describe("failureFor", () => {
  const scale: readonly (readonly [ScaleErrorCode, number | undefined, number, boolean])[] = [
    ["no_warm_capacity", undefined, 503, false],
    ["routing_disabled", undefined, 500, false],
    ["claim_refused", 400, 400, true],
    ["claim_refused", 409, 409, true],
    ["claim_refused", 401, 500, false],
    ["claim_refused", 418, 500, false],
    ["claim_refused", undefined, 500, false],
    ["claim_failed", undefined, 500, false],
    ["not_found", 404, 404, false],
    ["node_refused", 400, 400, true],
    ["node_refused", 404, 404, true],
    ["node_refused", 409, 409, true],
    ["node_refused", 429, 429, true],
    ["node_refused", 499, 499, true],
    ["node_refused", 401, 500, false],
    ["node_refused", 403, 500, false],
    ["node_refused", 302, 500, false],
    ["node_refused", 500, 500, false],
    ["node_refused", undefined, 500, false],
    ["node_failed", 500, 500, false],
    ["node_failed", undefined, 500, false],
    ["aborted", undefined, 499, false],
  ];

  it.each(scale)("%s with the node's status %j is %i", (code, nodeStatus, status, shown) => {
    const { answer } = failureFor(new ScaleError(code, SECRET, { status: nodeStatus, nodeMessage: "the reason" }));
    expect(answer.status).toBe(status);
    const body = JSON.parse(answer.body ?? "") as { code: number; message: string };
    expect(body.code).toBe(status);
    expect(body.message).not.toBe("");
    expect(body.message).not.toContain(SECRET);
    expect(body.message === "the reason").toBe(shown);
  });

  it("calls a sandbox gone only when every node has said so", () => {
    for (const [unanswered, status, later] of [
      [0, 404, undefined],
      [1, 503, "1"],
      [40, 503, "1"],
    ] as const) {
      const { answer } = failureFor(new ScaleError("not_found", SECRET, { unanswered }));
      expect([answer.status, answer.headers?.["retry-after"]]).toEqual([status, later]);
    }
  });

  it.each([400, 409, 429])("says when to ask again of a node's %i only when it took no more", (status) => {
    const { answer } = failureFor(new ScaleError("node_refused", SECRET, { status, nodeMessage: "draining" }));
    expect(answer.headers?.["retry-after"]).toBe(status === 429 ? "1" : undefined);
  });

  it("says what is wrong with the caller's input, and invents words for a node that has none", () => {
    expect(failureFor(new ScaleError("bad_request", "ports are numbers")).answer.body).toContain("ports are numbers");
    for (const nodeMessage of [undefined, ""]) {
      const { answer } = failureFor(new ScaleError("node_refused", SECRET, { status: 409, nodeMessage }));
      expect(JSON.parse(answer.body ?? "")).toStrictEqual({ code: 409, message: "the node refused the request" });
    }
  });

  const own: readonly (readonly [E2bErrorCode, number, boolean])[] = [
    ["bad_request", 400, true],
    ["unauthorized", 401, true],
    ["not_found", 404, true],
    ["method_not_allowed", 405, true],
    ["conflict", 409, true],
    ["unavailable", 503, true],
    ["unsupported", 501, true],
    ["guest_failed", 500, true],
    ["internal", 500, true],
    ["invalid_options", 500, false],
    ["invalid_flag", 500, false],
    ["file_unreadable", 500, false],
    ["invalid_file", 500, false],
    ["listen_failed", 500, false],
  ];

  it.each(own)("%s is %i", (code, status, shown) => {
    const { answer } = failureFor(new E2bError(code, "words"));
    expect(answer.status).toBe(status);
    expect(JSON.parse(answer.body ?? "")).toStrictEqual({ code: status, message: shown ? "words" : "internal error" });
  });

  it.each([new Error(SECRET), SECRET, undefined, null, { code: "not_found" }])("%s is a plain 500", (error) => {
    const { answer, loudness } = failureFor(error);
    expect(JSON.parse(answer.body ?? "")).toStrictEqual({ code: 500, message: "internal error" });
    expect(loudness).toBe("error");
  });

  it("is loud where somebody must look, and quiet where the client is to blame", () => {
    const loud = (error: unknown): unknown => failureFor(error).loudness;
    expect(loud(new ScaleError("node_refused", "", { status: 401 }))).toBe("error");
    expect(loud(new ScaleError("claim_refused", "", { status: 403 }))).toBe("error");
    expect(loud(new ScaleError("node_failed", ""))).toBe("warn");
    expect(loud(new ScaleError("no_warm_capacity", ""))).toBe("warn");
    expect(loud(new ScaleError("aborted", ""))).toBe("debug");
    expect(loud(new E2bError("bad_request", ""))).toBeUndefined();
  });
});
