import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { answers } from "@org/scale/testing";
import { apiFixture, NODE, sandboxNamed, SANDBOXES } from "../testing/api-fixture.ts";
import type { ApiFixture, FixtureAnswer } from "../testing/api-fixture.ts";

let fixture: ApiFixture;
beforeAll(async () => {
  fixture = await apiFixture();
  await fixture.call("POST", SANDBOXES, { body: sandboxNamed("box") });
});
afterAll(() => fixture[Symbol.asyncDispose]());

const post = (verb: string, body: object | string = {}, query = ""): Promise<FixtureAnswer> =>
  fixture.call("POST", `${SANDBOXES}/box/${verb}${query}`, { body });
const GROUP_VERSION = "agents.x-k8s.io/v1beta1";

describe("a subresource", () => {
  test("pauses and resumes, as often as one likes", async () => {
    for (const verb of ["pause", "pause", "resume", "resume"]) {
      const answer = await post(verb);
      const kind = verb === "pause" ? "SandboxPauseOptions" : "SandboxResumeOptions";
      expect(answer.status).toBe(201);
      expect(answer.json).toEqual({ kind, apiVersion: GROUP_VERSION });
      const read = await fixture.call("GET", `${SANDBOXES}/box`);
      const status = verb === "pause" ? "False" : "True";
      expect(read.json["status"]).toMatchObject({ conditions: [{ type: "Ready", status }] });
    }
  });

  test.each([
    [{}, 1],
    [{ count: 0 }, 1],
    [{ count: 3, ttlSeconds: 60, kind: "SandboxForkOptions", apiVersion: GROUP_VERSION }, 3],
  ])("forks by %j", async (body, count) => {
    const answer = await post("fork", body);
    expect(answer.status).toBe(201);
    expect(answer.json).toMatchObject({ kind: "SandboxForkResult", apiVersion: GROUP_VERSION });
    const children = answer.json["children"] as readonly Record<string, string>[];
    expect(children).toHaveLength(count);
    for (const child of children) {
      expect(child).toMatchObject({ nodeName: NODE, address: NODE, token: expect.stringMatching(/./) as string });
      const read = await fixture.call("GET", `${SANDBOXES}/${child["sandboxID"]}`);
      expect(read.status).toBe(200);
    }
  });

  test("makes snapshots under names of the namespace, which are shown without it", async () => {
    const answer = await post("snapshot", { name: "before" });
    expect(answer.status).toBe(201);
    expect(answer.json).toMatchObject({ kind: "SandboxSnapshotResult", name: "before", nodeName: NODE });
    expect(answer.json["snapshotID"]).toMatch(/^ck_/);
    expect(answer.json["creationTimestamp"]).toMatch(/^\d{4}-.*:\d\dZ$/);
    expect(fixture.nodes.calls.at(-1)).toMatchObject({ verb: "checkpoint", name: "team/before" });
    expect((await post("snapshot")).json).not.toHaveProperty("name");
  });

  test.each<[string, object | string, string, number, string]>([
    ["pause", {}, "?dryRun=All", 400, "dry-run is not supported"],
    ["pause", "", "?dryRun=All", 400, "dry-run is not supported"],
    ["pause", {}, "?dryRun=1", 422, "CreateOptions.meta.k8s.io"],
    ["pause", "", "", 400, "is empty, expected a SandboxPauseOptions"],
    ["pause", { kind: "SandboxResumeOptions" }, "", 400, "expected a SandboxPauseOptions"],
    ["resume", { apiVersion: "v1" }, "", 400, "expected a SandboxResumeOptions"],
    ["fork", { count: -1 }, "", 400, "count must be a non-negative integer"],
    ["fork", { count: 1.5 }, "", 400, "count: expected int32"],
    ["fork", { count: "2" }, "", 400, "count: expected int32"],
    ["fork", { ttlSeconds: -1 }, "", 400, "ttlSeconds must be a non-negative integer"],
    ["fork", { count: 17 }, "", 400, "invalid fork count: 17"],
    ["fork", { counts: 2 }, "?fieldValidation=Strict", 400, 'unknown field "counts"'],
    ["snapshot", { name: "n".repeat(80) }, "", 400, "name"],
  ])("%s refuses %j%s", async (verb, body, query, code, message) => {
    const answer = await post(verb, body, query);
    expect(answer.json).toMatchObject({ kind: "Status", code });
    expect(answer.json["message"]).toContain(message);
  });

  test("keeps the status of a node that refuses, and hides that of one that fails", async () => {
    fixture.node.script("hibernate", answers(409, "busy"), answers(429, "later"), answers(502, "inner words"));
    expect((await post("pause")).json).toMatchObject({ code: 409, reason: "Conflict" });
    const limited = await post("pause");
    expect(limited.json).toMatchObject({ code: 429, reason: "TooManyRequests", message: "later" });
    expect(limited.headers["retry-after"]).toBe("1");
    const failed = await post("pause");
    expect(failed.json).toMatchObject({ code: 500, reason: "InternalError" });
    expect(failed.text).not.toContain("inner words");
  });

  test("is unknown, or of an unknown sandbox", async () => {
    expect((await post("renew")).json).toMatchObject({ code: 404, details: {} });
    expect((await fixture.call("POST", `${SANDBOXES}/none/pause`, { body: {} })).json).toMatchObject({
      code: 404,
      message: 'sandboxes.agents.x-k8s.io "none" not found',
    });
    expect((await fixture.call("GET", `${SANDBOXES}/box/pause`)).json).toMatchObject({ code: 405, details: {} });
  });
});
