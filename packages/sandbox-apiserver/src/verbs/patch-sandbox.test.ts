import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Authorizer } from "../security.ts";
import { apiFixture, sandboxNamed, SANDBOXES } from "../testing/api-fixture.ts";
import type { ApiFixture, FixtureAnswer } from "../testing/api-fixture.ts";

let fixture: ApiFixture;
beforeAll(async () => {
  fixture = await apiFixture();
  await fixture.call("POST", SANDBOXES, { body: sandboxNamed("box") });
});
afterAll(() => fixture[Symbol.asyncDispose]());

const APPLY = "application/apply-patch+yaml";
const MERGE = "application/merge-patch+json";

const patch = (
  name: string,
  body: object | string,
  type = MERGE,
  query = type === APPLY ? "?fieldManager=test" : "",
): Promise<FixtureAnswer> =>
  fixture.call("PATCH", `${SANDBOXES}/${name}${query}`, { body, headers: { "content-type": type } });

const verbs = (): readonly string[] => fixture.nodes.calls.map(({ verb }) => verb);
const writes = (): readonly string[] =>
  verbs().filter((verb) => ["claim", "renew", "hibernate", "wake", "release"].includes(verb));

describe("a merge patch", () => {
  test.each([MERGE, "application/strategic-merge-patch+json"])("pauses and resumes by the mode (%s)", async (type) => {
    const paused = await patch("box", { spec: { operatingMode: "Suspended" } }, type);
    expect(paused.status).toBe(200);
    expect(paused.json["status"]).toMatchObject({ conditions: [{ status: "False" }] });
    expect(writes().at(-1)).toBe("hibernate");
    const resumed = await patch("box", { spec: { operatingMode: "Running" } }, type);
    expect(resumed.json["status"]).toMatchObject({ conditions: [{ status: "True" }] });
    expect(writes().at(-1)).toBe("wake");
  });

  test("renews by the end, rounded up, before it changes the mode", async () => {
    const spec = { shutdownTime: "2026-11-30T10:20:00.5Z", operatingMode: "Suspended" };
    const answer = await patch("box", { apiVersion: "agents.x-k8s.io/v1beta1", kind: "Sandbox", spec });
    expect(answer.status).toBe(200);
    expect(writes().slice(-2)).toEqual(["renew", "hibernate"]);
    expect(fixture.nodes.calls.findLast(({ verb }) => verb === "renew")?.lease).toEqual({ ttlSeconds: 1201 });
    await patch("box", { spec: { operatingMode: "Running" } });
  });

  test.each<[string, object]>([
    ["nothing", {}],
    ["members as they are", { metadata: { name: "box", namespace: "team" }, spec: { podTemplate: { metadata: {} } } }],
  ])("of %s does nothing", async (_case, body) => {
    const before = writes().length;
    expect((await patch("box", body)).status).toBe(200);
    expect(writes()).toHaveLength(before);
  });

  test.each<[string, object, number, string]>([
    ["a label", { metadata: { labels: { a: "b" } } }, 422, "metadata.labels.a"],
    ["an annotation", { metadata: { annotations: { a: "b" } } }, 422, "metadata.annotations.a"],
    ["the claim id", { metadata: { annotations: { "sandbox.cocoonstack.io/claim-id": "sb_x" } } }, 422, "claim-id"],
    ["a finalizer", { metadata: { finalizers: ["a/b"] } }, 422, "metadata.finalizers"],
    ["the name", { metadata: { name: "other" } }, 422, "metadata.name"],
    [
      "the pod",
      { spec: { podTemplate: { spec: { containers: [{ image: "x" }] } } } },
      422,
      "spec.podTemplate.spec.containers",
    ],
    ["all of the specification", { spec: null }, 422, "spec"],
    ["the status", { status: { nodeName: "other" } }, 422, "status.nodeName"],
    ["an unknown mode", { spec: { operatingMode: "Off" } }, 422, "spec.operatingMode"],
    ["no mode", { spec: { operatingMode: null } }, 422, "spec.operatingMode"],
    ["no end", { spec: { shutdownTime: null } }, 422, "spec.shutdownTime"],
    ["an end that is none", { spec: { shutdownTime: "soon" } }, 422, "spec.shutdownTime"],
    ["an end that is over", { spec: { shutdownTime: "2026-11-30T09:00:00Z" } }, 400, "in the past"],
    [
      "a mode together with a label",
      { spec: { operatingMode: "Suspended" }, metadata: { labels: { a: "b" } } },
      422,
      "metadata.labels.a",
    ],
    ["another kind", { kind: "Pod" }, 400, "expected a Sandbox"],
    ["another's uid", { metadata: { uid: "other" }, spec: { operatingMode: "Suspended" } }, 409, "UID in precondition"],
    [
      "an old version",
      { metadata: { resourceVersion: "1" }, spec: { operatingMode: "Suspended" } },
      409,
      "ResourceVersion in precondition",
    ],
  ])("of %s changes nothing", async (_case, body, code, message) => {
    const before = writes().length;
    const answer = await patch("box", body);
    expect(answer.json).toMatchObject({ kind: "Status", code });
    expect(answer.json["message"]).toContain(message);
    expect(writes()).toHaveLength(before);
  });

  test("shows the sandbox that it changed, also when its name has two, or it is gone right behind it", async () => {
    await using other = await apiFixture();
    await other.call("POST", SANDBOXES, { body: sandboxNamed("twin") });
    await other.call("POST", SANDBOXES, { body: sandboxNamed("twin") });
    const uidOf = ({ json }: FixtureAnswer): unknown => (json["metadata"] as { uid: string }).uid;
    const uid = uidOf(await other.call("GET", `${SANDBOXES}/twin`));
    const suspend = (): Promise<FixtureAnswer> =>
      other.call("PATCH", `${SANDBOXES}/twin`, {
        body: { spec: { operatingMode: "Suspended" } },
        headers: { "content-type": MERGE },
      });
    const paused = await suspend();
    expect(uidOf(paused)).toBe(uid);
    expect(paused.json["status"]).toMatchObject({ conditions: [{ status: "False" }] });
    other.node.script("hibernate", async ({ id = "" }) => {
      const [sandbox] = other.store.list().filter((one) => one.id === id);
      await other.store.release(sandbox?.node ?? "", id);
    });
    const gone = await suspend();
    expect(gone.status).toBe(200);
    expect(uidOf(gone)).toBe(uid);
    expect(other.node.sandboxes).toHaveLength(1);
  });

  test("of an unknown sandbox, of another type, or as a dry run is refused", async () => {
    expect((await patch("none", {})).json).toMatchObject({ code: 404 });
    expect((await patch("box", "[]", "application/json-patch+json")).json).toMatchObject({ code: 415 });
    expect((await patch("box", {}, "application/json")).json).toMatchObject({ code: 415 });
    expect((await patch("box", {}, MERGE, "?dryRun=All")).json).toMatchObject({ code: 400 });
    expect((await patch("box", {}, MERGE, "?dryRun=1")).json["message"]).toContain("PatchOptions.meta.k8s.io");
    expect((await patch("box", "{")).json).toMatchObject({ code: 400 });
  });
});

describe("a server-side apply", () => {
  test.each(["yaml", "json"])("claims a sandbox while the name is free, and only then (%s)", async (format) => {
    const name = `applied-${format}`;
    const yaml = `apiVersion: agents.x-k8s.io/v1beta1\nkind: Sandbox\nmetadata:\n  name: ${name}\nspec:\n  podTemplate:\n    spec:\n      containers:\n      - image: "rt:24.04"\n`;
    const body = format === "yaml" ? yaml : sandboxNamed(name);
    const answer = await patch(name, body, APPLY);
    expect(answer.status).toBe(201);
    expect(answer.json).toMatchObject({ kind: "Sandbox", metadata: { name, namespace: "team" } });
    const before = writes().length;
    const again = await patch(name, body, APPLY);
    expect(again.json).toMatchObject({ code: 409, reason: "AlreadyExists", details: { name } });
    expect(writes()).toHaveLength(before);
  });

  test("needs the permission to create as well", async () => {
    const authorizer: Authorizer = {
      authorize: (_user, { verb }) => Promise.resolve(verb === "create" ? "no_opinion" : "allow"),
    };
    await using other = await apiFixture({ authorizer });
    const answer = await other.call("PATCH", `${SANDBOXES}/box?fieldManager=test`, {
      body: sandboxNamed("box"),
      headers: { "content-type": APPLY },
    });
    expect(answer.json).toMatchObject({ code: 403, reason: "Forbidden", details: { name: "box" } });
    expect(answer.json["message"]).toContain('User "alice" cannot create resource "sandboxes"');
    expect(other.nodes.calls).toEqual([]);
  });

  test("takes the name of the path", async () => {
    const { spec } = sandboxNamed("");
    expect((await patch("by-path", { spec: spec as object }, APPLY)).json["metadata"]).toMatchObject({
      name: "by-path",
    });
  });

  test.each<[string, object, string, number, string]>([
    ["without a manager", sandboxNamed("x"), "", 422, "fieldManager: Required value"],
    ["as a dry run", sandboxNamed("x"), "?fieldManager=t&dryRun=All", 400, "dry-run"],
    ["under another name", sandboxNamed("y"), "?fieldManager=t", 400, "does not match the name on the URL"],
    [
      "with an unknown field, strictly",
      { ...sandboxNamed("x"), a: 1 },
      "?fieldManager=t&fieldValidation=Strict",
      400,
      'unknown field "a"',
    ],
    ["of another kind", { kind: "Pod" }, "?fieldManager=t", 400, "expected a Sandbox"],
  ])("%s is refused", async (_case, body, query, code, message) => {
    const before = writes().length;
    const answer = await patch("x", body, APPLY, query);
    expect(answer.json).toMatchObject({ code });
    expect(answer.json["message"]).toContain(message);
    expect(writes()).toHaveLength(before);
  });
});
