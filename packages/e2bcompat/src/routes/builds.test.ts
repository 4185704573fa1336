import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { answers, fails } from "@org/scale/testing";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { buildDaemon } from "../testing/build-daemon.ts";
import type { BuildDaemon, Ran, RanCommand } from "../testing/build-daemon.ts";
import { createFleet, IMAGE, KEY_2 } from "../testing/fleet.ts";
import type { Fleet, FleetOptions, Reply } from "../testing/fleet.ts";

const HASH = "ab".repeat(32);
const OTHER = "10.0.0.3:27777";
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "builds-"));
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

interface Site {
  readonly fleet: Fleet;
  readonly daemon: BuildDaemon;
}

interface SiteOptions extends FleetOptions {
  readonly play?: (command: RanCommand) => Ran | undefined;
  readonly keepsBoot?: boolean;
}

/** A fleet with builds on, whose guests play commands. Nothing of it may be left when the test ends. */
function site({ play = usual, keepsBoot, ...options }: SiteOptions = {}): Site {
  const fleet = createFleet({
    envdSecret: "s3cret",
    builds: { uploads: { directory, maxBytes: 16 } },
    ...options,
  });
  onTestFinished(() => fleet.server.settled());
  return { fleet, daemon: buildDaemon(fleet.node, play, keepsBoot === undefined ? {} : { keepsBoot }) };
}

/** Users are there, and the environment has a home. */
function usual({ text, args }: RanCommand): Ran | undefined {
  if (text === "env -0") {
    return { stdout: "HOME=/home/user\0PATH=/bin\0" };
  }
  return text.includes("useradd") ? { stdout: `${args[0]}\n` } : undefined;
}

/** What plays first, and the usual for the rest. */
const but =
  (texts: Readonly<Record<string, Ran>>) =>
  (command: RanCommand): Ran | undefined =>
    texts[command.text] ?? usual(command);

async function request(fleet: Fleet, body: object = {}): Promise<string> {
  const reply = await fleet.send("POST", "/v3/templates", { name: "mine", ...body });
  expect(reply.status).toBe(202);
  return reply.body.buildID as string;
}

function start(fleet: Fleet, buildId: string, body: object = {}): Promise<Reply> {
  return fleet.send("POST", `/v2/templates/mine/builds/${buildId}`, { fromImage: IMAGE, steps: [], ...body });
}

function status(fleet: Fleet, buildId: string, query = ""): Promise<Reply> {
  return fleet.send("GET", `/templates/mine/builds/${buildId}/status${query}`);
}

/** Waits for the end and gives the last status. */
async function ended(fleet: Fleet, buildId: string): Promise<Reply> {
  return vi.waitFor(
    async () => {
      const reply = await status(fleet, buildId);
      expect(["ready", "error"]).toContain(reply.body.status);
      return reply;
    },
    { timeout: 20_000, interval: 10 },
  );
}

async function build(fleet: Fleet, body: object = {}, asked: object = {}): Promise<Reply> {
  const buildId = await request(fleet, asked);
  const started = await start(fleet, buildId, body);
  expect([started.status, started.text, started.headers.get("content-length")]).toStrictEqual([202, "", "0"]);
  const reply = await ended(fleet, buildId);
  // In every case.
  expect(fleet.node.sandboxes).toStrictEqual([]);
  return reply;
}

const run = (...args: readonly string[]): object => ({ type: "RUN", args, force: false });

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
    expect(claim?.claim).toMatchObject({ pool: { ...pool, net: "none" }, ttlSeconds: 1800 });
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

describe("steps", () => {
  it("carry user, folder and variables on, and leave them to the template", async () => {
    const { fleet, daemon } = site();
    const reply = await build(fleet, {
      steps: [
        run("one"),
        { type: "ENV", args: ["A", "1", "P", "/opt:$PATH"] },
        { type: "WORKDIR", args: ["app"] },
        run("two", "root"),
        { type: "USER", args: ["worker"] },
        run("three"),
      ],
      startCmd: "serve",
      readyCmd: "ready",
    });
    expect(reply.body).toMatchObject({ status: "ready", logs: [] });
    expect(reply.body).not.toHaveProperty("reason");
    const own = daemon.ran.filter(({ text }) => ["one", "two", "three", "serve", "ready"].includes(text));
    const relay = expect.objectContaining({ http_proxy: "http://127.0.0.1:3128" });
    const envs = expect.objectContaining({ A: "1", P: "/opt:/bin", https_proxy: "http://127.0.0.1:3128" });
    expect(own).toMatchObject([
      { text: "one", user: "user", cwd: "/home/user", envs: relay },
      { text: "two", user: "root", cwd: "/home/user/app", envs },
      { text: "three", user: "worker", cwd: "/home/user/app", envs },
      { text: "serve", user: "worker", cwd: "/home/user/app", envs },
      { text: "ready", user: "worker", cwd: "/home/user/app", envs },
    ]);
    const scripts = daemon.ran.filter(({ user, args }) => user === "root" && args.length > 0);
    expect(scripts.map(({ args }) => args)).toStrictEqual([
      ["/home/user/app", "user"],
      ["worker", ""],
    ]);
    expect(daemon.inits).toStrictEqual([
      { defaultUser: "worker", defaultWorkdir: "/home/user/app", envVars: envs, timestamp: expect.any(String) },
    ]);
    expect(daemon.boots).toMatchObject([
      { user: "worker", workdir: "/home/user/app", environment: envs, startCommand: "serve", readyCommand: "ready" },
    ]);
    expect(fleet.calls("promote")).toMatchObject([{ name: "e2b/ns1/mine" }]);
    // Over the sandbox's own relay, which keeps it awake.
    expect(fleet.calls("dialPort").every(({ token }) => token !== "")).toBe(true);
  });

  it("copy what was uploaded, as root", async () => {
    const { fleet, daemon } = site();
    const link = await fleet.send("GET", `/templates/mine/files/${HASH}`);
    const { pathname, search } = new URL(link.body.url as string);
    expect((await fleet.send("PUT", pathname + search, "archive")).status).toBe(200);
    const copy = (...args: readonly string[]): object => ({ type: "COPY", args, filesHash: HASH });
    const steps = [copy("a", "b", "", ""), copy("d/*.{js,ts}", "/srv/", "x:y", "0644"), copy("./e/", ".", "", "")];
    expect((await build(fleet, { steps })).body.status).toBe("ready");
    const file = { target: `/files?path=%2Ftmp%2F${HASH}.tar&username=root`, content: "archive" };
    expect(daemon.files).toStrictEqual([file, file, file]);
    const archive = `/tmp/${HASH}.tar`;
    expect(daemon.ran.filter(({ args }) => args.length > 0).map(({ args }) => args)).toStrictEqual([
      [archive, "a", "plain", "/home/user/b", "user", ""],
      [archive, "d/*.@(js|ts)", "glob", "/srv/", "x:y", "0644"],
      [archive, "e", "plain", "/home/user/", "user", ""],
    ]);
  });

  it.each<[string, Ran, string]>([
    ["a code", { exitCode: 1 }, '"false" exited with code 1'],
    ["a signal", { killed: true }, '"false" was ended: signal: killed'],
    ["a refusal", { refused: "cwd '/x' does not exist" }, "the sandbox refused: cwd '/x' does not exist"],
    [
      "a lost node",
      { breaks: true },
      "the sandbox of the build does not answer: it has ended, or its node cannot be reached",
    ],
  ])("end the build with %s, and name the step", async (_what, ran, why) => {
    const { fleet } = site({ play: but({ false: ran }) });
    const reply = await build(fleet, { steps: [run("true"), run("true"), run("false"), run("true")] });
    const message = `step 3 (RUN) failed: ${why}`;
    expect(reply.body).toMatchObject({ status: "error", reason: { step: "3", message } });
    expect(reply.body.logEntries.at(-1)).toMatchObject({ level: "error", message, step: "3" });
    expect(fleet.calls("promote")).toStrictEqual([]);
  });

  it.each<[string, object, string]>([
    [
      "a file that was not uploaded",
      { type: "COPY", args: ["a", "b"], filesHash: HASH },
      "step 1 (COPY) failed: the files were not uploaded",
    ],
    [
      "another form of variable",
      { type: "ENV", args: ["A", "${B%x}"] },
      'step 1 (ENV) failed: "${B%x}" is not supported',
    ],
    ["a user that cannot be made", { type: "USER", args: ["nobody-there"] }, "step 1 (USER) failed: no such user"],
  ])("end the build for %s", async (_what, step, message) => {
    const play = ({ text }: RanCommand): Ran =>
      text.includes("useradd") ? { exitCode: 1, stderr: "no such user\n" } : { stdout: "" };
    const { fleet } = site({ play });
    const reply = await build(fleet, { steps: [step] });
    expect(reply.body.reason).toMatchObject({ step: "1", message: expect.stringContaining(message) });
  });

  it("end when the build takes too long", async () => {
    const { fleet } = site({ play: but({ wait: { stays: true } }), builds: { timeoutSeconds: 1 } });
    const reply = await build(fleet, { steps: [run("wait")] });
    expect(reply.body.reason).toMatchObject({ step: "1", message: expect.stringContaining("--e2b-build-timeout") });
    expect(fleet.calls("claim")[0]?.claim?.ttlSeconds).toBe(1);
  });

  it("are all undone by a release that is tried even when the node does not answer", async () => {
    const { fleet } = site({ play: but({ false: { breaks: true } }) });
    fleet.node.script("release", fails({ kind: "uncertain" }));
    const buildId = await request(fleet);
    await start(fleet, buildId, { steps: [run("false")] });
    expect((await ended(fleet, buildId)).body.status).toBe("error");
    // Its lease ends it, which the log tells the operator.
    expect(fleet.calls("release")).toHaveLength(1);
    expect(fleet.lines.filter(({ level }) => level === "error").map(({ message }) => message)).toStrictEqual([
      "an uncollected sandbox could not be released",
    ]);
  });
});

describe("the start command", () => {
  it("is waited for, a ready command after the other", async () => {
    let tries = 0;
    const { fleet, daemon } = site({
      play: (command) => {
        if (command.text === "ready") {
          tries += 1;
          return { exitCode: tries < 3 ? 1 : 0 };
        }
        return command.text === "serve" ? { stays: true } : usual(command);
      },
    });
    expect((await build(fleet, { startCmd: "serve", readyCmd: "ready" })).body.status).toBe("ready");
    expect(tries).toBe(3);
    expect(daemon.boots).toHaveLength(1);
  });

  it.each(["ready", undefined])("ends the build when it fails before it is ready (%s)", async (readyCmd) => {
    const { fleet } = site({ play: but({ serve: { exitCode: 127 }, ready: { exitCode: 1 } }) });
    const reply = await build(fleet, { startCmd: "serve", readyCmd });
    expect(reply.body.reason).toMatchObject({
      step: "finalize",
      message: 'the start command failed: "serve" exited with code 127',
    });
    expect(fleet.calls("promote")).toStrictEqual([]);
  });

  it("may end well, having left something behind", async () => {
    const { fleet } = site();
    expect((await build(fleet, { startCmd: "daemonise", readyCmd: "true" })).body.status).toBe("ready");
  });

  it("brings no ready command along that only waits, and needs no daemon that keeps it", async () => {
    const { fleet, daemon } = site({ keepsBoot: false });
    expect((await build(fleet, { startCmd: "serve", readyCmd: "sleep 20" })).body.status).toBe("ready");
    expect(daemon.boots).toMatchObject([{ startCommand: "serve" }]);
    expect(daemon.boots[0]).not.toHaveProperty("readyCommand");
  });
});

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

  it("ends with the build's time when a node is silent", async () => {
    const { fleet } = site({ builds: { timeoutSeconds: 1 } });
    const late = Promise.withResolvers<never>();
    fleet.node.script("promote", () => late.promise);
    const reply = await build(fleet);
    expect(reply.body.reason).toMatchObject({ step: "finalize", message: expect.stringContaining("took longer") });
    late.reject(new Error("gone"));
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

describe("uploads", () => {
  const path = `/templates/mine/files/${HASH}`;

  async function link(fleet: Fleet): Promise<string> {
    const { body } = await fleet.send("GET", path);
    const { pathname, search } = new URL(body.url as string);
    return pathname + search;
  }

  /** As a client does: without a key. */
  const put = (fleet: Fleet, target: string, body = "archive"): Promise<Reply> =>
    fleet.send("PUT", target, body, { key: "" });

  it("go to the address that was given out, and are present then", async () => {
    const { fleet } = site();
    const first = await fleet.send("GET", path);
    expect([first.status, first.body]).toStrictEqual([
      201,
      { present: false, url: expect.stringMatching(new RegExp(`^http://localhost${path}\\?ns=ns1&expires=\\d+&sig=`)) },
    ]);
    const stored = await put(fleet, await link(fleet));
    expect([stored.status, stored.text, stored.headers.get("content-length")]).toStrictEqual([200, "", "0"]);
    const second = await fleet.send("GET", path);
    expect([second.status, second.body]).toStrictEqual([201, { present: true }]);
    expect((await fleet.send("GET", path, undefined, { key: KEY_2 })).body.present).toBe(false);
  });

  it("use https where the client did", async () => {
    const { fleet } = site();
    const headers = { "x-forwarded-proto": "https, http" };
    expect((await fleet.send("GET", path, undefined, { headers })).body.url).toMatch(/^https:\/\/localhost\//);
  });

  it("over the bound are a 413 and leave nothing", async () => {
    const { fleet } = site();
    const target = await link(fleet);
    expect((await put(fleet, target, "0123456789abcdefg")).body).toMatchObject({ code: 413 });
    expect(await readdir(directory, { recursive: true })).not.toContainEqual(expect.stringMatching(/tar/));
    expect((await put(fleet, target, "0123456789abcdef")).status).toBe(200);
    expect((await fleet.send("GET", path)).body).toStrictEqual({ present: true });
  });

  it.each<[string, (target: string) => string, number]>([
    ["another hash", (target) => target.replace(HASH, "cd".repeat(32)), 401],
    ["another name", (target) => target.replace("/mine/", "/mine2/"), 401],
    ["another namespace", (target) => target.replace("ns=ns1", "ns=ns2"), 401],
    ["a later time", (target) => target.replace(/expires=\d+/, "expires=99999999999"), 401],
    ["no signature", (target) => target.replace(/&sig=\w+/, ""), 401],
    ["no query", (target) => target.replace(/\?.*/, ""), 401],
    ["a bad hash", (target) => target.replace(HASH, "abc"), 400],
    ["a way out of the folder", (target) => target.replace("/mine/", "/a%2F..%2Fb/"), 400],
    ["a namespace that is a path", (target) => target.replace("ns=ns1", "ns=.."), 400],
  ])("with %s are refused", async (_what, change, code) => {
    const { fleet } = site();
    const reply = await put(fleet, change(await link(fleet)));
    expect([reply.status, reply.body.code]).toStrictEqual([code, code]);
    expect(await readdir(directory)).toStrictEqual([]);
  });

  it("are refused once the address has expired", async () => {
    let now = Date.now();
    const { fleet } = site({ now: () => now });
    const target = await link(fleet);
    now += 3_602_000;
    expect((await put(fleet, target)).status).toBe(401);
  });

  it.each(["abc", "AB".repeat(32), `${HASH}0`])("have no address for the hash %s", async (hash) => {
    const { fleet } = site();
    expect((await fleet.send("GET", `/templates/mine/files/${hash}`)).status).toBe(400);
    expect((await fleet.send("GET", `/templates/a%2F..%2Fb/files/${HASH}`)).status).toBe(400);
    expect((await fleet.send("GET", path, undefined, { key: "" })).status).toBe(401);
  });
});
