import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { answers } from "@org/scale/testing";
import { apiFixture, NODE, sandboxNamed, SANDBOXES } from "../testing/api-fixture.ts";
import type { ApiFixture } from "../testing/api-fixture.ts";

let fixture: ApiFixture;
beforeAll(async () => {
  fixture = await apiFixture();
});
afterAll(() => fixture[Symbol.asyncDispose]());

let made = 0;

async function held(): Promise<string> {
  const name = `gone-${(made += 1)}`;
  await fixture.call("POST", SANDBOXES, { body: sandboxNamed(name) });
  return name;
}

const releases = (): number => fixture.nodes.calls.filter(({ verb }) => verb === "release").length;

describe("a delete", () => {
  test("releases the sandbox, answers what it was, and hides it from every read at once", async () => {
    const name = await held();
    fixture.publish();
    const answer = await fixture.call("DELETE", `${SANDBOXES}/${name}`);
    expect(answer.status).toBe(200);
    expect(answer.json).toMatchObject({ kind: "Sandbox", metadata: { name, namespace: "team" } });
    expect((await fixture.call("GET", `${SANDBOXES}/${name}`)).status).toBe(404);
    expect((await fixture.call("GET", SANDBOXES)).text).not.toContain(`"${name}"`);
    const again = await fixture.call("DELETE", `${SANDBOXES}/${name}`);
    expect(again.json).toEqual({
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Failure",
      message: `sandboxes.agents.x-k8s.io "${name}" not found`,
      reason: "NotFound",
      details: { name, group: "agents.x-k8s.io", kind: "sandboxes" },
      code: 404,
    });
  });

  test.each<[string, object]>([
    ["no members", {}],
    ["what has no effect", { gracePeriodSeconds: 0, propagationPolicy: "Foreground" }],
    ["its kind", { kind: "DeleteOptions", apiVersion: "v1", orphanDependents: false }],
    ["null", { preconditions: null, dryRun: null, propagationPolicy: null }],
    ["members that later versions may have", { later: true }],
  ])("takes options with %s", async (_case, body) => {
    const name = await held();
    expect((await fixture.call("DELETE", `${SANDBOXES}/${name}`, { body })).status).toBe(200);
  });

  test.each<[string, object | undefined, string, number, string]>([
    ["a dry run", { dryRun: ["All"] }, "", 400, "dry-run is not supported"],
    ["a dry run in the query", undefined, "?dryRun=All", 400, "dry-run is not supported"],
    ["a dry run in the query beside a body", {}, "?dryRun=All", 400, "dry-run is not supported"],
    ["another dry run", { dryRun: ["Some"] }, "", 422, 'dryRun: Unsupported value: "Some"'],
    ["another policy", { propagationPolicy: "Never" }, "", 422, 'propagationPolicy: Unsupported value: "Never"'],
    ["another policy in the query", undefined, "?propagationPolicy=Never", 422, "propagationPolicy: Unsupported value"],
    ["two policies", { orphanDependents: true, propagationPolicy: "Orphan" }, "", 422, "cannot be both set"],
    [
      "two policies in the query",
      undefined,
      "?orphanDependents=true&propagationPolicy=Orphan",
      422,
      "cannot be both set",
    ],
    ["another kind", { kind: "Sandbox" }, "", 400, "expected a DeleteOptions"],
    ["a member of another type", { gracePeriodSeconds: "soon" }, "", 400, "gracePeriodSeconds: expected int64"],
    [
      "the uid of another",
      { preconditions: { uid: "other" } },
      "",
      409,
      "UID in precondition: other, UID in object meta: ",
    ],
    ["the uid of another in the query", undefined, "?uid=other", 409, "UID in precondition: other"],
    ["another version", { preconditions: { resourceVersion: "1" } }, "", 409, "ResourceVersion in precondition: 1"],
  ])("is refused without a release: %s", async (_case, body, query, code, message) => {
    const name = await held();
    const before = releases();
    const answer = await fixture.call("DELETE", `${SANDBOXES}/${name}${query}`, { body });
    expect(answer.json).toMatchObject({ kind: "Status", code });
    expect(answer.json["message"]).toContain(message);
    expect(releases()).toBe(before);
    expect((await fixture.call("GET", `${SANDBOXES}/${name}`)).status).toBe(200);
  });

  test("goes ahead when the preconditions hold", async () => {
    const name = await held();
    const { metadata } = (await fixture.call("GET", `${SANDBOXES}/${name}`)).json;
    const { uid, resourceVersion } = metadata as Readonly<Record<string, string>>;
    const body = { preconditions: { uid, resourceVersion } };
    expect((await fixture.call("DELETE", `${SANDBOXES}/${name}`, { body })).status).toBe(200);
  });

  test("does nothing by name alone", async () => {
    await using other = await apiFixture();
    other.node.hold({ entry: { name: "team/nameless", id: "", phase: "Running" }, archived: false });
    other.publish();
    const answer = await other.call("DELETE", `${SANDBOXES}/nameless`);
    expect(answer.json).toMatchObject({ code: 500, reason: "InternalError" });
    expect(answer.json["message"]).toContain("no claim id");
    expect(other.nodes.calls.filter(({ verb }) => verb === "release")).toEqual([]);
  });

  test("fails when the node does, without its words", async () => {
    const name = await held();
    fixture.node.script("release", answers(500, "disk 7 broke"), answers(500, "disk 7 broke"));
    const answer = await fixture.call("DELETE", `${SANDBOXES}/${name}`);
    expect(answer.json).toMatchObject({
      code: 500,
      message: "Internal error occurred: the sandbox's node failed to release",
    });
    expect(answer.text).not.toContain(NODE);
  });
});
