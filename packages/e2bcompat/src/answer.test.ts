import { expect, it } from "vitest";
import { empty, failure, toResponse } from "./answer.ts";

it("an empty answer says that it is empty, unless 204 says so already", () => {
  expect(toResponse(empty(202)).headers.get("content-length")).toBe("0");
  expect(toResponse(empty(200)).headers.get("content-length")).toBe("0");
  expect(toResponse(empty(204)).headers.has("content-length")).toBe(false);
});

it("a failure has its status in its body, as JSON", async () => {
  const response = toResponse(failure(409, "no", { "x-more": "1" }));
  expect(response.status).toBe(409);
  expect(response.headers.get("content-type")).toBe("application/json");
  expect(response.headers.get("x-more")).toBe("1");
  expect(await response.json()).toStrictEqual({ code: 409, message: "no" });
});
