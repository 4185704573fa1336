import { answers, fails } from "@org/scale/testing";
import { describe, expect, it } from "vitest";
import { build, run, site } from "../testing/build-site.ts";
import { KEY_2 } from "../testing/fleet.ts";
import type { Fleet } from "../testing/fleet.ts";

const OTHER = "10.0.0.3:27777";

describe("publishing", () => {
  const digests = async (fleet: Fleet): Promise<readonly string[]> =>
    (await fleet.node.templates()).map(({ contentDigest }) => contentDigest);

  /** A second node that inventory shows, with a copy of the template that inventory does not. */
  async function withOther(fleet: Fleet, made: Date): Promise<ReturnType<Fleet["nodes"]["node"]>> {
    const other = fleet.nodes.node(OTHER);
    const row = { template: "e2b/ns1/mine", net: "none", size: "small", contentDigest: "sha256:old", tenant: "" };
    fleet.source.put(other.inventory());
    other.always("templates", () => [{ ...row, createdAt: made, labels: { gone: "sha256:old" } }]);
    return other;
  }

  it("shows the template and its tags at once, and sandboxes start from it", async () => {
    const { fleet } = site();
    await build(fleet, { steps: [run("true")] }, { name: "mine:v1", tags: ["v2", "default"] });
    const list = (await fleet.send("GET", "/templates")).body as { templateID: string; names: string[] }[];
    expect(list.find(({ templateID }) => templateID === "mine")?.names).toStrictEqual(["mine", "mine:v1", "mine:v2"]);
    const tags = (await fleet.send("GET", "/templates/mine/tags")).body as { tag: string; buildID: string }[];
    expect(tags.map(({ tag }) => tag)).toStrictEqual(["v1", "v2"]);
    const created = await fleet.send("POST", "/v2/sandboxes", { templateID: "mine:v1" });
    expect([created.status, created.body.templateID]).toStrictEqual([201, "mine"]);
    expect(fleet.calls("claim").at(-1)?.claim).toMatchObject({ requirePromoted: true });
    expect((await fleet.send("DELETE", `/sandboxes/${created.body.sandboxID}`)).status).toBe(204);
    expect((await fleet.send("GET", "/templates/mine", undefined, { key: KEY_2 })).status).toBe(404);
  });

  it("deletes an older copy that inventory does not show, with its tags", async () => {
    const { fleet } = site();
    await withOther(fleet, new Date(0));
    expect((await build(fleet, {}, { tags: ["v1"] })).body.status).toBe("ready");
    const deleted = fleet.calls("deleteTemplate");
    expect(deleted).toMatchObject([{ address: OTHER, digest: "sha256:old", key: { template: "e2b/ns1/mine" } }]);
    expect((await fleet.node.templates())[0]?.labels).toStrictEqual({ v1: (await digests(fleet))[0] });
  });

  it("leaves a newer copy alone", async () => {
    const { fleet } = site();
    await withOther(fleet, new Date(Date.now() + 60_000));
    const reply = await build(fleet);
    expect([reply.body.status, fleet.calls("deleteTemplate")]).toStrictEqual(["ready", []]);
    expect(reply.body.logEntries.at(-1)).toMatchObject({ level: "warn" });
  });

  it("fails when a node does not tell what it holds", async () => {
    const { fleet } = site();
    (await withOther(fleet, new Date(0))).always("templates", fails({ kind: "uncertain" }));
    const reply = await build(fleet);
    expect(reply.body.reason).toMatchObject({ step: "finalize", message: expect.stringContaining("not every node") });
  });

  it("fails when a node does not delete its copy", async () => {
    const { fleet } = site();
    (await withOther(fleet, new Date(0))).always("deleteTemplate", answers(500, "disk"));
    const reply = await build(fleet);
    expect(reply.body.reason).toMatchObject({ step: "finalize", message: expect.stringContaining("build again") });
    expect(JSON.stringify(reply.body)).not.toContain("disk");
  });

  it("fails with the node's words when it does not promote", async () => {
    const { fleet } = site();
    fleet.node.script("promote", answers(409, "template belongs to a configured pool"));
    const reply = await build(fleet);
    const message = "the node refused: template belongs to a configured pool";
    expect(reply.body.reason).toMatchObject({ step: "finalize", message });
  });

  it("goes to its end when the build's time is over in the middle of it", async () => {
    const { fleet } = site({ builds: { timeoutSeconds: 1 } });
    fleet.node.script("promote", async ({ id = "", name = "" }) => {
      // Longer than the whole build may take.
      await new Promise((resolve) => setTimeout(resolve, 1200));
      return fleet.node.promote(id, name);
    });
    expect((await build(fleet, {}, { tags: ["v1"] })).body.status).toBe("ready");
    expect((await fleet.node.templates())[0]?.labels).toHaveProperty("v1");
  });
});
