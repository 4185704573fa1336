import { ScaleError } from "@org/scale";
import type { ScaleErrorCode, ScaleErrorDetails } from "@org/scale";
import { describe, expect, test } from "vitest";
import { statusBody } from "./api-status.ts";
import { scaleStatus } from "./scale-status.ts";

const WORDS = "node 10.0.0.9 broke";

const rows: readonly (readonly [ScaleErrorCode, ScaleErrorDetails, number, string, string])[] = [
  ["no_warm_capacity", {}, 503, "ServiceUnavailable", WORDS],
  ["routing_disabled", {}, 500, "InternalError", "Internal error occurred: this server cannot reach its nodes"],
  ["claim_refused", { status: 400, nodeMessage: "bad template" }, 400, "BadRequest", "bad template"],
  ["claim_refused", { status: 404, nodeMessage: "no such template" }, 404, "NotFound", "no such template"],
  [
    "claim_refused",
    { status: 401, nodeMessage: "x" },
    500,
    "InternalError",
    "Internal error occurred: the sandbox's node failed",
  ],
  [
    "claim_failed",
    { verb: "claim" },
    500,
    "InternalError",
    "Internal error occurred: the sandbox's node failed to claim",
  ],
  ["not_found", {}, 404, "NotFound", 'sandboxes.agents.x-k8s.io "box" not found'],
  ["not_found", { unanswered: 2 }, 404, "NotFound", 'sandboxes.agents.x-k8s.io "box" not found'],
  ["node_refused", { status: 400, nodeMessage: "too many" }, 400, "BadRequest", "too many"],
  ["node_refused", { status: 404, nodeMessage: "gone" }, 404, "NotFound", 'sandboxes.agents.x-k8s.io "box" not found'],
  [
    "node_refused",
    { status: 409, nodeMessage: "busy" },
    409,
    "Conflict",
    'Operation cannot be fulfilled on sandboxes.agents.x-k8s.io "box": busy',
  ],
  ["node_refused", { status: 418 }, 418, "BadRequest", "the node refused the request"],
  ["node_refused", { status: 422, nodeMessage: "no" }, 422, "Invalid", "no"],
  ["node_refused", { status: 429, nodeMessage: "later" }, 429, "TooManyRequests", "later"],
  [
    "node_refused",
    { status: 403, nodeMessage: "x", verb: "pause" },
    500,
    "InternalError",
    "Internal error occurred: the sandbox's node failed to pause",
  ],
  [
    "node_failed",
    { status: 503, nodeMessage: "x", verb: "fork" },
    500,
    "InternalError",
    "Internal error occurred: the sandbox's node failed to fork",
  ],
  ["bad_request", {}, 400, "BadRequest", WORDS],
  ["aborted", {}, 504, "Timeout", "Timeout: request did not complete within the allotted timeout"],
];

describe("a failure of the store", () => {
  test.each(rows)("%s %j", (code, details, status, reason, message) => {
    const error = scaleStatus(new ScaleError(code, WORDS, details), "box");
    expect(statusBody(error)).toMatchObject({ kind: "Status", status: "Failure", code: status, reason, message });
    expect(error.cause).toBeInstanceOf(ScaleError);
    expect(error.retryAfterSeconds).toBe(status === 503 || status === 429 ? 1 : undefined);
  });

  test("has a rule for every code", () => {
    const codes: Readonly<Record<ScaleErrorCode, true>> = {
      no_warm_capacity: true,
      routing_disabled: true,
      claim_refused: true,
      claim_failed: true,
      not_found: true,
      node_refused: true,
      node_failed: true,
      bad_request: true,
      aborted: true,
    };
    expect(new Set(rows.map(([code]) => code))).toEqual(new Set(Object.keys(codes)));
  });
});
