import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { rejects, type Row } from "./context.ts";

/** `commands` of the SDK. */
export const commandRows: Readonly<Record<string, Row>> = {
  CM1: async (context) => {
    const result = await (await context.shared()).commands.run("printf 'one\\ntwo'");
    assert.deepEqual([result.stdout, result.stderr, result.exitCode], ["one\ntwo", "", 0]);
  },

  CM2: async (context) => {
    const out: string[] = [];
    const err: string[] = [];
    const result = await (
      await context.shared()
    ).commands.run("echo to-out; echo to-err >&2", {
      onStdout: (text) => void out.push(text),
      onStderr: (text) => void err.push(text),
    });
    assert.deepEqual([result.stdout, result.stderr], ["to-out\n", "to-err\n"]);
    assert.deepEqual([out.join(""), err.join("")], ["to-out\n", "to-err\n"]);
  },

  CM3: async (context) => {
    const { commands } = await context.shared();
    const error = await rejects(commands.run("echo partly; echo why >&2; exit 7"), context.sdk.CommandExitError);
    assert.deepEqual([error.exitCode, error.stdout, error.stderr], [7, "partly\n", "why\n"]);
    const missing = await rejects(commands.run("no-such-program-here"), context.sdk.CommandExitError);
    assert.equal(missing.exitCode, 127);
  },

  CM4: async (context) => {
    const { commands } = await context.shared();
    const envs = { GREETING: "hello 'world' $HOME é", EMPTY: "", LINES: "a\nb" };
    const set = await commands.run('printf %s "$GREETING|$EMPTY|$LINES"', { envs });
    assert.equal(set.stdout, "hello 'world' $HOME é||a\nb");
    const after = await commands.run('printf %s "${GREETING-none}"');
    assert.equal(after.stdout, "none");
  },

  CM5: async (context) => {
    const { commands } = await context.shared();
    assert.equal((await commands.run("pwd")).stdout, "/home/user\n", "default");
    assert.equal((await commands.run("pwd", { cwd: "/tmp" })).stdout, "/tmp\n", "given");
    await rejects(commands.run("pwd", { cwd: "/no/such/folder" }), context.sdk.InvalidArgumentError, /does not exist/);
  },

  CM6: async (context) => {
    const { commands } = await context.shared();
    const user = await commands.run('echo "$(whoami) $HOME $USER"');
    assert.equal(user.stdout, "user /home/user user\n");
    const root = await commands.run('echo "$(whoami) $HOME"', { user: "root" });
    assert.equal(root.stdout, "root /root\n");
    await rejects(commands.run("true", { user: "nobody-here" }), context.sdk.AuthenticationError, /nobody-here/);
  },

  CM7: async (context) => {
    const { commands } = await context.shared();
    await rejects(commands.run("sleep 30", { timeoutMs: 1_000 }), context.sdk.TimeoutError);
    assert.equal((await commands.run("echo ok")).stdout, "ok\n", "the sandbox goes on");
  },

  CM8: async (context) => {
    const { commands } = await context.shared();
    const handle = await commands.run("sleep 0.3; echo late; exit 3", { background: true });
    assert.ok(handle.pid > 0);
    const error = await rejects(handle.wait(), context.sdk.CommandExitError);
    assert.deepEqual([error.exitCode, error.stdout], [3, "late\n"]);
  },

  CM9: async (context) => {
    const { commands } = await context.shared();
    const handle = await commands.run("cat", { background: true, stdin: true });
    await commands.sendStdin(handle.pid, "text é\n");
    await commands.sendStdin(handle.pid, "");
    await handle.sendStdin(new Uint8Array([98, 121, 116, 101, 115, 10]));
    await handle.closeStdin();
    const result = await handle.wait();
    assert.equal(result.stdout, "text é\nbytes\n");
    const none = await commands.run("cat; echo end");
    assert.equal(none.stdout, "end\n", "no standard input unless asked for");
  },

  CM10: async (context) => {
    const { commands } = await context.shared();
    const handle = await commands.run("sleep 60", { background: true });
    assert.equal(await commands.kill(handle.pid), true);
    const error = await rejects(handle.wait(), context.sdk.CommandExitError);
    assert.notEqual(error.exitCode, 0);
    assert.equal(await commands.kill(handle.pid), false, "second kill");
    await rejects(commands.run(`kill -0 ${handle.pid}`, { user: "root" }), context.sdk.CommandExitError);
  },

  CM11: async (context) => {
    const { commands } = await context.shared();
    const handles = await Promise.all(
      ["sleep 41", "sleep 42"].map((command) => commands.run(command, { background: true, envs: { TAG: "x" } })),
    );
    const listed = await commands.list();
    for (const handle of handles) {
      const found = listed.find((process_) => process_.pid === handle.pid);
      assert.equal(found?.cmd, "/bin/bash");
      assert.match(found?.args.at(-1) ?? "", /^sleep 4[12]$/);
      assert.equal(await handle.kill(), true);
    }
    await delay(200);
    const left = (await commands.list()).map((process_) => process_.pid);
    assert.ok(!handles.some((handle) => left.includes(handle.pid)), "killed commands leave the list");
  },

  CM12: async (context) => {
    const { commands } = await context.shared();
    const first = await commands.run("sleep 0.7; echo seen; exit 5", { background: true });
    const second = await commands.connect(first.pid);
    assert.equal(second.pid, first.pid);
    for (const handle of [first, second]) {
      const error = await rejects(handle.wait(), context.sdk.CommandExitError);
      assert.deepEqual([error.exitCode, error.stdout], [5, "seen\n"]);
    }
    await rejects(commands.connect(999_999), context.sdk.NotFoundError);
  },

  CM13: async (context) => {
    const { commands } = await context.shared();
    const text = "!@#$%^&*()_+-=[]{}|;:,.<>?/~`'\"\\ \t é漢🙂";
    const result = await commands.run(`cat <<'END_OF_TEXT'\n${text}\nsecond line\nEND_OF_TEXT`);
    assert.equal(result.stdout, `${text}\nsecond line\n`);
  },

  CM14: async (context) => {
    const { commands } = await context.shared();
    const chunks: string[] = [];
    const bytes = [...Buffer.from("é漢🙂")].map((byte) => `\\x${byte.toString(16)}`);
    const script = bytes.map((byte) => `printf '${byte}'; sleep 0.03`).join("; ");
    const result = await commands.run(script, { onStdout: (text) => void chunks.push(text) });
    assert.equal(result.stdout, "é漢🙂");
    assert.equal(chunks.join(""), "é漢🙂");
    const block = await commands.run("printf 'x%.0s' $(seq 1 8191); printf 'é'; printf '\\xff'");
    assert.equal(block.stdout, `${"x".repeat(8_191)}é\uFFFD`);
  },

  CM15: async (context) => {
    const { commands } = await context.shared();
    const result = await commands.run(`printf %s '${"a".repeat(100_000)}' | wc -c`);
    assert.equal(result.stdout.trim(), "100000");
  },

  CM16: async (context) => {
    const { commands } = await context.shared();
    const result = await commands.run("head -c 8388608 /dev/zero | tr '\\0' 'z'; echo; echo done >&2");
    assert.equal(result.stdout.length, 8_388_609);
    assert.equal(result.stdout.slice(-4), "zzz\n");
    assert.equal(result.stderr, "done\n");
  },

  CM17: async (context) => {
    const { commands, files } = await context.shared();
    const handle = await commands.run("sleep 0.8; echo survived > /tmp/survived", { background: true });
    await handle.disconnect();
    await delay(1_500);
    assert.equal(await files.read("/tmp/survived"), "survived\n");
  },

  CM18: async (context) => {
    const { commands } = await context.shared();
    const results = await Promise.all(
      Array.from({ length: 20 }, (_unused, index) => commands.run(`sleep 0.1; echo ${index}`)),
    );
    assert.deepEqual(
      results.map((result) => result.stdout),
      Array.from({ length: 20 }, (_unused, index) => `${index}\n`),
    );
  },
};
