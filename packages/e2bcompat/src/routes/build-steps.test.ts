import { answers, fails } from "@org/scale/testing";
import { describe, expect, it } from "vitest";
import type { Ran, RanCommand } from "../testing/build-daemon.ts";
import { build, but, ended, HASH, request, run, site, start, usual } from "../testing/build-site.ts";

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

  it("end when the sandbox is gone although its connection stays open", async () => {
    const { fleet } = site({ play: but({ wait: { stays: true } }), builds: { timeoutSeconds: 2 } });
    fleet.node.script("renew", answers(404, "no such sandbox"));
    const reply = await build(fleet, { steps: [run("wait")] });
    const message =
      "step 1 (RUN) failed: the sandbox of the build does not answer: it has ended, or its node cannot be reached";
    expect(reply.body.reason).toMatchObject({ step: "1", message });
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
