import assert from "node:assert/strict";
import { chmod, mkdir, mkdtemp, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { LogEntry, TemplateClass } from "e2b-2.51";

import { rejects, type Row, type RowContext } from "./context.ts";

/** The folder that templates copy from. One for the process: the system removes it with its other leftovers. */
let folder: Promise<string> | undefined;

function files(): Promise<string> {
  folder ??= (async () => {
    const dir = await mkdtemp(join(tmpdir(), "conformance-template-"));
    await mkdir(join(dir, "app", "deep"), { recursive: true });
    await writeFile(join(dir, "app", "main.txt"), "main\n");
    await writeFile(join(dir, "app", "deep", ".hidden"), "hidden\n");
    await symlink("main.txt", join(dir, "app", "link"));
    await writeFile(join(dir, "run.sh"), "echo ran\n");
    await chmod(join(dir, "run.sh"), 0o755);
    await writeFile(join(dir, "one.log"), "1\n");
    await writeFile(join(dir, "two.log"), "2\n");
    return dir;
  })();
  return folder;
}

/** Names are one namespace's: each client and run has its own. */
function nameOf(context: RowContext, what: string): string {
  return `${context.job.client.replace(".", "-")}-${what}`;
}

async function build(
  context: RowContext,
  template: TemplateClass,
  name: string,
  more: { tags?: string[]; key?: string } = {},
): Promise<LogEntry[]> {
  const lines: LogEntry[] = [];
  const { key, ...options } = more;
  const onBuildLogs = (line: LogEntry): void => void lines.push(line);
  await context.sdk.Template.build(template, name, { ...context.options(key), ...options, onBuildLogs });
  return lines;
}

/** What builds claimed and did not give back. Namespace `ns3` is used by no other row at this time. */
async function leftOver(context: RowContext): Promise<string[]> {
  const rows = await Promise.all(context.nodes.map((node) => node.sandboxes()));
  return rows
    .flat()
    .filter((row) => row.claim_ref?.startsWith("ns3/"))
    .map((row) => row.id);
}

async function run(context: RowContext, template: string, command: string): Promise<string> {
  const sandbox = await context.create({ template });
  const { stdout } = await sandbox.commands.run(command);
  await sandbox.kill();
  return stdout;
}

/** Template builds, §9 of the control-plane contract. */
export const buildRows: Readonly<Record<string, Row>> = {
  T1: async (context) => {
    const { Template, waitForFile } = context.sdk;
    const template = Template({ fileContextPath: await files() })
      .fromBaseImage()
      .setEnvs({ STAGE: "test", WHERE: "$HOME/x" })
      .runCmd("echo built-$STAGE > ~/built.txt; echo to-out; echo to-err >&2")
      .runCmd("id -un > /opt/by-root", { user: "root" })
      .copy("app", "/srv/app")
      .setUser("worker")
      .setWorkdir("/srv/work")
      .runCmd("id -un > who; pwd >> who")
      .setStartCmd("echo up > /tmp/up-$STAGE; exec sleep 100000", waitForFile("/tmp/up-test"));
    const lines = await build(context, template, nameOf(context, "full"), { tags: ["v1"] });
    const text = lines.map(({ message }) => message).join("\n");
    for (const part of ["[2/7] RUN echo built", "to-out", "to-err", "[4/7] COPY app /srv/app", "Done"]) {
      assert.ok(text.includes(part), `the log has ${part}: ${text.slice(0, 800)}`);
    }
    assert.ok(lines.every(({ timestamp }) => !Number.isNaN(timestamp.getTime())));
  },

  T2: async (context) => {
    const sandbox = await context.create({ template: nameOf(context, "full") });
    context.share(sandbox);
    const { stdout } = await sandbox.commands.run(
      "id -un; pwd; echo $STAGE $WHERE; cat who /home/user/built.txt /opt/by-root /srv/app/main.txt " +
        "/srv/app/deep/.hidden; readlink /srv/app/link; stat -c %U /srv/app/deep /srv/work /opt/by-root; " +
        "cat /tmp/up-test; pgrep -u worker -x sleep | wc -l",
    );
    assert.deepEqual(stdout.trim().split("\n"), [
      "worker",
      "/srv/work",
      "test /home/user/x",
      "worker",
      "/srv/work",
      "built-test",
      "root",
      "main",
      "hidden",
      "main.txt",
      "user",
      "worker",
      "root",
      "up",
      "1",
    ]);
    const info = await sandbox.getInfo();
    assert.equal(info.templateId, nameOf(context, "full"));
    assert.equal((await context.onNode(sandbox.sandboxId)).key.net, "none");
  },

  T3: async (context) => {
    const sandbox = await context.create({ template: nameOf(context, "full"), envs: { STAGE: "own", MORE: "1" } });
    const { stdout } = await sandbox.commands.run("echo $STAGE $WHERE $MORE; id -un; cat /tmp/up-*");
    assert.deepEqual(stdout.trim().split("\n"), ["own /home/user/x 1", "worker", "up"]);
    await sandbox.kill();
  },

  T4: async (context) => {
    const { Template } = context.sdk;
    const name = nameOf(context, "full");
    const tags = async (): Promise<string[]> =>
      (await Template.getTags(name, context.options())).map(({ tag }) => tag).toSorted();
    assert.deepEqual(await tags(), ["v1"]);
    const assigned = await Template.assignTags(`${name}:v1`, ["stable", "v1-0"], context.options());
    assert.match(assigned.buildId, /^[0-9a-f-]{36}$/);
    assert.deepEqual(await tags(), ["stable", "v1", "v1-0"]);
    assert.equal(await run(context, `${name}:stable`, "cat ~user/built.txt"), "built-test\n");
    await Template.removeTags(name, ["v1", "v1-0"], context.options());
    assert.deepEqual(await tags(), ["stable"]);
    assert.equal(await Template.exists(name, context.options()), true);
    assert.equal(await Template.exists(nameOf(context, "none"), context.options()), false);
  },

  T5: async (context) => {
    const { Template } = context.sdk;
    const template = Template({ fileContextPath: await files() })
      .fromBaseImage()
      .copy("run.sh", "/srv/");
    const uploads = async (): Promise<string> =>
      (await build(context, template, nameOf(context, "again"))).map(({ message }) => message).join("\n");
    assert.match(await uploads(), /Uploaded 'run.sh'/);
    assert.match(await uploads(), /Skipping upload of 'run.sh', already cached/);
    assert.equal(await run(context, nameOf(context, "again"), "/srv/run.sh 2>/dev/null || sh /srv/run.sh"), "ran\n");
  },

  T6: async (context) => {
    const { Template, BuildError } = context.sdk;
    const lines: string[] = [];
    const template = Template().fromBaseImage().runCmd("true").runCmd("echo last-words >&2; exit 3").runCmd("true");
    const onBuildLogs = ({ message }: LogEntry): void => void lines.push(message);
    const options = { ...context.options(context.rig.keys.three), onBuildLogs };
    const error = await rejects(Template.build(template, nameOf(context, "bad"), options), BuildError);
    assert.equal(error.message, 'step 2 (RUN) failed: "echo last-words >&2; exit 3" exited with code 3');
    assert.match(error.stack ?? "", /build-rows\.ts/);
    assert.ok(lines.includes("last-words"), lines.join("\n"));
    assert.equal(await Template.exists(nameOf(context, "bad"), options), false);
    assert.deepEqual(await leftOver(context), []);
  },

  T7: async (context) => {
    const { Template, BuildError } = context.sdk;
    const options = context.options(context.rig.keys.three);
    const name = nameOf(context, "bad");
    for (const [template, message] of [
      [Template().fromImage("nobody/serves:this"), /no warm sandbox of nobody\/serves:this \(none, \w+\); a pool must/],
      [Template().fromTemplate("base"), /fromTemplate/],
      [Template().fromBaseImage().setEnvs({ A: "${B%x}" }), /step 1 \(ENV\) failed: .*not supported/],
      [Template().fromBaseImage().setUser("a:nogroup"), /step 1 \(USER\) failed: .*group nogroup/],
      [Template().fromBaseImage().setStartCmd("exit 7", "false"), /start command failed: "exit 7" exited with code 7/],
    ] as const) {
      await rejects(Template.build(template, name, options), BuildError, message);
    }
    await rejects(Template.build(Template().fromBaseImage(), "a b", options), BuildError, /characters of/);
    assert.equal(await Template.exists(name, options), false);
    assert.deepEqual(await leftOver(context), []);
  },

  T8: async (context) => {
    const { Template } = context.sdk;
    const name = nameOf(context, "twice");
    for (const text of ["first", "second"]) {
      await build(context, Template().fromBaseImage().runCmd(`echo ${text} > ~/text`), name);
      assert.equal(await run(context, name, "cat ~/text"), `${text}\n`);
    }
    const reply = await context.raw("GET", `/templates/${name}`);
    assert.equal((reply.body as { builds: unknown[] }).builds.length, 1);
  },

  T9: async (context) => {
    const { Template } = context.sdk;
    const name = nameOf(context, "copy");
    const template = Template({ fileContextPath: await files() })
      .fromBaseImage()
      .setWorkdir("/srv/c")
      .copy("run.sh", "renamed.sh")
      .copy("run.sh", "into/")
      .copy("*.log", "logs")
      .copy("app", "over")
      .copy("app/deep", "over/more", { user: "root" })
      .copy("one.log", "/srv/c/mode", { mode: 0o600 });
    await build(context, template, name);
    const found = await run(context, name, "find . -not -type d -printf '%P %m %u\\n' | LC_ALL=C sort");
    assert.deepEqual(found.trim().split("\n"), [
      "into/run.sh 755 user",
      "logs/one.log 644 user",
      "logs/two.log 644 user",
      "mode 600 user",
      "over/deep/.hidden 644 user",
      "over/link 777 user",
      "over/main.txt 644 user",
      "over/more/.hidden 644 root",
      "renamed.sh 755 user",
    ]);
  },

  T10: async (context) => {
    const { Template } = context.sdk;
    const template = Template().fromBaseImage().runCmd("seq 1 250; sleep 1");
    const started = await Template.buildInBackground(template, nameOf(context, "quiet"), context.options());
    const seen: string[] = [];
    for (;;) {
      const options = { ...context.options(), logsOffset: seen.length };
      const { status, logEntries } = await Template.getBuildStatus(started, options);
      seen.push(...logEntries.map(({ message }) => message));
      assert.notEqual(status, "error");
      if (status === "ready" && logEntries.length === 0) {
        break;
      }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const numbers = seen.filter((line) => /^\d+$/.test(line)).map(Number);
    assert.deepEqual(
      numbers,
      Array.from({ length: 250 }, (_, index) => index + 1),
    );
  },

  T12: async (context) => {
    const { Template } = context.sdk;
    const name = nameOf(context, "full");
    const others = context.options(context.rig.keys.two);
    assert.equal(await Template.exists(name, others), false);
    assert.equal((await context.raw("GET", `/templates/${name}`, { key: context.rig.keys.two })).status, 404);
    for (const what of ["full", "again", "twice", "copy", "quiet"]) {
      const own = nameOf(context, what);
      assert.equal((await context.raw("DELETE", `/templates/${own}`)).status, 204, own);
      assert.equal(await Template.exists(own, context.options()), false);
    }
    assert.deepEqual(await leftOver(context), []);
  },
};
