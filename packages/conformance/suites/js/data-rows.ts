import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { setTimeout as delay } from "node:timers/promises";
import { connect as connectTls } from "node:tls";

import { FormData, request } from "undici";

import { Absent, type RowContext, rejects, type Row } from "./context.ts";
import { Screen } from "./screen.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

const PASTE_BYTES = 5 << 20;

const until = async (what: string, probe: () => boolean | Promise<boolean>, limitMs = 10_000): Promise<void> => {
  const deadline = Date.now() + limitMs;
  while (!(await probe())) {
    assert.ok(Date.now() < deadline, `${what} did not happen within ${limitMs} ms`);
    await delay(50);
  }
};

/**
 * Calls an address as any program does where names resolve. Where the client is told another origin, the name travels as
 * the `Host` only.
 */
const reach = async (
  context: RowContext,
  address: string,
  choices: { method?: "GET" | "POST"; body?: string | FormData; headers?: Readonly<Record<string, string>> } = {},
): Promise<{ status: number; text: string; json: () => unknown }> => {
  const url = new URL(address);
  const named = context.rig.transport === "by-host";
  const response = await request(named ? address : `${context.rig.proxyUrl}${url.pathname}${url.search}`, {
    method: choices.method ?? "GET",
    headers: { ...(named ? {} : { host: url.host }), ...choices.headers },
    ...(choices.body === undefined ? {} : { body: choices.body }),
  });
  const text = await response.body.text();
  return { status: response.statusCode, text, json: () => JSON.parse(text) };
};

const named = (text: string): FormData => {
  const form = new FormData();
  form.append("file", new Blob([text]), "any-name");
  return form;
};

const needs = async (context: RowContext, program: string, fix: string): Promise<void> => {
  const { commands } = await context.shared();
  const { stdout } = await commands.run(`command -v ${program} || true`);
  if (stdout === "") {
    throw new Absent(`guests have no ${program}: ${fix}`);
  }
};

/** What users rely on in a sandbox, beyond the rows of the other suites. */
export const dataRows: Readonly<Record<string, Row>> = {
  D1: async (context) => {
    const { commands } = await context.shared();
    const seen: string[] = [];
    const handle = await commands.run("echo first; sleep 30", {
      background: true,
      timeoutMs: 1_500,
      onStdout: (text) => void seen.push(text),
    });
    await rejects(handle.wait(), context.sdk.TimeoutError);
    assert.equal(seen.join(""), "first\n");
  },

  D2: async (context) => {
    const sandbox = await context.create({ envs: { FROM_CREATE: "create é", BOTH: "create" } });
    const script = "import os; print([os.environ.get(k) for k in ('FROM_CREATE', 'BOTH', 'ONLY_HERE')])";
    const read = (envs?: Record<string, string>): Promise<{ stdout: string }> =>
      sandbox.commands.run(`python3 -c "${script}"`, envs === undefined ? {} : { envs });
    assert.equal((await read({ BOTH: "command", ONLY_HERE: "x" })).stdout, "['create é', 'command', 'x']\n");
    assert.equal((await read()).stdout, "['create é', 'create', None]\n");
    await sandbox.kill();
  },

  D3: async (context) => {
    const { commands } = await context.shared();
    const text = "one\ntwo\n!@#$%^&*()_+ 'q' \"d\" \\ é漢🙂\n";
    const handle = await commands.run("cat", { background: true, stdin: true });
    await handle.sendStdin(text);
    await commands.sendStdin(handle.pid, text);
    await commands.closeStdin(handle.pid);
    const result = await handle.wait();
    assert.deepEqual([result.exitCode, result.stdout], [0, text + text]);
    await rejects(commands.sendStdin(handle.pid, "late"), context.sdk.SandboxError);
  },

  D4: async (context) => {
    await needs(context, "tput", "install ncurses-bin on the machine of the node");
    const { pty } = await context.shared();
    const screen = new Screen();
    const handle = await pty.create({ cols: 80, rows: 24, onData: screen.onData, timeoutMs: 0 });
    await pty.sendInput(handle.pid, bytes('echo "cols=$(tput cols)"\n'));
    await screen.shows(/cols=80/);
    await pty.resize(handle.pid, { cols: 100, rows: 24 });
    await pty.sendInput(handle.pid, bytes('echo "cols=$(tput cols)"\n'));
    await screen.shows(/cols=100/);
    await pty.sendInput(handle.pid, bytes("exit\n"));
    assert.equal((await handle.wait()).exitCode, 0);
  },

  D5: async (context) => {
    const { files, commands } = await context.shared();
    await files.write("/home/user/links/dir/target.txt", "x");
    await commands.run("ln -s dir/target.txt relative; ln -s dir folder; mkdir B a; touch A b", {
      cwd: "/home/user/links",
    });
    const entries = await files.list("/home/user/links", { depth: 2 });
    assert.deepEqual(
      entries.map((entry) => entry.path.slice(17)),
      ["A", "B", "a", "b", "dir", "dir/target.txt", "folder", "relative"],
      "by byte, each folder before what it holds, links not followed",
    );
    const targets = Object.fromEntries(entries.map((entry) => [entry.name, entry.symlinkTarget]));
    assert.equal(targets["relative"], "/home/user/links/dir/target.txt");
    assert.equal(targets["folder"], "/home/user/links/dir");
    assert.equal(targets["dir"], undefined);
    const folder = entries.find((entry) => entry.name === "folder");
    assert.deepEqual([folder?.type, folder?.permissions.slice(0, 1)], ["dir", "L"]);
  },

  D6: async (context) => {
    const { files, commands } = await context.shared();
    const path = "/home/user/attributes.txt";
    await files.write(path, "x");
    const setting =
      "os.setxattr('attributes.txt', 'user.e2b.origin', b'guest'); os.setxattr('attributes.txt', 'user.x', b'y')";
    await commands.run(`python3 -c "import os; ${setting}"`, { cwd: "/home/user" });
    assert.deepEqual((await files.getInfo(path)).metadata, { origin: "guest" });
    const listed = (await files.list("/home/user")).find((entry) => entry.path === path);
    assert.deepEqual(listed?.metadata, { origin: "guest" });
    const moved = await files.rename(path, "/home/user/attributes-2.txt");
    assert.deepEqual(moved.metadata, { origin: "guest" });
  },

  D7: async (context) => {
    const { files } = await context.shared();
    const path = "/home/user/meta.txt";
    const { InvalidArgumentError } = context.sdk;
    await files.write([
      { path, data: "a", metadata: { kind: "one" } },
      { path: "/home/user/meta-2.txt", data: "b" },
    ] as Parameters<typeof files.write>[0]);
    await rejects(files.write(path, "b", { metadata: { long: "v".repeat(5_000) } }), InvalidArgumentError);
    await rejects(files.write(path, "b", { metadata: { ["k".repeat(300)]: "v" } }), InvalidArgumentError);
    assert.equal(await files.read(path), "a", "a refused write leaves the file alone");
    for (const options of [{}, { useOctetStream: true }, { gzip: true }]) {
      const written = await files.write(path, "c", { ...options, metadata: { Kind: "two", Other: "3" } });
      assert.deepEqual(written.metadata, { kind: "two", other: "3" });
    }
  },

  D8: async (context) => {
    const { files } = await context.shared();
    await files.makeDir("/home/user/flat/sub");
    const seen: string[] = [];
    const ends: unknown[] = [];
    const watch = await files.watchDir("/home/user/flat", (event) => void seen.push(`${event.type} ${event.name}`), {
      onExit: (error) => void ends.push(error),
    });
    await files.write("/home/user/flat/sub/unseen.txt", "x");
    await files.write("/home/user/flat/seen.txt", "x");
    await until("the write", () => seen.includes("write seen.txt"));
    assert.ok(!seen.some((event) => event.includes("unseen")), seen.join(", "));
    const of = seen.filter((event) => event.endsWith("seen.txt"));
    assert.deepEqual(of, ["create seen.txt", "chmod seen.txt", "write seen.txt"], "exactly what a new file gives");
    await watch.stop();
    const count = seen.length;
    await files.write("/home/user/flat/late.txt", "x");
    await delay(300);
    assert.equal(seen.length, count, "nothing after stop");
    // What this client says of an end that it asked for itself is its own affair.
    assert.equal(ends.length, 1, "one end");
  },

  D9: async (context) => {
    const { files, commands } = await context.shared();
    await files.makeDir("/home/user/deep/a");
    const seen: string[] = [];
    const watch = await files.watchDir("/home/user/deep", (event) => void seen.push(`${event.type} ${event.name}`), {
      recursive: true,
    });
    await commands.run(
      "mkdir a/b && sleep 0.3 && echo x > a/b/c.txt && chmod 600 a/b/c.txt && mv a/b z && sleep 0.3 && rm z/c.txt",
      {
        cwd: "/home/user/deep",
      },
    );
    const wanted = [
      "create a/b",
      "create a/b/c.txt",
      "write a/b/c.txt",
      "chmod a/b/c.txt",
      "rename a/b",
      "create z",
      "remove z/c.txt",
    ];
    await until("all events", () => wanted.every((event) => seen.includes(event))).catch(() =>
      assert.fail(`no ${wanted.filter((event) => !seen.includes(event)).join(", ")} among ${seen.join(", ")}`),
    );
    await watch.stop();
  },

  D10: async (context) => {
    const { files } = await context.shared();
    await files.makeDir("/home/user/entries");
    const seen: { type: string; name: string; entry?: { path: string; size: number; owner: string } | undefined }[] =
      [];
    const watch = await files.watchDir("/home/user/entries", (event) => void seen.push(event), {
      includeEntry: true,
      allowNetworkMounts: true,
    });
    await files.write("/home/user/entries/e.txt", "12345");
    await until("the write", () => seen.some((event) => event.type === "write"));
    await files.remove("/home/user/entries/e.txt");
    await until("the removal", () => seen.some((event) => event.type === "remove"));
    await watch.stop();
    const write = seen.find((event) => event.type === "write");
    assert.deepEqual([write?.entry?.path, write?.entry?.owner], ["/home/user/entries/e.txt", "user"]);
    assert.equal(seen.find((event) => event.type === "remove")?.entry, undefined, "a removed file has no entry");
  },

  D11: async (context) => {
    const { files } = await context.shared();
    await files.write("/home/user/no-folder.txt", "x");
    const nothing = (): void => undefined;
    await rejects(files.watchDir("/home/user/no-folder.txt", nothing), context.sdk.InvalidArgumentError, /directory/);
    await rejects(files.watchDir("/home/user/missing", nothing), context.sdk.FileNotFoundError);
    const ended = Promise.withResolvers<unknown>();
    await files.makeDir("/home/user/short");
    await files.watchDir("/home/user/short", nothing, { timeoutMs: 1_000, onExit: ended.resolve });
    const error = await ended.promise;
    assert.ok(error instanceof context.sdk.TimeoutError, `ended with ${String(error)}`);
  },

  D12: async (context) => {
    const sandbox = await context.shared();
    const { domain, proxyUrl, transport } = context.rig;
    const host = `49983-${sandbox.sandboxId}.${domain}`;
    assert.equal(sandbox.getHost(3000), `3000-${sandbox.sandboxId}.${domain}`);
    const path = "/home/user/by address é+&.txt";
    const up = await sandbox.uploadUrl(path, { useSignatureExpiration: 60 });
    const down = await sandbox.downloadUrl(path, { useSignatureExpiration: 60 });
    if (transport === "by-host") {
      assert.equal(new URL(down).origin, `https://${host}`);
      assert.equal((await reach(context, up, { method: "POST", body: named("by address") })).status, 200);
      const reply = await reach(context, down);
      assert.deepEqual([reply.status, reply.text], [200, "by address"]);
      const root = await sandbox.uploadUrl("root-by-address.txt", { user: "root" });
      assert.equal((await reach(context, root, { method: "POST", body: named("root's") })).status, 200);
      assert.equal(await sandbox.files.read("/root/root-by-address.txt", { user: "root" }), "root's");
      const expired = await reach(context, await sandbox.downloadUrl(path, { useSignatureExpiration: -10 }));
      assert.equal(expired.text, JSON.stringify({ code: 401, message: "signature is already expired" }));
    } else {
      // The SDK signs the address it was told, which names no sandbox.
      assert.equal(new URL(down).origin, proxyUrl);
      const reply = await request(down);
      const text = await reply.body.text();
      assert.deepEqual([reply.statusCode, (JSON.parse(text) as { code: number }).code], [400, 400], text);
    }
  },

  D13: async (context) => {
    const sandbox = await context.create();
    await sandbox.files.write("/home/user/www/index.html", "<p>hello</p>");
    await sandbox.commands.run("python3 -m http.server 8000", {
      background: true,
      cwd: "/home/user/www",
      timeoutMs: 0,
    });
    const scheme = context.rig.transport === "by-host" ? "https" : "http";
    const address = `${scheme}://${sandbox.getHost(8000)}/`;
    await until("the server", async () => (await reach(context, address)).status === 200);
    assert.equal((await reach(context, address)).text, "<p>hello</p>");
    await sandbox.kill();
    const gone = await reach(context, address);
    assert.equal(gone.status, 502, gone.text);
    assert.equal((gone.json() as { code: number }).code, 502);
  },

  D14: async (context) => {
    const sandbox = await context.shared();
    const again = await context.sdk.Sandbox.connect(sandbox.sandboxId, context.options());
    assert.equal((await again.commands.run("echo again")).stdout, "again\n");
    const scheme = context.rig.transport === "by-host" ? "https" : "http";
    const address = `${scheme}://${sandbox.getHost(49983)}/process.Process/List`;
    const call = (headers: Readonly<Record<string, string>>) =>
      reach(context, address, {
        method: "POST",
        body: "{}",
        headers: { "content-type": "application/json", ...headers },
      });
    for (const headers of [{}, { "x-access-token": "wrong" }, { "x-access-token": "" }]) {
      const reply = await call(headers);
      assert.equal(reply.status, 401, reply.text);
      assert.deepEqual(Object.keys(reply.json() as object), ["code", "message"]);
    }
  },

  D15: async (context) => {
    const { proxyUrl, domain, transport } = context.rig;
    const { sandboxId } = await context.shared();
    const name = `49983-${sandboxId}.${domain}`;
    if (transport === "by-host") {
      const url = new URL(`https://${name}`);
      for (const [offered, taken] of [
        [["h2", "http/1.1"], "h2"],
        [["http/1.1"], "http/1.1"],
      ] as const) {
        const socket = connectTls({
          host: url.hostname,
          port: Number(url.port),
          servername: url.hostname,
          ALPNProtocols: [...offered],
        });
        await once(socket, "secureConnect");
        assert.equal(socket.alpnProtocol, taken);
        assert.match(socket.getProtocol() ?? "", /^TLSv1\.[23]$/);
        socket.destroy();
      }
    }
    const session = connectHttp2(transport === "by-host" ? `https://${name}` : proxyUrl);
    session.on("error", () => undefined);
    const stream = session.request({ ":path": "/healthz", ":authority": name });
    const [head] = (await once(stream, "response")) as [{ ":status"?: number }];
    stream.resume();
    assert.equal(head[":status"], 204);
    session.destroy();
  },

  D16: async (context) => {
    await needs(context, "git", "install git on the machine of the node");
    const { git, files, commands } = await context.shared();
    await git.configureUser("Some Body", "some@example.test");
    await git.init("/home/user/origin.git", { bare: true, initialBranch: "main" });
    await git.clone("/home/user/origin.git", { path: "/home/user/work" });
    await files.write("/home/user/work/é.txt", "one\n");
    const before = await git.status("/home/user/work");
    assert.equal(before.fileStatus.length, 1);
    await git.add("/home/user/work");
    await git.commit("/home/user/work", "first 'quoted' \"line\"");
    await git.push("/home/user/work", { remote: "origin", branch: "main", setUpstream: true });
    await git.createBranch("/home/user/work", "topic");
    const { branches, currentBranch } = await git.branches("/home/user/work");
    assert.deepEqual([branches.toSorted(), currentBranch], [["main", "topic"], "topic"]);
    const log = await commands.run("git -C /home/user/origin.git log --format='%an <%ae> %s' main");
    assert.equal(log.stdout, `Some Body <some@example.test> first 'quoted' "line"\n`);
    await rejects(git.clone("/home/user/nothing.git", { path: "/home/user/never" }), context.sdk.CommandExitError);
  },

  D17: async (context) => {
    const { commands } = await context.shared();
    const steady = await commands.run("for i in $(seq 1 60); do echo $i; sleep 0.05; done", { background: true });
    for (let round = 0; round < 10; round += 1) {
      const handles = await Promise.all(
        Array.from({ length: 10 }, () => commands.run("sleep 120", { background: true })),
      );
      await Promise.all(handles.map((handle) => handle.disconnect()));
      await Promise.all(handles.map((handle) => commands.kill(handle.pid)));
    }
    const result = await steady.wait();
    assert.equal(result.stdout.trim().split("\n").length, 60, "streams that were cancelled disturb no other");
    assert.equal((await commands.run("echo still here")).stdout, "still here\n");
  },

  D18: async (context) => {
    const sandbox = await context.create();
    const watch = Promise.withResolvers<unknown>();
    const screen = new Screen();
    await sandbox.files.watchDir("/home/user", () => undefined, { onExit: watch.resolve, timeoutMs: 0 });
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: screen.onData, timeoutMs: 0 });
    const command = await sandbox.commands.run("sleep 50", { background: true, timeoutMs: 0 });
    const ends = [terminal.wait(), command.wait()].map((wait) =>
      rejects(wait, context.sdk.TimeoutError, /killed or reached its end of life/),
    );
    assert.equal(await sandbox.kill(), true);
    await Promise.all(ends);
    const error = await watch.promise;
    assert.ok(error instanceof context.sdk.TimeoutError, `the watch ended with ${String(error)}`);
  },

  D19: async (context) => {
    const { commands } = await context.shared();
    const results = await Promise.all(
      Array.from({ length: 60 }, (_unused, index) => commands.run(`echo ${index}`, { timeoutMs: 0 })),
    );
    assert.deepEqual(
      results.map((result) => result.stdout),
      Array.from({ length: 60 }, (_unused, index) => `${index}\n`),
    );
  },

  D22: async (context) => {
    const { pty, commands, files } = await context.shared();
    const screen = new Screen();
    const paste = bytes("0123456789abcde\n".repeat(PASTE_BYTES / 16));
    const stopped = await pty.create({ cols: 80, rows: 24, onData: screen.onData, timeoutMs: 0 });
    const exit = stopped.wait().catch((error: unknown) => error);
    await pty.sendInput(stopped.pid, bytes("kill -STOP $$\n"));
    await until("a stop of the shell", async () => {
      const { stdout } = await commands.run(`ps -o stat= -p ${stopped.pid}`);
      return stdout.startsWith("T");
    });
    // Nobody reads it, so it waits; what comes behind must not.
    const pasted = pty.sendInput(stopped.pid, paste, { requestTimeoutMs: 60_000 }).then(
      () => "taken",
      () => "refused",
    );
    await delay(300);
    await pty.resize(stopped.pid, { cols: 100, rows: 30 }, { requestTimeoutMs: 5_000 });
    assert.equal(await pty.kill(stopped.pid, { requestTimeoutMs: 5_000 }), true);
    assert.ok((await exit) instanceof context.sdk.CommandExitError, String(await exit));
    assert.notEqual(await Promise.race([pasted, delay(10_000, "hangs")]), "hangs", "the paste outlives its terminal");

    const reader = await pty.create({ cols: 80, rows: 24, onData: screen.onData, timeoutMs: 0 });
    const into = `stty raw -echo; echo ready; head -c ${paste.length} > /home/user/pasted; echo done; exit\n`;
    await pty.sendInput(reader.pid, bytes(into));
    await screen.shows(/[\r\n]ready/);
    await pty.sendInput(reader.pid, paste, { requestTimeoutMs: 60_000 });
    assert.equal((await reader.wait()).exitCode, 0);
    assert.deepEqual(await files.read("/home/user/pasted", { format: "bytes" }), paste, "what was pasted");
  },

  D23: async (context) => {
    const sandbox = await context.shared();
    const { commands, files } = sandbox;
    // Below 0.3.0 input is always there, from it on only when asked for.
    assert.equal((await commands.run("readlink /proc/self/fd/0")).stdout, "/dev/null\n");
    // Below 0.4.0 the client names a user, from it on the sandbox's own is taken.
    assert.equal((await commands.run("whoami")).stdout, "user\n");
    await files.write("whose.txt", "x");
    assert.deepEqual(
      [(await files.getInfo("whose.txt")).owner, await files.exists("/home/user/whose.txt")],
      ["user", true],
    );
    const scheme = context.rig.transport === "by-host" ? "https" : "http";
    const unnamed = new URL(await sandbox.downloadUrl("whose.txt"));
    assert.equal(unnamed.searchParams.get("username"), null, `${scheme}: a signed address names no user`);
    // Below 0.5.2 input cannot be closed.
    const handle = await commands.run("cat", { background: true, stdin: true });
    await commands.sendStdin(handle.pid, "x");
    await commands.closeStdin(handle.pid);
    assert.equal((await handle.wait()).stdout, "x");
    // Below 0.5.7 every upload is multipart.
    const stream = new Blob(["streamed"]).stream();
    await files.write("streamed.txt", stream, { useOctetStream: true });
    assert.equal(await files.read("streamed.txt"), "streamed");
    // Below 0.1.5 there are no metrics; disks came with 0.2.4.
    const metrics = await sandbox.getMetrics();
    for (const { diskTotal, diskUsed } of metrics) {
      assert.ok(diskTotal > 0 && diskUsed >= 0, JSON.stringify(metrics));
    }
  },
};
