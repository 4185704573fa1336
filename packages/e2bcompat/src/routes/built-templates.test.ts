import type { PromotedTemplate } from "@org/scale";
import { answers, fails } from "@org/scale/testing";
import type { ScriptedNode } from "@org/scale/testing";
import { describe, expect, it, vi } from "vitest";
import { buildIdOf } from "../build-id.ts";
import { createFleet, IMAGE, KEY_2, NODE } from "../testing/fleet.ts";
import type { Fleet } from "../testing/fleet.ts";

const OTHER = "10.0.0.3:27777";

interface Built {
  readonly fleet: Fleet;
  readonly other: ScriptedNode;
  /** Digest of the build that both nodes hold. */
  readonly digest: string;
  readonly publish: () => void;
}

/** A fleet whose two nodes hold `mine` of `ns1`; inventory shows it. */
async function built(): Promise<Built> {
  const fleet = createFleet();
  const other = fleet.nodes.node(OTHER);
  const digest = await promoteOn(fleet.node, "sb_00000000000000aa", "mine");
  await promoteOn(other, "sb_00000000000000aa", "mine");
  const publish = (): void => {
    fleet.publish();
    fleet.source.put(other.inventory());
  };
  publish();
  fleet.nodes.calls.length = 0;
  return { fleet, other, digest, publish };
}

/** Makes a template of a sandbox on a node. Equal ids give equal digests. */
async function promoteOn(node: ScriptedNode, id: string, name: string, size = "small"): Promise<string> {
  const entry = { name: `ns1/${id}`, id, phase: "Running", template: IMAGE, net: "none", size } as const;
  node.hold({ archived: false, token: "t", entry });
  const { contentDigest } = await node.promote(id, `e2b/ns1/${name}`);
  node.lose(id);
  return contentDigest;
}

async function labelsOn(node: ScriptedNode): Promise<readonly PromotedTemplate["labels"][]> {
  return (await node.templates()).map((row) => row.labels);
}

async function tagsOf(fleet: Fleet, name = "mine"): Promise<unknown> {
  return (await fleet.send("GET", `/templates/${name}/tags`)).body;
}

const ROUTES: readonly (readonly [string, string, object | undefined])[] = [
  ["GET", "/templates/NAME", undefined],
  ["PATCH", "/templates/NAME", undefined],
  ["PATCH", "/v2/templates/NAME", { public: true }],
  ["GET", "/templates/NAME/tags", undefined],
];

describe.each(ROUTES)("%s %s", (method, pattern, body) => {
  const path = (name: string): string => pattern.replace("NAME", encodeURIComponent(name));

  it("is a 404 for a name that nobody knows, and for another namespace's", async () => {
    const { fleet } = await built();
    expect((await fleet.send(method, path("never-built"), body)).body).toMatchObject({ code: 404 });
    expect((await fleet.send(method, path("mine"), body, { key: KEY_2 })).body).toMatchObject({ code: 404 });
    expect((await fleet.send(method, path("e2b/ns1/mine"), body)).body).toMatchObject({ code: 404 });
  });

  it.each([IMAGE, "base"])("is a 404 for %s, and says what it is instead", async (name) => {
    const { fleet } = await built();
    const message = expect.stringContaining("is a pool image, not a built template");
    expect((await fleet.send(method, path(name), body)).body).toMatchObject({ code: 404, message });
  });

  it.each(["x".repeat(60), "a b", "ä"])("is a 400 for %j, which no template can be called", async (name) => {
    const { fleet } = await built();
    const message = expect.stringContaining("at most 55 characters");
    expect((await fleet.send(method, path(name), body)).body).toMatchObject({ code: 400, message });
  });

  it("is a 500 when inventory fails", async () => {
    const { fleet } = await built();
    vi.spyOn(fleet.source, "nodeCapacities").mockImplementation(() => {
      throw new Error("inventory is down");
    });
    expect((await fleet.send(method, path("mine"), body)).body).toMatchObject({ code: 500 });
  });
});

describe("GET /templates/{id}", () => {
  it("has every field the clients parse, and one build for each digest, the common one first", async () => {
    const { fleet, digest, publish } = await built();
    const third = fleet.nodes.node("10.0.0.4:27777");
    const replaced = await promoteOn(third, "sb_00000000000000bb", "mine", "medium");
    publish();
    fleet.source.put(third.inventory());
    const reply = await fleet.send("GET", "/templates/mine");
    expect(reply.status).toBe(200);
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/) as string;
    const build = {
      status: "ready",
      createdAt: time,
      updatedAt: time,
      finishedAt: time,
      diskSizeMB: 0,
      envdVersion: "0.8.0",
    };
    expect(reply.body).toStrictEqual({
      templateID: "mine",
      public: true,
      aliases: ["mine"],
      names: ["mine"],
      createdAt: time,
      updatedAt: time,
      lastSpawnedAt: null,
      spawnCount: 0,
      builds: [
        { ...build, buildID: buildIdOf(digest), cpuCount: 1, memoryMB: 512 },
        { ...build, buildID: buildIdOf(replaced), cpuCount: 2, memoryMB: 1024 },
      ],
    });
  });

  it("is found under a name with slashes, encoded into one segment", async () => {
    const { fleet } = await built();
    await promoteOn(fleet.node, "sb_00000000000000cc", "team/web");
    fleet.publish();
    expect((await fleet.send("GET", "/templates/team%2Fweb")).body).toMatchObject({ templateID: "team/web" });
  });
});

describe("PATCH", () => {
  it.each([undefined, "null", {}, { public: true }, { public: false }])("takes %j", async (body) => {
    const { fleet } = await built();
    const first = await fleet.send("PATCH", "/templates/mine", body);
    expect([first.status, first.text, first.headers.get("content-length")]).toStrictEqual([200, "", "0"]);
    const second = await fleet.send("PATCH", "/v2/templates/mine", body);
    expect([second.status, second.body]).toStrictEqual([200, { names: ["mine"] }]);
    expect(fleet.nodes.calls).toHaveLength(0);
  });

  it.each(["{", { public: "yes" }, "[]"])("refuses %j before it looks for the template", async (body) => {
    const { fleet } = await built();
    expect((await fleet.send("PATCH", "/templates/never-built", body)).status).toBe(400);
    expect((await fleet.send("PATCH", "/v2/templates/never-built", body)).status).toBe(400);
  });
});

describe("tags", () => {
  it("are written to every holder as a whole, and shown at once", async () => {
    const { fleet, other, digest } = await built();
    expect(await tagsOf(fleet)).toStrictEqual([]);
    const reply = await fleet.send("POST", "/templates/tags", { target: "mine", tags: ["v1", "stable", "v1"] });
    expect(reply.status).toBe(201);
    expect(reply.body).toStrictEqual({ tags: ["v1", "stable"], buildID: buildIdOf(digest) });
    const labels = { v1: digest, stable: digest };
    expect(await labelsOn(fleet.node)).toStrictEqual([labels]);
    expect(await labelsOn(other)).toStrictEqual([labels]);
    // Inventory shows nothing of it yet.
    expect(await tagsOf(fleet)).toStrictEqual(
      ["stable", "v1"].map((tag) => ({
        tag,
        buildID: buildIdOf(digest),
        createdAt: expect.stringMatching(/Z$/) as string,
      })),
    );
    const templates = (await fleet.send("GET", "/templates")).body as { templateID: string; names: string[] }[];
    expect(templates.find((one) => one.templateID === "mine")?.names).toStrictEqual(["mine", "mine:stable", "mine:v1"]);
  });

  it("are given to the build that another tag names", async () => {
    const { fleet, other, digest, publish } = await built();
    await fleet.send("POST", "/templates/tags", { target: "mine", tags: ["v1"] });
    publish();
    const replaced = await promoteOn(other, "sb_00000000000000bb", "mine", "medium");
    publish();
    expect(replaced).not.toBe(digest);
    const reply = await fleet.send("POST", "/templates/tags", { target: "mine:v1", tags: ["old"] });
    expect(reply.body).toStrictEqual({ tags: ["old"], buildID: buildIdOf(digest) });
  });

  it.each(["mine", "mine:default"])("are given to the current build for %s", async (target) => {
    const { fleet, digest } = await built();
    const reply = await fleet.send("POST", "/templates/tags", { target, tags: ["v1", "default"] });
    expect(reply.body).toStrictEqual({ tags: ["v1", "default"], buildID: buildIdOf(digest) });
    expect(await labelsOn(fleet.node)).toStrictEqual([{ v1: digest }]);
  });

  it("keep what another process wrote meanwhile", async () => {
    const { fleet, other, digest } = await built();
    for (const node of [fleet.node, other]) {
      await node.setTemplateLabels({ template: "e2b/ns1/mine" }, { theirs: digest }, undefined);
    }
    await fleet.send("POST", "/templates/tags", { target: "mine:theirs", tags: ["ours"] });
    expect(await labelsOn(other)).toStrictEqual([{ theirs: digest, ours: digest }]);
  });

  it("whose digest nobody holds any more are not shown, and go with the next write", async () => {
    const { fleet, other, digest, publish } = await built();
    for (const node of [fleet.node, other]) {
      await node.setTemplateLabels({ template: "e2b/ns1/mine" }, { dead: "sha256:gone", v1: digest }, undefined);
    }
    publish();
    expect(await tagsOf(fleet)).toMatchObject([{ tag: "v1" }]);
    expect((await fleet.send("POST", "/templates/tags", { target: "mine:dead", tags: ["x"] })).status).toBe(404);
    await fleet.send("DELETE", "/templates/tags", { name: "mine", tags: ["v1"] });
    expect(await labelsOn(fleet.node)).toStrictEqual([{}]);
  });

  it("are removed from every holder; an unknown one is a 404 and nothing is removed", async () => {
    const { fleet, other, digest } = await built();
    await fleet.send("POST", "/templates/tags", { target: "mine", tags: ["a", "b", "c"] });
    const removed = await fleet.send("DELETE", "/templates/tags", { name: "mine", tags: ["a", "b"] });
    expect([removed.status, removed.text]).toStrictEqual([204, ""]);
    expect(await labelsOn(other)).toStrictEqual([{ c: digest }]);
    expect((await fleet.send("DELETE", "/templates/tags", { name: "mine", tags: ["c", "a"] })).status).toBe(404);
    expect(await tagsOf(fleet)).toMatchObject([{ tag: "c" }]);
  });

  it.each([
    ["POST", {}],
    ["POST", undefined],
    ["POST", { target: "mine" }],
    ["POST", { target: "mine", tags: [] }],
    ["POST", { target: "mine", tags: [""] }],
    ["POST", { target: "mine", tags: ["a:b"] }],
    ["POST", { target: "mine", tags: ["a b"] }],
    ["POST", { target: "mine", tags: [7] }],
    ["POST", { target: "mine", tags: "v1" }],
    ["DELETE", {}],
    ["DELETE", { name: "mine", tags: [] }],
    ["DELETE", { name: "mine", tags: ["default"] }],
    ["DELETE", { tags: ["v1"] }],
  ])("are refused for %s with %j", async (method, body) => {
    const { fleet } = await built();
    expect((await fleet.send(method, "/templates/tags", body)).body).toMatchObject({ code: 400 });
    expect(fleet.nodes.calls).toHaveLength(0);
  });

  it.each([
    ["POST", { target: "never-built", tags: ["x"] }],
    ["POST", { target: "mine:nope", tags: ["x"] }],
    ["POST", { target: "base", tags: ["x"] }],
    ["DELETE", { name: "never-built", tags: ["x"] }],
    ["DELETE", { name: IMAGE, tags: ["x"] }],
  ])("are a 404 for %s with %j", async (method, body) => {
    const { fleet } = await built();
    expect((await fleet.send(method, "/templates/tags", body)).body).toMatchObject({ code: 404 });
    expect(fleet.calls("setTemplateLabels")).toHaveLength(0);
  });

  it("of another namespace are not there", async () => {
    const { fleet } = await built();
    const send = (method: string, body: object) => fleet.send(method, "/templates/tags", body, { key: KEY_2 });
    expect((await send("POST", { target: "mine", tags: ["x"] })).status).toBe(404);
    expect((await send("DELETE", { name: "mine", tags: ["x"] })).status).toBe(404);
    expect(fleet.nodes.calls).toHaveLength(0);
  });

  it("do not move `default` to another build", async () => {
    const { fleet, other, digest, publish } = await built();
    const third = fleet.nodes.node("10.0.0.4:27777");
    const minor = await promoteOn(third, "sb_00000000000000bb", "mine");
    await third.setTemplateLabels({ template: "e2b/ns1/mine" }, { beta: minor }, undefined);
    publish();
    fleet.source.put(third.inventory());
    const reply = await fleet.send("POST", "/templates/tags", { target: "mine:beta", tags: ["default"] });
    expect(reply.body).toMatchObject({ code: 400, message: expect.stringContaining("default") });
    expect(await labelsOn(other)).toStrictEqual([undefined]);
    expect(digest).not.toBe(minor);
  });

  it("are not written while a holder does not say what it holds", async () => {
    const { fleet, other } = await built();
    other.script("templates", fails({ kind: "unsent" }));
    expect((await fleet.send("POST", "/templates/tags", { target: "mine", tags: ["x"] })).body).toMatchObject({
      code: 500,
    });
    expect(fleet.calls("setTemplateLabels")).toHaveLength(0);
  });

  it.each([
    [400, 400],
    [500, 500],
    [403, 500],
  ])("that a holder answers with %d are a %d, and a retry reaches it", async (status, expected) => {
    const { fleet, other, digest } = await built();
    other.script("setTemplateLabels", answers(status, "why"));
    const body = { target: "mine", tags: ["x"] };
    expect((await fleet.send("POST", "/templates/tags", body)).body).toMatchObject({ code: expected });
    expect((await fleet.send("POST", "/templates/tags", body)).status).toBe(201);
    expect(await labelsOn(other)).toStrictEqual([{ x: digest }]);
  });

  it("pass over a holder that lost the template, and are a 404 when all have", async () => {
    const { fleet, other } = await built();
    await other.deleteTemplate({ template: "e2b/ns1/mine" }, undefined);
    const body = { target: "mine", tags: ["x"] };
    expect((await fleet.send("POST", "/templates/tags", body)).status).toBe(201);
    fleet.node.script("setTemplateLabels", answers(404, "unknown template"));
    expect((await fleet.send("POST", "/templates/tags", body)).status).toBe(404);
    await fleet.node.deleteTemplate({ template: "e2b/ns1/mine" }, undefined);
    expect((await fleet.send("POST", "/templates/tags", body)).status).toBe(404);
  });
});

describe("DELETE /templates/{id} of a built template", () => {
  it("deletes it on every holder: 204, then 404, and it is gone at once", async () => {
    const { fleet, other, publish } = await built();
    expect((await fleet.send("DELETE", "/templates/mine")).status).toBe(204);
    expect(
      fleet
        .calls("deleteTemplate")
        .map((call) => call.address)
        .toSorted(),
    ).toStrictEqual([NODE, OTHER].toSorted());
    expect([await fleet.node.templates(), await other.templates()]).toStrictEqual([[], []]);
    for (const round of ["before", "after"]) {
      expect((await fleet.send("GET", "/templates/aliases/mine")).status, round).toBe(404);
      expect((await fleet.send("DELETE", "/templates/mine")).status, round).toBe(404);
      publish();
    }
  });

  it("deletes every size of it", async () => {
    const { fleet } = await built();
    await promoteOn(fleet.node, "sb_00000000000000bb", "mine", "medium");
    fleet.publish();
    expect((await fleet.send("DELETE", "/templates/mine")).status).toBe(204);
    expect(await fleet.node.templates()).toStrictEqual([]);
  });

  it.each([409, 412, 500])("is a 500 when one holder answers %d; a retry deletes the rest", async (status) => {
    const { fleet, other } = await built();
    other.script("deleteTemplate", answers(status, "secret words"));
    const reply = await fleet.send("DELETE", "/templates/mine");
    expect(reply.body).toMatchObject({ code: 500 });
    expect(reply.text).not.toContain("secret words");
    expect(fleet.calls("checkpoints")).toHaveLength(0);
    expect((await fleet.send("DELETE", "/templates/mine")).status).toBe(204);
    expect(await other.templates()).toStrictEqual([]);
  });

  it("is a 404 for a pool image, an alias, and another namespace's", async () => {
    const { fleet } = await built();
    expect((await fleet.send("DELETE", "/templates/base")).status).toBe(404);
    expect((await fleet.send("DELETE", `/templates/${encodeURIComponent(IMAGE)}`)).status).toBe(404);
    expect((await fleet.send("DELETE", "/templates/mine", undefined, { key: KEY_2 })).status).toBe(404);
    expect(fleet.calls("deleteTemplate")).toHaveLength(0);
  });

  it("shows one that was built anew after inventory saw the delete", async () => {
    const { fleet, publish } = await built();
    await fleet.send("DELETE", "/templates/mine");
    publish();
    await promoteOn(fleet.node, "sb_00000000000000bb", "mine");
    publish();
    expect((await fleet.send("GET", "/templates/mine")).status).toBe(200);
  });
});

describe("a create from a built template", () => {
  const create = (fleet: Fleet, templateID: string, more: object = {}) =>
    fleet.send("POST", "/v2/sandboxes", { templateID, ...more });

  it.each(["mine", "mine:default", "mine:v1"])("claims %s from its holders alone", async (asked) => {
    const { fleet } = await built();
    await fleet.send("POST", "/templates/tags", { target: "mine", tags: ["v1"] });
    const reply = await create(fleet, asked);
    expect(reply.status).toBe(201);
    expect(reply.body).toMatchObject({ templateID: "mine" });
    expect(fleet.calls("claim").at(-1)?.claim).toMatchObject({
      pool: { template: "e2b/ns1/mine", net: "none", size: "small" },
      requirePromoted: true,
    });
  });

  it.each(["mine:nope", "mine:", "never-built:v1", ":v1"])("is a 404 for %s", async (asked) => {
    const { fleet } = await built();
    expect((await create(fleet, asked)).body).toMatchObject({ code: 404 });
    expect(fleet.calls("claim")).toHaveLength(0);
  });

  it("refuses internet access", async () => {
    const { fleet } = await built();
    const reply = await create(fleet, "mine:default", { allow_internet_access: true });
    expect(reply.body).toMatchObject({ code: 400, message: expect.stringContaining("allow_internet_access") });
  });

  it("takes the size of the build that a tag names", async () => {
    const { fleet, other, publish } = await built();
    const large = await promoteOn(other, "sb_00000000000000bb", "mine", "medium");
    await other.setTemplateLabels({ template: "e2b/ns1/mine", size: "medium" }, { big: large }, undefined);
    publish();
    expect((await create(fleet, "mine:big")).status).toBe(201);
    expect(fleet.calls("claim").at(-1)?.claim?.pool).toMatchObject({ size: "medium" });
  });

  it("is a 503 for a tag while holders disagree, since a claim cannot choose", async () => {
    const { fleet, other, digest, publish } = await built();
    await promoteOn(other, "sb_00000000000000bb", "mine");
    await fleet.node.setTemplateLabels({ template: "e2b/ns1/mine" }, { v1: digest }, undefined);
    publish();
    const reply = await create(fleet, "mine:v1");
    expect(reply.body).toMatchObject({ code: 503 });
    expect(reply.headers.get("retry-after")).toBe("1");
    expect((await create(fleet, "mine")).status).toBe(201);
  });

  it("is found by its name and tag under /templates/aliases", async () => {
    const { fleet } = await built();
    await fleet.send("POST", "/templates/tags", { target: "mine", tags: ["v1"] });
    for (const asked of ["mine", "mine:v1", "mine:default"]) {
      const reply = await fleet.send("GET", `/templates/aliases/${asked}`);
      expect(reply.body).toStrictEqual({ templateID: "mine", public: true });
    }
    expect((await fleet.send("GET", "/templates/aliases/mine:nope")).status).toBe(404);
  });
});
