import { spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, closeSync, existsSync, openSync, readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { homedir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { seenBy } from "./testing/as-user.ts";
import { nodeApi, runInGuest, type Api } from "./testing/api.ts";
import { ensureGuestBundle } from "./testing/guest-bundle.ts";
import { startNodeProcess } from "./testing/node-process.ts";
import { temporaryFolder } from "./testing/temporary-folder.ts";
import type { Isolation } from "./index.ts";

const isRoot = process.getuid?.() === 0;
const NOBODY = 65_534;
const TOKEN = "root-token-of-the-node";

interface Row {
  readonly name: string;
  readonly isolation: Isolation;
  readonly uid?: number;
  /** Why this machine cannot run the row; a failure where everything is meant to be installed. */
  readonly absent?: string | undefined;
}

const bubblewrap = ["/usr/bin/bwrap", "/usr/local/bin/bwrap"].some((path) => existsSync(path))
  ? undefined
  : "bubblewrap is not installed (apt-get install bubblewrap)";
const linux = process.platform === "linux" ? undefined : "namespaces exist on Linux only";
const rows: Row[] = isRoot
  ? [
      { name: "unshare as root", isolation: "unshare", absent: linux },
      { name: "bubblewrap as root", isolation: "bubblewrap", absent: linux ?? bubblewrap },
      { name: "unshare as an ordinary user", isolation: "unshare", uid: NOBODY, absent: linux },
      {
        name: "bubblewrap as an ordinary user",
        isolation: "bubblewrap",
        uid: NOBODY,
        absent: linux ?? bubblewrap,
      },
    ]
  : [
      { name: "unshare as an ordinary user", isolation: "unshare", absent: linux },
      { name: "bubblewrap as an ordinary user", isolation: "bubblewrap", absent: linux ?? bubblewrap },
    ];

beforeAll(ensureGuestBundle, 60_000);

/** JavaScript for the node binary in the guest; prints what it managed to do that it must not. */
function attempts(facts: Record<string, string | number>, node = "/opt/sandbox/node"): string {
  const script = `
    const fs = require("fs"), net = require("net"), cp = require("child_process");
    const facts = ${JSON.stringify(facts)};
    const leaks = [];
    const tryTo = (what, run) => { try { const value = run(); if (value !== false) leaks.push(what); } catch {} };
    const connects = (options) => new Promise((done) => {
      const socket = net.connect(options);
      socket.on("connect", () => { socket.destroy(); done(true); });
      socket.on("error", () => done(false));
    });
    tryTo("read a secret of the host", () => fs.readFileSync(facts.secret));
    tryTo("list the state folder", () => fs.readdirSync(facts.state));
    tryTo("list the other guest's files", () => fs.readdirSync(facts.otherTree));
    tryTo("list the host's home", () => fs.readdirSync(facts.home).length > 0 && facts.home !== "/root");
    tryTo("see the host's processes", () => fs.readFileSync("/proc/" + facts.hostPid + "/cmdline", "utf8").includes(facts.marker));
    tryTo("signal a process of the host", () => process.kill(facts.hostPid, "SIGKILL") && false);
    tryTo("leave through process 1", () => fs.readFileSync("/proc/1/root" + facts.secret));
    tryTo("leave through an open descriptor", () => {
      for (const pid of fs.readdirSync("/proc").filter((name) => /^[0-9]+$/.test(name)))
        for (const fd of fs.readdirSync("/proc/" + pid + "/fd")) {
          const target = fs.readlinkSync("/proc/" + pid + "/fd/" + fd);
          if (target.startsWith(facts.state) || target.startsWith("/proc/self/fd")) return true;
        }
      return false;
    });
    tryTo("have a descriptor of the host", () =>
      fs.readdirSync("/proc").filter((name) => /^[0-9]+$/.test(name)).some((pid) => {
        try { return fs.statSync("/proc/" + pid + "/fd/" + facts.descriptor).isDirectory(); } catch { return false; }
      }));
    tryTo("read a key of the host", () =>
      facts.key !== "" && cp.spawnSync("perl", ["-e", facts.key], { encoding: "utf8" }).stdout.includes("key of the host"));
    tryTo("find the node's token", () => fs.readdirSync("/proc").filter((name) => /^[0-9]+$/.test(name)).some((pid) => {
      const parts = ["environ", "cmdline"].map((file) => { try { return fs.readFileSync("/proc/" + pid + "/" + file, "latin1"); } catch { return ""; } });
      return parts.join("").includes(Array.from(facts.nekot).reverse().join(""));
    }));
    tryTo("change the agent", () => fs.appendFileSync("/opt/sandbox/agent/guest.mjs", "x"));
    tryTo("change the node binary", () => fs.appendFileSync("/opt/sandbox/node", "x"));
    tryTo("write to /usr", () => fs.writeFileSync("/usr/planted", "x"));
    tryTo("change the kernel's settings", () => fs.writeFileSync("/proc/sys/kernel/core_pattern", "|/tmp/x"));
    tryTo("press a magic key", () => fs.writeFileSync("/proc/sysrq-trigger", "h"));
    tryTo("read kernel memory", () => fs.openSync("/proc/kcore", "r"));
    tryTo("see block devices", () => fs.readdirSync("/dev").some((name) => /^(sd|vd|nvme|loop|mem|kmem|kmsg|kvm)/.test(name)));
    tryTo("see the host's cgroups", () => fs.readdirSync("/sys/fs/cgroup").length > 0);
    const run = (what, ...argv) => tryTo(what, () => cp.spawnSync(argv[0], argv.slice(1)).status === 0);
    run("make a device", "mknod", "/tmp/disk", "b", "254", "0");
    run("mount", "mount", "-t", "tmpfs", "none", "/mnt");
    run("unmount /usr", "umount", "/usr");
    run("make /usr writable", "mount", "-o", "remount,bind,rw", "/usr");
    run("join the host's namespaces", "nsenter", "-t", "1", "-m", "-n", "ls", facts.state);
    (async () => {
      if (await connects({ host: "127.0.0.1", port: facts.hostPort })) leaks.push("reach a port of the host's loopback");
      if (await connects({ path: "\\0" + facts.abstract })) leaks.push("reach an abstract socket of the host");
      if (await connects({ host: "127.0.0.1", port: facts.otherPort })) leaks.push("reach a port of the other guest");
      const links = Object.keys(require("os").networkInterfaces()).filter((name) => name !== "lo");
      if (links.length > 0) leaks.push("have a network: " + links);
      console.log(JSON.stringify(leaks));
    })();`;
  return `${node} - <<'END_OF_SCRIPT'\n${script}\nEND_OF_SCRIPT`;
}

/** Number of the descriptor that the node inherits in these tests. */
const DESCRIPTOR = 77;
/** Perl of x64 that makes a session keyring with a key, and that looks for the key in whatever keyring there is. */
const perl = process.arch === "x64" && existsSync("/usr/bin/perl");
const WITH_KEY = [
  "/usr/bin/perl",
  "-e",
  'syscall(250, 1, 0); my ($t, $n, $v) = ("user", "devnode-test", "key of the host"); syscall(248, $t, $n, $v, length($v), -3); exec @ARGV',
  "--",
];
const READ_KEY =
  'my ($t, $n, $b) = ("user", "devnode-test", "\\0" x 99); my $k = syscall(250, 10, -3, $t, $n, 0); syscall(250, 11, $k, $b, 99); print $b';

describe.each(rows)("a guest isolated by $name", ({ isolation, uid, absent }) => {
  test("cannot reach the host or another guest, whichever user it is", async (context) => {
    if (absent !== undefined) {
      expect(process.env["CI"], absent).toBeUndefined();
      context.skip(absent);
    }
    await using outside = temporaryFolder(0o755);
    const secret = join(outside.path, "secret.txt");
    writeFileSync(secret, "secret", { mode: 0o644 });
    await using state = temporaryFolder();
    if (uid !== undefined) {
      chownSync(state.path, uid, uid);
    }
    const marker = "host-process-that-must-live";
    const victim = spawn("/bin/sh", ["-c", `sleep 600; : ${marker}`], {
      stdio: "ignore",
      ...(uid === undefined ? {} : { uid, gid: uid }),
    });
    const onHost = createServer().listen(0, "127.0.0.1");
    const abstract = `devnode-test-${process.pid}-${isolation}-${uid ?? 0}`;
    const onAbstract = createServer().listen({ path: `\0${abstract}` });
    const folder = openSync("/", "r");
    try {
      await using node = await startNodeProcess(
        { stateDir: state.path, isolation, token: TOKEN, pools: [{ template: "base", warm: 2 }] },
        uid,
        { descriptor: { fd: folder, as: DESCRIPTOR }, prefix: perl ? WITH_KEY : [] },
      );
      expect(node.isolation).toBe(isolation);
      expect(node.separateUsers).toBe(isRoot && uid === undefined);
      const api = nodeApi(node.address, TOKEN);
      const [one, two] = [await api.claim(), await api.claim()];
      await runInGuest(
        api,
        two,
        'echo private > /tmp/mine; chmod 600 /tmp/mine; (/opt/sandbox/node -e \'require("net").createServer().listen(4000, "127.0.0.1")\' >/dev/null 2>&1 &) ; sleep 0.3',
      );
      const { port } = onHost.address() as { port: number };
      const facts = {
        secret,
        state: state.path,
        otherTree: treeOf(state.path, two.id),
        home: homedir(),
        hostPid: victim.pid ?? 0,
        marker,
        hostPort: port,
        abstract,
        otherPort: 4000,
        descriptor: DESCRIPTOR,
        key: perl ? READ_KEY : "",
        // Written backwards, or the search would find itself.
        nekot: Array.from(TOKEN).toReversed().join(""),
      };
      for (const user of ["user", "root"]) {
        const { stdout, stderr } = await runInGuest(api, one, attempts(facts), user);
        expect(stdout.trim(), stderr).toBe("[]");
      }
      expect(victim.exitCode ?? victim.signalCode).toBeNull();
      await expectUsers(api, one, node.separateUsers);
    } finally {
      closeSync(folder);
      victim.kill("SIGKILL");
      onHost.close();
      onAbstract.close();
    }
  }, 60_000);
});

test("the same attempts succeed where nothing isolates, so they can fail", async (context) => {
  if (linux !== undefined) {
    context.skip(linux);
  }
  // As an ordinary user: some of what is tried would really happen to this machine.
  const uid = isRoot ? NOBODY : undefined;
  await using outside = temporaryFolder(0o755);
  const secret = join(outside.path, "secret.txt");
  writeFileSync(secret, "secret", { mode: 0o644 });
  await using state = temporaryFolder();
  if (uid !== undefined) {
    chownSync(state.path, uid, uid);
  }
  const victim = spawn("/bin/sh", ["-c", "sleep 600; : doomed"], {
    stdio: "ignore",
    ...(uid === undefined ? {} : { uid, gid: uid }),
  });
  const killed = once(victim, "exit");
  const onHost = createServer().listen(0, "127.0.0.1");
  const abstract = `devnode-test-${process.pid}-process`;
  const onAbstract = createServer().listen({ path: `\0${abstract}` });
  try {
    await using node = await startNodeProcess({ stateDir: state.path, isolation: "process", token: TOKEN }, uid, {
      prefix: perl ? WITH_KEY : [],
    });
    const api = nodeApi(node.address, TOKEN);
    const [one, two] = [await api.claim(), await api.claim()];
    await runInGuest(api, two, "echo private > ../../tmp/mine");
    const facts = {
      secret,
      state: state.path,
      otherTree: treeOf(state.path, two.id),
      home: "/tmp",
      hostPid: victim.pid ?? 0,
      marker: "doomed",
      hostPort: (onHost.address() as { port: number }).port,
      abstract,
      otherPort: 1,
      descriptor: DESCRIPTOR,
      key: perl ? READ_KEY : "",
      nekot: "?",
    };
    const { stdout } = await runInGuest(
      api,
      one,
      attempts(facts, uid === undefined ? process.execPath : seenBy(uid, process.execPath)),
    );
    expect(JSON.parse(stdout)).toEqual(
      expect.arrayContaining([
        "read a secret of the host",
        "list the state folder",
        "list the other guest's files",
        "list the host's home",
        "see the host's processes",
        "reach a port of the host's loopback",
        "reach an abstract socket of the host",
        ...(perl ? ["read a key of the host"] : []),
      ]),
    );
    await killed;
  } finally {
    victim.kill("SIGKILL");
    onHost.close();
    onAbstract.close();
  }
}, 60_000);

/** Where the node keeps a guest's files; they are there, or trying to read them would prove nothing. */
function treeOf(state: string, id: string): string {
  for (const run of readdirSync(join(state, "runs"))) {
    const tree = join(state, "runs", run, "guests", id, "tree");
    if (existsSync(join(tree, "tmp/mine"))) {
      return tree;
    }
  }
  throw new Error("the other guest's files are not where they are expected");
}

async function expectUsers(api: Api, sandbox: { id: string; token: string }, separate: boolean): Promise<void> {
  const asUser = await runInGuest(
    api,
    sandbox,
    "id -un; echo ~; touch ~/mine && stat -c %U ~/mine; sudo true; echo $?",
  );
  expect(asUser.stdout).toMatch(/^user\n\/home\/user\nuser\n/);
  const asRoot = await runInGuest(api, sandbox, "id -u; touch /root/x && echo wrote", "root");
  expect(asRoot.stdout).toContain("wrote");
  expect(asRoot.stdout.startsWith("0\n")).toBe(separate);
  const denied = await runInGuest(api, sandbox, "cat /root/x");
  expect(denied.exitCode === 0).toBe(!separate);
}
