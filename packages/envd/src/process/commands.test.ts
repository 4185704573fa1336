import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { Code, ConnectError } from "@connectrpc/connect";
import { Signal } from "@org/envd-client";
import { describe, expect, it } from "vitest";

import { isRoot, startGuest, userId } from "../testing/guest.ts";
import { envelope, openStream, pidIn } from "../testing/raw-stream.ts";
import { collect, run, sh } from "../testing/run.ts";

async function failure(call: Promise<unknown>): Promise<ConnectError> {
  return call.then(
    () => {
      throw new Error("the call was expected to fail");
    },
    (error: unknown) => ConnectError.from(error),
  );
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

describe.each([{ binary: false }, { binary: true }])("a command (binary: $binary)", (wire) => {
  it.each([
    ["exit 0", { exited: true, status: "exit status 0" }],
    ["exit 1", { exitCode: 1, exited: true, status: "exit status 1", error: "exit status 1" }],
    ["exit 137", { exitCode: 137, exited: true, status: "exit status 137", error: "exit status 137" }],
    ["kill -KILL $$", { exitCode: -1, status: "signal: killed", error: "signal: killed" }],
    ["kill -TERM $$", { exitCode: -1, status: "signal: terminated", error: "signal: terminated" }],
    ["kill -SEGV $$", { exitCode: -1, status: "signal: segmentation fault", error: "signal: segmentation fault" }],
  ])("reports the end of `%s`", async (text, end) => {
    await using guest = await startGuest();
    expect((await sh(guest.process(wire), text)).end).toEqual(end);
  });

  it("passes on every byte value of both outputs", async () => {
    await using guest = await startGuest();
    const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, index) => (index * 7) % 256));
    await writeFile(join(guest.home, "bytes"), bytes);
    const result = await sh(guest.process(wire), "cat bytes; cat bytes >&2");
    expect(result.stdout.equals(bytes)).toBe(true);
    expect(result.stderr.equals(bytes)).toBe(true);
    expect(result.order[0]).toBe("start");
    expect(result.order.at(-1)).toBe("end");
  });
});

describe("output", () => {
  it("keeps characters whole whose bytes come one at a time", async () => {
    await using guest = await startGuest();
    const text = String.raw`for b in 303 251 346 274 242 360 237 231 202; do printf "\\$b"; sleep 0.01; done`;
    expect((await sh(guest.process(), text)).stdout.toString("utf8")).toBe("é漢🙂");
  });

  it("comes as start, data, end and the end frame, without an exit code of 0", async () => {
    await using guest = await startGuest();
    const body = envelope({ process: { cmd: "echo", args: ["hi"] }, stdin: false, unknownField: [1] });
    const stream = await openStream(guest.port, "/process.Process/Start", body);
    expect(stream.res.statusCode).toBe(200);
    expect(stream.res.headers).toMatchObject({
      "content-type": "application/connect+json",
      "x-accel-buffering": "no",
    });
    expect(await stream.all()).toEqual([
      { flags: 0, json: { event: { start: { pid: expect.any(Number) } } } },
      { flags: 0, json: { event: { data: { stdout: "aGkK" } } } },
      { flags: 0, json: { event: { end: { exited: true, status: "exit status 0" } } } },
      { flags: 2, json: {} },
    ]);
  });

  it("can be opened again by name, as scripts do", async () => {
    await using guest = await startGuest();
    const text =
      "echo out >/dev/stdout; echo err >/dev/stderr; echo x | cat /dev/stdin; test -p /dev/stdout && echo pipe";
    const result = await sh(guest.process(), text);
    expect([result.stdout.toString(), result.stderr.toString()]).toEqual(["out\nx\npipe\n", "err\n"]);
    expect(guest.logs).toEqual([]);
  });

  it("works without mkfifo, over sockets, and says so once", async () => {
    await using guest = await startGuest({ path: "/nowhere" });
    for (const text of ["echo one", "echo two"]) {
      const result = await run(guest.process(), { process: { cmd: "/bin/sh", args: ["-c", text] }, stdin: true });
      expect(result.stdout.toString()).toBe(`${text.slice(5)}\n`);
    }
    expect(guest.logs.map(({ message }) => message)).toEqual(["commands get sockets instead of pipes"]);
  });

  it("is complete when a child goes on writing after the command has ended", async () => {
    await using guest = await startGuest();
    const result = await sh(guest.process(), "(sleep 0.2; echo late) & echo early");
    expect(result.stdout.toString()).toBe("early\nlate\n");
  });
});

describe("the environment of a command", () => {
  it("is PATH, the user's variables, the defaults and the request's own, and nothing of the daemon's", async () => {
    await using guest = await startGuest({ environment: { NODE_SET: "node", SHARED: "node" } });
    const body = JSON.stringify({
      envVars: { SHARED: "init", E2B_SANDBOX_ID: "forged", ODD_VALUE: "a\n'\"b=", OWN: "init" },
    });
    expect((await guest.call("POST", "/init", { body })).status).toBe(204);
    const { stdout } = await run(guest.process(), {
      process: { cmd: "/usr/bin/env", args: ["-0"], envs: { EXTRA: "1", USER: "someone", OWN: "request" } },
      stdin: false,
    });
    const variables = Object.fromEntries(
      stdout
        .toString()
        .split("\0")
        .filter((line) => line !== "")
        .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
    );
    // The shell that starts every command adds these.
    for (const name of ["PWD", "OLDPWD", "SHLVL", "_"]) delete variables[name];
    expect(variables).toEqual({
      PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      HOME: guest.home,
      USER: "someone",
      OWN: "request",
      LOGNAME: "user",
      E2B_SANDBOX: "true",
      E2B_SANDBOX_ID: "sb-test",
      E2B_TEMPLATE_ID: "base",
      NODE_SET: "node",
      SHARED: "init",
      ODD_VALUE: "a\n'\"b=",
      EXTRA: "1",
    });
    expect((await sh(guest.process(), "echo $EXTRA")).stdout.toString()).toBe("\n");
  });

  it.each([
    ["a NUL in a value", { cmd: "env", envs: { A: "x\0y" } }],
    ["a NUL in a name", { cmd: "env", envs: { "A\0": "x" } }],
    ["an equals sign in a name", { cmd: "env", envs: { "A=B": "x" } }],
    ["an empty name", { cmd: "env", envs: { "": "x" } }],
    ["a NUL in an argument", { cmd: "echo", args: ["x\0y"] }],
    ["a NUL in the command", { cmd: "e\0cho" }],
    ["an empty command", { cmd: "" }],
    ["a NUL in the directory", { cmd: "env", cwd: "/tmp\0" }],
    ["a missing directory", { cmd: "env", cwd: "/does/not/exist" }],
    ["a directory that is a file", { cmd: "env", cwd: "/etc/hostname" }],
    ["the home of another", { cmd: "env", cwd: "~root" }],
  ])("is refused with %s", async (_what, config) => {
    await using guest = await startGuest();
    expect((await failure(run(guest.process(), { process: config }))).code).toBe(Code.InvalidArgument);
  });

  it("takes long arguments and here-documents", async () => {
    await using guest = await startGuest();
    const long = "x".repeat(100_000);
    const result = await sh(guest.process(), `cat <<'EOF'\n$not 'expanded'\nEOF\nprintf %s "${long}" | wc -c`);
    expect(result.stdout.toString().replaceAll(" ", "")).toBe("$not'expanded'\n100000\n");
  });

  it("reports a program that does not exist as exit code 127 with words on stderr", async () => {
    await using guest = await startGuest();
    const result = await run(guest.process(), { process: { cmd: "no-such-program" } });
    expect(result.end).toMatchObject({ exitCode: 127, exited: true });
    expect(result.stderr.toString()).toContain("no-such-program");
  });
});

describe("the directory of a command", () => {
  it.each([
    ["", (guest: { home: string }) => guest.home],
    ["~", (guest: { home: string }) => guest.home],
    ["/", () => "/"],
    [".", (guest: { home: string }) => guest.home],
  ])("is what '%s' means", async (cwd, expected) => {
    await using guest = await startGuest();
    expect((await sh(guest.process(), "pwd", { cwd })).stdout.toString()).toBe(`${expected(guest)}\n`);
  });

  it("is the default one where it is set and none is named", async () => {
    await using guest = await startGuest({ defaultWorkdir: "/usr" });
    expect((await sh(guest.process(), "pwd")).stdout.toString()).toBe("/usr\n");
    // Relative paths belong to the home all the same.
    expect((await sh(guest.process(), "pwd", { cwd: "." })).stdout.toString()).toBe(`${guest.home}\n`);
  });
});

describe("users", () => {
  const as = (name: string): { headers: Record<string, string> } => ({
    headers: { authorization: `Basic ${Buffer.from(`${name}:ignored`).toString("base64")}` },
  });

  it("give a command its home and names", async () => {
    await using guest = await startGuest();
    const text = "echo $HOME $USER $LOGNAME; pwd";
    expect((await sh(guest.process(as("root")), text)).stdout.toString()).toBe(
      `${guest.rootHome} root root\n${guest.rootHome}\n`,
    );
  });

  it("that do not exist are named in the error, in the form of the call", async () => {
    await using guest = await startGuest();
    const streaming = await failure(sh(guest.process(as("nobody-here")), "true"));
    const unary = await failure(guest.process(as("nobody-here")).list({}));
    for (const error of [streaming, unary]) {
      expect([error.code, error.rawMessage]).toEqual([Code.Unauthenticated, "invalid username: 'nobody-here'"]);
    }
  });

  it.runIf(isRoot)("give a command their ids and all their groups (as root only)", async () => {
    await using guest = await startGuest();
    const { stdout } = await sh(guest.process(), "id -u; id -g; id -G; grep CapEff /proc/self/status");
    expect(stdout.toString()).toMatch(/^1000\n1000\n1000 2345\nCapEff:\s+0{16}\n$/);
    expect((await sh(guest.process(as("root")), "id -u")).stdout.toString()).toBe("0\n");
  });

  it.runIf(isRoot)("get ids without supplementary groups where setpriv is missing (as root only)", async () => {
    await using guest = await startGuest({ setpriv: "/nowhere/setpriv" });
    expect((await sh(guest.process(), "id -u; id -g; id -G")).stdout.toString()).toBe("1000\n1000\n1000\n");
  });

  it.runIf(isRoot)("cannot start in a directory that is closed to them (as root only)", async () => {
    await using guest = await startGuest();
    const { stdout } = await sh(guest.process(as("root")), "mkdir -m 0700 closed; cd closed; pwd");
    const cwd = stdout.toString().trim();
    const error = await failure(sh(guest.process(), "true", { cwd }));
    expect([error.code, error.rawMessage]).toEqual([
      Code.InvalidArgument,
      `cwd '${cwd}' cannot be entered: permission denied`,
    ]);
  });

  it("keep the daemon's ids where ids must not change", async () => {
    await using guest = await startGuest({ switchUser: "never" });
    const { stdout } = await sh(guest.process(), "id -u; echo $USER");
    expect(stdout.toString()).toBe(`${process.getuid?.() ?? userId}\nuser\n`);
  });
});

describe("standard input", () => {
  it("is empty when it was not asked for", async () => {
    await using guest = await startGuest();
    expect((await sh(guest.process(), "read line")).end).toMatchObject({ exitCode: 1 });
  });

  it("takes what is sent, whole and in order, until it is closed", async () => {
    await using guest = await startGuest();
    const client = guest.process();
    const command = { cmd: "/bin/sh", args: ["-c", "cat; exec sleep 100"] };
    const result = collect(client.start({ process: command, tag: "reader" }));
    const process = { selector: { case: "tag", value: "reader" } } as const;
    await expect.poll(async () => (await client.list({})).processes.length).toBe(1);
    const send = (text: string) =>
      client.sendInput({ process, input: { input: { case: "stdin", value: Buffer.from(text) } } });
    const parts = Array.from({ length: 20 }, (_, index) => `part ${index} ${"é".repeat(index * 50)}\n`);
    for (const part of [...parts, ""]) await send(part);
    // Side by side their order is open, but none may cut another in two.
    const wide = Array.from({ length: 8 }, (_, index) => `${String(index).repeat(100_000)}\n`);
    await Promise.all(wide.map(send));
    await client.closeStdin({ process });
    await client.closeStdin({ process });
    expect((await failure(send("more"))).code).toBe(Code.Internal);
    await client.sendSignal({ process, signal: Signal.SIGKILL });
    const text = (await result).stdout.toString();
    expect(text.startsWith(parts.join(""))).toBe(true);
    expect(new Set(text.slice(parts.join("").length).split(/(?<=\n)/))).toEqual(new Set(wide));
  });

  it("is refused with `internal` where there is none, and a terminal's where there is no terminal", async () => {
    await using guest = await startGuest();
    const client = guest.process();
    const stream = await openStream(
      guest.port,
      "/process.Process/Start",
      envelope({ process: { cmd: "sleep", args: ["100"] }, stdin: false, tag: "deaf" }),
    );
    const process = { selector: { case: "tag", value: "deaf" } } as const;
    await expect.poll(async () => (await client.list({})).processes.length).toBe(1);
    const stdin = { input: { case: "stdin", value: Buffer.from("x") } } as const;
    const pty = { input: { case: "pty", value: Buffer.from("x") } } as const;
    expect((await failure(client.sendInput({ process, input: stdin }))).code).toBe(Code.Internal);
    expect((await failure(client.sendInput({ process, input: pty }))).code).toBe(Code.Internal);
    expect((await failure(client.update({ process, pty: { size: { cols: 1, rows: 1 } } }))).code).toBe(Code.Internal);
    expect((await failure(client.sendInput({ process }))).code).toBe(Code.InvalidArgument);
    await client.closeStdin({ process });
    stream.req.destroy();
  });

  it("streams", async () => {
    await using guest = await startGuest();
    const events = guest.process().start({ process: { cmd: "cat" }, tag: "reader" });
    const rest = collect(events);
    const process = { selector: { case: "tag", value: "reader" } } as const;
    await expect.poll(async () => (await guest.process().list({})).processes.length).toBe(1);
    const messages = [
      { start: { process: { tag: "reader" } } },
      { keepalive: {} },
      { data: { input: { stdin: Buffer.from("a").toString("base64") } } },
      { data: { input: { stdin: Buffer.from("b").toString("base64") } } },
    ].map((message) => envelope(message));
    const reply = await openStream(guest.port, "/process.Process/StreamInput", Buffer.concat(messages));
    expect(await reply.all()).toEqual([
      { flags: 0, json: {} },
      { flags: 2, json: {} },
    ]);
    await guest.process().closeStdin({ process });
    expect((await rest).stdout.toString()).toBe("ab");
  });

  it("holds up its sender when the command does not read, but not others", async () => {
    await using guest = await startGuest();
    const client = guest.process();
    await openStream(
      guest.port,
      "/process.Process/Start",
      envelope({ process: { cmd: "sleep", args: ["100"] }, tag: "busy" }),
    );
    const process = { selector: { case: "tag", value: "busy" } } as const;
    await expect.poll(async () => (await client.list({})).processes.length).toBe(1);
    const stop = new AbortController();
    const input = { input: { case: "stdin", value: Buffer.alloc(1024 * 1024) } } as const;
    let done = false;
    const blocked = client.sendInput({ process, input }, { signal: stop.signal }).then(
      () => (done = true),
      () => undefined,
    );
    await sleep(150);
    expect(done).toBe(false);
    expect((await client.list({})).processes).toHaveLength(1);
    await client.sendSignal({ process, signal: Signal.SIGKILL });
    stop.abort();
    await blocked;
    await expect.poll(async () => (await client.list({})).processes.length).toBe(0);
  });
});

describe("the life of a command", () => {
  it("goes on when its caller leaves, and can be followed again", async () => {
    await using guest = await startGuest();
    const client = guest.process();
    const body = envelope({ process: { cmd: "/bin/sh", args: ["-c", "read x; echo got $x; exit 7"] } });
    const stream = await openStream(guest.port, "/process.Process/Start", body);
    const frames = stream.frames();
    const { value: first } = await frames.next();
    const pid = pidIn(first);
    stream.req.destroy();
    await sleep(50);
    expect((await client.list({})).processes).toMatchObject([{ pid, config: { cmd: "/bin/sh" } }]);
    const process = { selector: { case: "pid", value: pid } } as const;
    const follower = collect(client.connect({ process }));
    // The follower's subscription must be there before the output is.
    await sleep(50);
    await client.sendInput({ process, input: { input: { case: "stdin", value: Buffer.from("it\n") } } });
    const result = await follower;
    expect(result.pid).toBe(pid);
    expect(result.stdout.toString()).toBe("got it\n");
    expect(result.end).toMatchObject({ exitCode: 7 });
  });

  it("is kept for the next follower while nobody follows, the newest of it, also past the end", async () => {
    await using guest = await startGuest();
    const client = guest.process();
    const text =
      "read x; echo heard; read x; echo first; read x; head -c 1000000 /dev/zero; echo last; read x; echo end; exit 5";
    const stream = await openStream(
      guest.port,
      "/process.Process/Start",
      envelope({ process: { cmd: "/bin/sh", args: ["-c", text] }, tag: "kept" }),
    );
    const frames = stream.frames();
    const pid = pidIn((await frames.next()).value);
    const process = { selector: { case: "pid", value: pid } } as const;
    const say = () => client.sendInput({ process, input: { input: { case: "stdin", value: Buffer.from("\n") } } });
    await say();
    expect((await frames.next()).value).toMatchObject({ json: { event: { data: {} } } });
    stream.req.destroy();
    await sleep(50);
    await say();
    await sleep(50);
    /** Follows until `words` have come, and then leaves. */
    const followUntil = async (words: string): Promise<Buffer> => {
      let output = Buffer.alloc(0);
      for await (const { event } of client.connect({ process })) {
        if (event?.event.case !== "data") continue;
        output = Buffer.concat([output, event.event.value.output.value ?? Buffer.alloc(0)]);
        if (output.toString("latin1").endsWith(words)) break;
      }
      return output;
    };
    // What was heard does not come again.
    expect((await followUntil("first\n")).toString()).toBe("first\n");
    await say();
    const newest = await followUntil("last\n");
    expect(newest.length).toBeGreaterThan(5);
    await say();
    await expect.poll(async () => (await client.list({})).processes).toEqual([]);
    for (let times = 0; times < 2; times += 1) {
      const late = await collect(client.connect({ process }));
      expect([late.stdout.toString(), late.end]).toMatchObject(["end\n", { exitCode: 5 }]);
    }
  });

  it("is over for a late follower, who still learns how, by pid and by tag", async () => {
    await using guest = await startGuest();
    const client = guest.process();
    const { pid } = await sh(client, "echo unheard; exit 9", { tag: "short" });
    for (const selector of [{ case: "pid", value: pid } as const, { case: "tag", value: "short" } as const]) {
      const result = await collect(client.connect({ process: { selector } }));
      expect([result.pid, result.order, result.end]).toMatchObject([pid, ["start", "end"], { exitCode: 9 }]);
    }
  });

  it("is forgotten after a while", async () => {
    await using guest = await startGuest({ exitRetentionMs: 30 });
    const client = guest.process();
    const { pid } = await sh(client, "true");
    const process = { selector: { case: "pid", value: pid } } as const;
    await expect
      .poll(() =>
        collect(client.connect({ process })).then(
          () => undefined,
          (error) => ConnectError.from(error).rawMessage,
        ),
      )
      .toBe(`process with pid ${pid} not found`);
  });

  it("ends with its time, in the form the SDKs expect", async () => {
    await using guest = await startGuest();
    const body = envelope({ process: { cmd: "/bin/sh", args: ["-c", "echo a; sleep 100"] }, stdin: false });
    const stream = await openStream(guest.port, "/process.Process/Start", body, { "connect-timeout-ms": "300" });
    const frames = await stream.all();
    const pid = pidIn(frames[0]);
    expect(frames.at(-1)).toMatchObject({ flags: 2, json: { error: { code: "deadline_exceeded" } } });
    await expect.poll(() => isAlive(pid)).toBe(false);
    await expect.poll(async () => (await guest.process().list({})).processes.length).toBe(0);
  });

  it.each(["0", "1", "2", "5"])(
    "blames its time and not the caller when that is over at once: %s ms",
    async (limit) => {
      await using guest = await startGuest();
      const body = envelope({ process: { cmd: "sleep", args: ["100"] }, stdin: false });
      const stream = await openStream(guest.port, "/process.Process/Start", body, { "connect-timeout-ms": limit });
      const frames = await stream.all();
      expect(frames.at(-1)).toMatchObject({ flags: 2, json: { error: { code: "deadline_exceeded" } } });
      await expect.poll(async () => (await guest.process().list({})).processes.length).toBe(0);
    },
  );

  it("ends with its time even when the caller has left", async () => {
    await using guest = await startGuest();
    const body = envelope({ process: { cmd: "sleep", args: ["100"] }, stdin: false });
    const stream = await openStream(guest.port, "/process.Process/Start", body, { "connect-timeout-ms": "500" });
    const pid = pidIn((await stream.frames().next()).value);
    stream.req.destroy();
    expect((await guest.process().list({})).processes).toHaveLength(1);
    await expect.poll(async () => (await guest.process().list({})).processes.length, { timeout: 5000 }).toBe(0);
    expect(isAlive(pid)).toBe(false);
  });

  it.each(["60000.0", "", "-1", "123456789012", "1e3", "ten"])(
    "is not begun with the time limit '%s'",
    async (value) => {
      await using guest = await startGuest();
      const body = envelope({ process: { cmd: "true" } });
      const stream = await openStream(guest.port, "/process.Process/Start", body, { "connect-timeout-ms": value });
      expect([stream.res.statusCode, await stream.all()]).toMatchObject([
        200,
        [{ flags: 2, json: { error: { code: "invalid_argument" } } }],
      ]);
    },
  );

  it.each(["0", "9999999999"])("has no trouble with the time limit '%s'", async (value) => {
    await using guest = await startGuest();
    const body = envelope({ process: { cmd: "true" } });
    const stream = await openStream(guest.port, "/process.Process/Start", body, { "connect-timeout-ms": value });
    const last = (await stream.all()).at(-1);
    expect(last?.flags).toBe(2);
  });

  it("ends by signal at once, though a child of it holds the output", async () => {
    await using guest = await startGuest();
    const client = guest.process();
    const events = collect(
      client.start({
        process: { cmd: "/bin/sh", args: ["-c", "sleep 100 & echo $!; wait"] },
        tag: "parent",
        stdin: false,
      }),
    );
    const process = { selector: { case: "tag", value: "parent" } } as const;
    await expect.poll(async () => (await client.list({})).processes.length).toBe(1);
    await sleep(100);
    await client.sendSignal({ process, signal: Signal.SIGTERM });
    const result = await events;
    expect(result.end).toMatchObject({ exitCode: -1, status: "signal: terminated" });
    const child = Number(result.stdout.toString());
    expect(isAlive(child)).toBe(true);
    globalThis.process.kill(child, "SIGKILL");
  });

  it("keeps the output of a command that handles the signal", async () => {
    await using guest = await startGuest();
    const client = guest.process();
    const text = "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.02; done";
    const events = client.start({ process: { cmd: "/bin/sh", args: ["-c", text] }, tag: "polite", stdin: false });
    const result = collect(events);
    const process = { selector: { case: "tag", value: "polite" } } as const;
    await expect.poll(async () => (await client.list({})).processes.length).toBe(1);
    await sleep(150);
    await client.sendSignal({ process, signal: Signal.SIGTERM });
    expect(await result).toMatchObject({ end: { exitCode: 5 } });
    expect((await result).stdout.toString()).toBe("ready\nbye\n");
  });

  it("cannot end the daemon by signalling its own group", async () => {
    await using guest = await startGuest();
    expect((await sh(guest.process(), "kill -TERM 0; sleep 5")).end).toMatchObject({ status: "signal: terminated" });
    expect((await sh(guest.process(), "echo still here")).stdout.toString()).toBe("still here\n");
  });

  it("is over for everyone when the daemon closes, and open answers break without an end frame", async () => {
    const guest = await startGuest();
    const body = envelope({ process: { cmd: "/bin/sh", args: ["-c", "sleep 100 & wait"] }, stdin: false });
    const stream = await openStream(guest.port, "/process.Process/Start", body);
    const frames = stream.frames();
    const { value } = await frames.next();
    const pid = pidIn(value);
    await guest.close();
    await expect(frames.next()).rejects.toThrow();
    await expect.poll(() => isAlive(pid)).toBe(false);
  });
});

describe("selectors and signals", () => {
  it.each([
    ["an unknown pid", { process: { pid: 4_000_000 }, signal: "SIGNAL_SIGKILL" }, 404, "not_found"],
    ["an unknown tag", { process: { tag: "none" }, signal: 9 }, 404, "not_found"],
    ["no selector", { process: {}, signal: "SIGNAL_SIGKILL" }, 501, "unimplemented"],
    ["no process", { signal: "SIGNAL_SIGKILL" }, 501, "unimplemented"],
  ])("refuse %s", async (_what, body, status, code) => {
    await using guest = await startGuest();
    const reply = await guest.call("POST", "/process.Process/SendSignal", {
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    expect([reply.status, reply.headers["content-type"]]).toEqual([status, "application/json"]);
    expect(reply.json()).toEqual({ code, message: expect.any(String) });
  });

  it("refuse signals that are not served, and keep the process", async () => {
    await using guest = await startGuest();
    const client = guest.process();
    await openStream(
      guest.port,
      "/process.Process/Start",
      envelope({ process: { cmd: "sleep", args: ["100"] }, tag: "t" }),
    );
    const process = { selector: { case: "tag", value: "t" } } as const;
    await expect.poll(async () => (await client.list({})).processes.length).toBe(1);
    const error = await failure(client.sendSignal({ process, signal: Signal.UNSPECIFIED }));
    expect(error.code).toBe(Code.Unimplemented);
    expect((await client.list({})).processes).toHaveLength(1);
  });

  it("find the process with a tag among others", async () => {
    await using guest = await startGuest();
    const client = guest.process();
    for (const tag of ["a", "b", "c"]) {
      await openStream(
        guest.port,
        "/process.Process/Start",
        envelope({ process: { cmd: "sleep", args: ["100"] }, tag }),
      );
    }
    await expect.poll(async () => (await client.list({})).processes.length).toBe(3);
    await client.sendSignal({ process: { selector: { case: "tag", value: "c" } }, signal: Signal.SIGKILL });
    await expect
      .poll(async () =>
        (await client.list({})).processes.map(({ tag }) => tag).toSorted((a = "", b = "") => a.localeCompare(b)),
      )
      .toEqual(["a", "b"]);
  });
});

describe("keepalive", () => {
  it("is sent while a command is silent, at the interval asked for", async () => {
    await using guest = await startGuest();
    const body = envelope({ process: { cmd: "sleep", args: ["2.5"] }, stdin: false });
    const stream = await openStream(guest.port, "/process.Process/Start", body, { "keepalive-ping-interval": "1" });
    const frames = await stream.all();
    expect(frames.filter(({ json }) => JSON.stringify(json) === '{"event":{"keepalive":{}}}').length).toBe(2);
  });
});
