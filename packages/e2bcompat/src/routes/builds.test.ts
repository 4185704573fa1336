import { answers, fails } from "@org/scale/testing";
import { describe, expect, it, vi } from "vitest";
import { build, but, ended, HASH, request, run, site, start, status } from "../testing/build-site.ts";
import { createFleet, IMAGE, KEY_2 } from "../testing/fleet.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

describe("POST /v3/templates", () => {
  it("answers the six fields that clients need", async () => {
    const { fleet } = site();
    const reply = await fleet.send("POST", "/v3/templates", { name: "mine:v1", tags: ["v2", "v1"], cpuCount: 2 });
    expect([reply.status, reply.body]).toStrictEqual([
      202,
      {
        templateID: "mine",
        buildID: expect.stringMatching(UUID),
        public: true,
        names: ["mine", "mine:v1", "mine:v2"],
        tags: ["v1", "v2"],
        aliases: ["mine"],
      },
    ]);
    expect((await fleet.send("POST", "/v3/templates", { alias: "mine" })).body.templateID).toBe("mine");
    expect(fleet.nodes.calls).toStrictEqual([]);
  });

  it("says in the log that disk cannot be asked for", async () => {
    const { fleet } = site();
    const { logEntries } = (await status(fleet, await request(fleet, { minFreeDiskMb: 512 }))).body;
    expect(logEntries).toMatchObject([{ level: "warn", message: expect.stringContaining("minFreeDiskMb") }]);
  });

  it("makes another record for each request", async () => {
    const { fleet } = site();
    expect(await request(fleet)).not.toBe(await request(fleet));
  });

  it.each<[object, string]>([
    [{}, "name"],
    [{ name: "" }, "name"],
    [{ name: 7 }, "name"],
    [{ name: "a b" }, "at most 55 characters"],
    [{ name: "x".repeat(56) }, "at most 55 characters"],
    [{ name: "a/../b" }, "name"],
    [{ name: "mine:" }, "tags"],
    [{ name: "mine", tags: [""] }, "tags"],
    [{ name: "mine", tags: ["a b"] }, "tags"],
    [{ name: "mine", tags: Array.from({ length: 17 }, (_, index) => `v${index}`) }, "at most 16"],
    [{ name: "mine", cpuCount: 0 }, "cpuCount"],
    [{ name: "mine", memoryMB: 1.5 }, "memoryMB"],
    [{ name: "base" }, "pool image"],
    [{ name: IMAGE.replace(":", ".") + "x".repeat(60) }, "name"],
  ])("refuses %j", async (body, word) => {
    const { fleet } = site();
    const reply = await fleet.send("POST", "/v3/templates", body);
    expect([reply.status, reply.body.message]).toStrictEqual([400, expect.stringContaining(word)]);
  });
});

describe("without builds", () => {
  it.each([
    ["POST", "/v3/templates", { name: "mine" }],
    ["GET", `/templates/mine/files/${HASH}`, undefined],
    ["PUT", `/templates/mine/files/${HASH}?ns=ns1`, "x"],
    ["POST", "/v2/templates/mine/builds/x", { fromImage: IMAGE }],
    ["GET", "/templates/mine/builds/x/status", undefined],
    ["GET", "/templates/mine/builds/x/logs", undefined],
  ] as const)("%s %s is a 404 that says so", async (method, path, body) => {
    const fleet = createFleet({ envdSecret: "s" });
    const reply = await fleet.send(method, path, body);
    expect(reply.body).toStrictEqual({ code: 404, message: "template builds are off in this deployment" });
  });

  it("needs a secret for them", () => {
    expect(() => createFleet({ builds: {} })).toThrow("--e2b-envd-secret-file");
  });
});

describe("starting a build", () => {
  it.each<[string, object, string]>([
    ["no image", { fromImage: undefined }, "fromImage"],
    ["a blank image", { fromImage: " " }, "fromImage"],
    ["a built template for an image", { fromImage: "e2b/ns1/mine" }, "fromImage"],
    ["another template", { fromTemplate: "base" }, "fromTemplate"],
    ["a registry", { fromImageRegistry: { type: "registry" } }, "fromImageRegistry"],
    ["a malformed step", { steps: [{ type: "RUN", args: [] }] }, "step 1"],
    ["a step that is none", { steps: ["RUN"] }, "steps.0"],
  ])("refuses %s, and the build still waits", async (_what, body, word) => {
    const { fleet } = site();
    const buildId = await request(fleet);
    const reply = await start(fleet, buildId, body);
    expect([reply.status, reply.body.message]).toStrictEqual([400, expect.stringContaining(word)]);
    expect((await status(fleet, buildId)).body.status).toBe("waiting");
    expect(fleet.calls("claim")).toStrictEqual([]);
  });

  it("refuses COPY without an upload store, and names the flag", async () => {
    const { fleet } = site({ builds: {} });
    const steps = [{ type: "COPY", args: ["a", "b", "", ""], filesHash: HASH }];
    const reply = await start(fleet, await request(fleet), { steps });
    expect([reply.status, reply.body.message]).toStrictEqual([400, expect.stringContaining("--e2b-build-dir")]);
    expect((await fleet.send("GET", `/templates/mine/files/${HASH}`)).status).toBe(404);
  });

  it("knows a build under its own template, namespace and id alone", async () => {
    const { fleet } = site();
    const id = await request(fleet);
    const message = "build not found on this replica";
    for (const reply of [
      await start(fleet, "00000000-0000-4000-8000-000000000000"),
      await fleet.send("POST", `/v2/templates/other/builds/${id}`, { fromImage: IMAGE, steps: [] }),
      await fleet.send("POST", `/v2/templates/mine/builds/${id}`, { fromImage: IMAGE, steps: [] }, { key: KEY_2 }),
      await fleet.send("GET", `/templates/mine/builds/${id}/status`, undefined, { key: KEY_2 }),
      await fleet.send("GET", `/templates/mine/builds/${id}/logs`, undefined, { key: KEY_2 }),
    ]) {
      expect(reply.body).toStrictEqual({ code: 404, message });
    }
  });

  it("answers while the build runs, starts it once, and makes others wait for a slot", async () => {
    const { fleet } = site({
      play: but({ wait: { stays: true } }),
      builds: { parallel: 1 },
    });
    const [first, second] = [await request(fleet), await request(fleet)];
    expect((await start(fleet, first, { steps: [run("wait")] })).status).toBe(202);
    expect((await start(fleet, first, { steps: [run("wait")] })).status).toBe(202);
    const full = await start(fleet, second);
    expect([full.status, full.headers.get("retry-after"), full.body.code]).toStrictEqual([429, "10", 429]);
    expect((await status(fleet, second)).body.status).toBe("waiting");
    await vi.waitFor(() => expect(fleet.calls("claim")).toHaveLength(1));
    expect((await status(fleet, first)).body.status).toBe("building");
    // The end of the server ends the build, and its sandbox with it.
    await fleet.server.settled();
    expect((await status(fleet, first)).body.reason.message).toContain("the server is shutting down");
    expect(fleet.node.sandboxes).toStrictEqual([]);
    expect((await start(fleet, second)).status).toBe(202);
    expect((await ended(fleet, second)).body.status).toBe("ready");
  });
});

describe("a template that is deleted", () => {
  const DELETED = "the build was ended: its template was deleted";

  it("takes the build that runs along, and answers once its sandbox is released", async () => {
    const { fleet } = site({ play: but({ wait: { stays: true } }) });
    const buildId = await request(fleet);
    await start(fleet, buildId, { steps: [run("wait")] });
    await vi.waitFor(() => expect(fleet.calls("dialPort")).not.toHaveLength(0));
    expect((await fleet.send("DELETE", "/templates/mine", undefined, { key: KEY_2 })).status).toBe(404);
    expect((await status(fleet, buildId)).body.status).toBe("building");
    expect((await fleet.send("DELETE", "/templates/mine")).status).toBe(204);
    expect(fleet.node.sandboxes).toStrictEqual([]);
    const { body } = await status(fleet, buildId);
    expect([body.status, body.reason.message]).toStrictEqual(["error", `step 1 (RUN) failed: ${DELETED}`]);
    expect((await fleet.send("DELETE", "/templates/mine")).status).toBe(404);
    expect(fleet.calls("promote")).toStrictEqual([]);
  });

  it("takes a build along that nobody has started, which then cannot be started any more", async () => {
    const { fleet } = site();
    const [waiting, other] = [await request(fleet), await request(fleet, { name: "other" })];
    expect((await fleet.send("DELETE", "/templates/mine")).status).toBe(204);
    expect((await start(fleet, waiting)).status).toBe(202);
    expect((await status(fleet, waiting)).body).toMatchObject({ status: "error", reason: { message: DELETED } });
    expect((await fleet.send("GET", `/templates/other/builds/${other}/status`)).body.status).toBe("waiting");
    expect(fleet.calls("claim")).toStrictEqual([]);
  });

  it("is gone with what is being promoted at that moment", async () => {
    const { fleet } = site();
    await build(fleet);
    const promoted = Promise.withResolvers<void>();
    fleet.node.script("promote", async ({ id = "", name = "" }) => {
      await promoted.promise;
      return fleet.node.promote(id, name);
    });
    const buildId = await request(fleet);
    await start(fleet, buildId);
    await vi.waitFor(() => expect(fleet.calls("promote")).toHaveLength(2));
    const deleted = fleet.send("DELETE", "/templates/mine");
    promoted.resolve();
    expect((await deleted).status).toBe(204);
    expect(await fleet.node.templates()).toStrictEqual([]);
    expect(fleet.node.sandboxes).toStrictEqual([]);
    expect((await fleet.send("GET", "/templates/mine")).status).toBe(404);
  });
});

describe("the base of a build", () => {
  it.each<[object, object, object]>([
    [{ fromImage: IMAGE }, {}, { template: IMAGE, size: "small" }],
    [{ fromImage: "e2bdev/base" }, {}, { template: IMAGE, size: "large" }],
    [{ fromImage: "e2bdev/base" }, { cpuCount: 1 }, { template: IMAGE, size: "small" }],
    [{ fromImage: IMAGE }, { cpuCount: 1, memoryMB: 9000 }, { template: IMAGE, size: "large" }],
  ])("%j asked for with %j is %j", async (body, asked, pool) => {
    const { fleet } = site({ aliases: [{ alias: "e2bdev/base", image: IMAGE, size: "large" }] });
    expect((await build(fleet, body, asked)).body.status).toBe("ready");
    const [claim] = fleet.calls("claim");
    expect(claim?.claim).toMatchObject({ pool: { ...pool, net: "none" }, ttlSeconds: 60 });
    expect(claim?.claim?.claimRef).toMatch(/^ns1\/e2b-/);
  });

  it("must be warm somewhere, which the failure says", async () => {
    const { fleet } = site();
    const reply = await build(fleet, { fromImage: "other:1" }, { cpuCount: 2 });
    const message = "no warm sandbox of other:1 (none, medium); a pool must serve the build's image and size";
    expect(reply.body).toMatchObject({ status: "error", reason: { step: "base", message } });
    expect(reply.body.reason.logEntries).toMatchObject([{ level: "error", step: "base", message }]);
  });

  it("is waited for while its pool is being filled", async () => {
    const { fleet } = site({ pools: [{ template: IMAGE, net: "none", size: "small", warm: 0, target: 1 }] });
    const buildId = await request(fleet);
    await start(fleet, buildId);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect((await status(fleet, buildId)).body.status).toBe("building");
    const pools = [{ template: IMAGE, net: "none", size: "small", warm: 1, target: 1 }];
    fleet.source.put(fleet.node.inventory({ pools }));
    expect((await ended(fleet, buildId)).body.status).toBe("ready");
  });

  it("fails with the node's words when it refuses, and not with its name", async () => {
    const { fleet } = site();
    fleet.node.script("claim", answers(400, "quota of this tenant"));
    const reply = await build(fleet);
    expect(reply.body.reason).toMatchObject({ step: "base", message: "the node refused: quota of this tenant" });
    fleet.node.script("claim", fails({ kind: "uncertain", detail: "10.0.0.2 reset" }));
    expect((await build(fleet)).body.reason).toMatchObject({ step: "base", message: "the node of the build failed" });
  });
});

describe("the log of a build", () => {
  it("pages by offset until it is empty, at most a hundred lines at once", async () => {
    const stdout = Array.from({ length: 250 }, (_, index) => `line ${index}\n`).join("");
    const { fleet } = site({ play: but({ talk: { stdout, stderr: "oh\n" } }) });
    const buildId = await request(fleet);
    await start(fleet, buildId, { steps: [run("talk")] });
    await ended(fleet, buildId);
    const seen: { message: string; level: string; step: string }[] = [];
    for (let page = 0; page < 10; page += 1) {
      const { logEntries } = (await status(fleet, buildId, `?logsOffset=${seen.length}`)).body;
      expect(logEntries.length).toBeLessThanOrEqual(100);
      seen.push(...logEntries);
    }
    expect(seen.slice(0, 2).map(({ message }) => message)).toStrictEqual([`FROM ${IMAGE}`, "[1/1] RUN talk"]);
    expect(seen.filter(({ message }) => message.startsWith("line "))).toHaveLength(250);
    expect(seen.filter(({ level }) => level === "warn")).toMatchObject([{ message: "oh", step: "1" }]);
    const logs = await fleet.send("GET", `/templates/mine/builds/${buildId}/logs?direction=backward&limit=1`);
    expect(logs.body).toMatchObject({ logs: [{ message: "Done", step: "finalize", level: "info" }] });
    expect((await status(fleet, buildId, "?level=warn")).body.logEntries).toHaveLength(1);
  });

  it.each(["logsOffset=-1", "limit=x", "level=loud"])("refuses %s", async (query) => {
    const { fleet } = site();
    expect((await status(fleet, await request(fleet), `?${query}`)).status).toBe(400);
  });

  it("keeps so many lines", async () => {
    const { fleet } = site({ play: but({ talk: { stdout: "a\nb\nc\nd\n" } }), builds: { logLines: 3 } });
    const reply = await build(fleet, { steps: [run("talk")] });
    expect(reply.body.logEntries).toHaveLength(3);
  });

  it("is forgotten an hour after the end, and so is a build that nobody started", async () => {
    let now = Date.now();
    const { fleet } = site({ now: () => now });
    const [done, waiting] = [await request(fleet), await request(fleet)];
    await start(fleet, done);
    await ended(fleet, done);
    now += 3_599_000;
    expect([(await status(fleet, done)).status, (await status(fleet, waiting)).status]).toStrictEqual([200, 200]);
    now += 2000;
    expect([(await status(fleet, done)).status, (await status(fleet, waiting)).status]).toStrictEqual([404, 404]);
  });

  it("shows the values of variables to nobody, our own log least of all", async () => {
    const { fleet } = site({ play: but({ false: { exitCode: 1 } }) });
    const steps = [{ type: "ENV", args: ["TOKEN", "hunter2"] }, run("false")];
    const reply = await build(fleet, { steps });
    expect(reply.text + JSON.stringify(fleet.lines)).not.toContain("hunter2");
  });
});
