import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import type { Sandbox as CodeSandboxClass } from "@e2b/code-interpreter";
import { request } from "undici";

import { rejects, type Row, type RowContext } from "./context.ts";

type CodeSandbox = InstanceType<typeof CodeSandboxClass>;

const PORT = "49999";

/** Made without a template's name: the client asks for its own. */
async function shared(context: RowContext): Promise<CodeSandbox> {
  return (await context.shared()) as CodeSandbox;
}

async function fresh(context: RowContext, options: { envs?: Record<string, string> } = {}): Promise<CodeSandbox> {
  return (await context.create(options)) as CodeSandbox;
}

/** A call of the interpreter without the client. */
async function raw(
  context: RowContext,
  sandboxId: string,
  token: string | undefined,
): Promise<{ status: number; text: string }> {
  const response = await request(`${context.rig.proxyUrl}/execute`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "e2b-sandbox-id": sandboxId,
      "e2b-sandbox-port": PORT,
      ...(token === undefined ? {} : { "x-access-token": token }),
    },
    body: JSON.stringify({ code: "1" }),
  });
  return { status: response.statusCode, text: await response.body.text() };
}

/** Every kind of picture and text that a value can have. */
const MEDIA = `
class Shown:
    def __repr__(self): return "plain"
    def _repr_html_(self): return "<b>html</b>"
    def _repr_markdown_(self): return "**markdown**"
    def _repr_svg_(self): return "<svg/>"
    def _repr_png_(self): return b"\\x89PNG"
    def _repr_jpeg_(self): return b"\\xff\\xd8"
    def _repr_latex_(self): return "$x$"
    def _repr_json_(self): return {"a": [1]}
    def _repr_javascript_(self): return "alert(1)"
display("first")
Shown()`;

/** `runCode` and contexts of the code interpreter's client. */
export const interpreterRows: Readonly<Record<string, Row>> = {
  CI1: async (context) => {
    const sandbox = await shared(context);
    const execution = await sandbox.runCode("1 + 1");
    assert.equal(execution.text, "2");
    assert.equal(execution.error, undefined);
    assert.deepEqual(execution.logs, { stdout: [], stderr: [] });
  },

  CI2: async (context) => {
    const sandbox = await shared(context);
    const set = await sandbox.runCode("kept = [1, 2]\nimport math");
    assert.deepEqual(set.results, []);
    assert.equal((await sandbox.runCode("kept.append(3); kept")).text, "[1, 2, 3]");
    assert.equal((await sandbox.runCode("f'{math.pi:.2f}'")).text, "3.14");
    assert.equal((await sandbox.runCode("import asyncio\nawait asyncio.sleep(0.01)\n'awaited'")).text, "awaited");
  },

  CI3: async (context) => {
    const sandbox = await shared(context);
    const seen: string[] = [];
    const begun = performance.now();
    let first = Number.POSITIVE_INFINITY;
    const code = "import sys, time\nprint('one')\nprint('two', file=sys.stderr)\ntime.sleep(1)\nprint('three')\n4";
    const execution = await sandbox.runCode(code, {
      onStdout: ({ line, error }) => {
        first = Math.min(first, performance.now() - begun);
        seen.push(`out ${line} ${error}`);
      },
      onStderr: ({ line, error }) => void seen.push(`err ${line} ${error}`),
      onResult: (result) => void seen.push(`result ${result.text} ${result.isMainResult}`),
    });
    assert.ok(performance.now() - begun - first > 700, "the first line came before the cell ended");
    assert.deepEqual(seen.toSorted(), ["err two\n true", "out one\n false", "out three\n false", "result 4 true"]);
    assert.deepEqual(execution.logs, { stdout: ["one\n", "three\n"], stderr: ["two\n"] });
    const child = await sandbox.runCode(
      "import subprocess\nsubprocess.run('echo sub; echo suberr >&2', shell=True)\n!echo bang",
    );
    assert.equal(child.error, undefined);
    assert.deepEqual([child.logs.stdout.join(""), child.logs.stderr.join("")], ["sub\nbang\n", "suberr\n"]);
  },

  CI4: async (context) => {
    const sandbox = await shared(context);
    const errors: string[] = [];
    const execution = await sandbox.runCode("mark = 5\ndef broken():\n    return 1 / 0\nbroken()", {
      onError: ({ name }) => void errors.push(name),
    });
    assert.deepEqual(errors, ["ZeroDivisionError"]);
    assert.equal(execution.error?.value, "division by zero");
    assert.match(
      execution.error?.traceback ?? "",
      /line 4[\s\S]*line 3, in broken\n +return 1 \/ 0[\s\S]*ZeroDivisionError: division by zero/,
    );
    assert.equal((await sandbox.runCode("mark")).text, "5");
    assert.equal((await sandbox.runCode("def (:")).error?.name, "SyntaxError");
  },

  CI5: async (context) => {
    const sandbox = await shared(context);
    const { results } = await sandbox.runCode(MEDIA);
    assert.equal(results.length, 2);
    assert.deepEqual([results[0]?.text, results[0]?.isMainResult], ["first", false]);
    const [, main] = results;
    assert.ok(main);
    assert.equal(main.isMainResult, true);
    const { text, html, markdown, svg, png, jpeg, latex, json, javascript } = main;
    assert.deepEqual(
      { text, html, markdown, svg, png, jpeg, latex, json, javascript },
      {
        text: "plain",
        html: "<b>html</b>",
        markdown: "**markdown**",
        svg: "<svg/>",
        png: "iVBORw==",
        jpeg: "/9g=",
        latex: "$x$",
        json: { a: [1] },
        javascript: "alert(1)",
      },
    );
    assert.deepEqual(main.extra, {});
  },

  CI6: async (context) => {
    const sandbox = await fresh(context);
    const counts: unknown[] = [];
    for (const code of ["1", "1/0", "2"]) counts.push((await sandbox.runCode(code)).executionCount);
    assert.deepEqual(counts, [1, 2, 3]);
    await sandbox.kill();
  },

  CI7: async (context) => {
    const sandbox = await shared(context);
    const js = (code: string) => sandbox.runCode(code, { language: "js" });
    const first = await js(
      "const kept = await Promise.resolve([1, 2]); console.log('out'); console.error('err'); kept",
    );
    assert.equal(first.text, "[ 1, 2 ]");
    assert.deepEqual(first.logs, { stdout: ["out\n"], stderr: ["err\n"] });
    assert.equal((await js("const kept = 3; kept + 1")).text, "4");
    assert.equal((await js("import { join } from 'node:path'\njoin('a', process.cwd())")).text, "a/home/user");
    const { error } = await js("function broken() { throw new TypeError('bad') }\nbroken()");
    assert.deepEqual([error?.name, error?.value], ["TypeError", "bad"]);
    assert.match(error?.traceback ?? "", /at broken \(cell_\d+\.js:1:\d+\)/);
    assert.equal((await js("let x = ;")).error?.name, "SyntaxError");
    const html = await js("({ [Symbol.for('Jupyter.display')]: () => ({ 'text/html': '<i>' }) })");
    assert.equal(html.results[0]?.html, "<i>");
    const typed = await sandbox.runCode("enum E { A = 3 }\nconst n: number = E.A\nn", { language: "ts" });
    assert.equal(typed.text, "3");
  },

  CI8: async (context) => {
    const sandbox = await shared(context);
    const before = await sandbox.listCodeContexts();
    assert.deepEqual(
      before.slice(0, 2).map(({ language, cwd }) => [language, cwd]),
      [
        ["python", "/home/user"],
        ["javascript", "/home/user"],
      ],
    );
    const made = await sandbox.createCodeContext({ cwd: "/root", language: "python" });
    assert.deepEqual([made.language, made.cwd], ["python", "/root"]);
    assert.deepEqual((await sandbox.listCodeContexts()).at(-1), made);
    assert.equal((await sandbox.runCode("import os\nown = 1\nos.getcwd()", { context: made })).text, "/root");
    assert.equal((await sandbox.runCode("own")).error?.name, "NameError");
    await sandbox.restartCodeContext(made);
    assert.equal((await sandbox.runCode("own", { context: made })).error?.name, "NameError");
    await sandbox.removeCodeContext(made.id);
    const { NotFoundError, SandboxError } = context.sdk;
    await rejects(sandbox.runCode("1", { context: made }), NotFoundError, /not found/);
    await rejects(sandbox.removeCodeContext(made), NotFoundError);
    await rejects(sandbox.restartCodeContext(made), NotFoundError);
    await rejects(sandbox.createCodeContext({ cwd: "/nowhere" }), SandboxError, /400/);
    assert.deepEqual(await sandbox.listCodeContexts(), before);
  },

  CI9: async (context) => {
    const sandbox = await fresh(context, { envs: { FROM_CREATE: "created", OTHER: "o" } });
    const python = "import os; os.environ.get('FROM_CREATE'), os.environ.get('ONCE')";
    assert.equal((await sandbox.runCode(python)).text, "('created', None)");
    const envs = { FROM_CREATE: "over", ONCE: "1" };
    assert.equal((await sandbox.runCode(python, { envs })).text, "('over', '1')");
    assert.equal((await sandbox.runCode(python)).text, "('created', None)");
    const js = "[process.env.FROM_CREATE, process.env.ONCE].join()";
    assert.equal((await sandbox.runCode(js, { language: "js", envs })).text, "over,1");
    assert.equal((await sandbox.runCode(js, { language: "js" })).text, "created,");
    await sandbox.kill();
  },

  CI10: async (context) => {
    const sandbox = await shared(context);
    await sandbox.runCode("kept = 7");
    await sandbox.runCode("const still = 8", { language: "js" });
    const { TimeoutError } = context.sdk;
    await rejects(sandbox.runCode("import time\ntime.sleep(60)", { timeoutMs: 700 }), TimeoutError, /timed out/);
    assert.equal((await sandbox.runCode("kept", { timeoutMs: 15_000 })).text, "7");
    await rejects(sandbox.runCode("for (;;) {}", { language: "js", timeoutMs: 700 }), TimeoutError);
    assert.equal((await sandbox.runCode("still", { language: "js", timeoutMs: 15_000 })).text, "8");
  },

  CI11: async (context) => {
    const sandbox = await shared(context);
    for (const language of ["r", "java", "bash"]) {
      const { error } = await sandbox.runCode("1", { language });
      assert.equal(error?.name, "UnsupportedLanguage");
      assert.match(error?.value ?? "", new RegExp(`"${language}" is not supported`));
      await rejects(sandbox.createCodeContext({ language }), context.sdk.SandboxError, /400/);
    }
  },

  CI12: async (context) => {
    const sandbox = await shared(context);
    const token = (sandbox as unknown as { envdAccessToken?: string }).envdAccessToken;
    assert.equal((await raw(context, sandbox.sandboxId, token)).status, 200);
    for (const wrong of [undefined, "not-the-token"]) {
      assert.equal((await raw(context, sandbox.sandboxId, wrong)).status, 401);
    }
  },

  CI13: async (context) => {
    const sandbox = await fresh(context);
    const running = sandbox.runCode("import time\nprint('up')\ntime.sleep(60)", {
      onStdout: () => void sandbox.kill(),
    });
    await rejects(running, context.sdk.TimeoutError);
  },

  CI14: async (context) => {
    const sandbox = await fresh(context);
    await sandbox.runCode("kept = 'through the pause'");
    await sandbox.pause();
    const again = await sandbox.connect();
    assert.equal((await again.runCode("kept")).text, "through the pause");
    await again.kill();
  },

  CI15: async (context) => {
    const sandbox = await shared(context);
    const code = "for i in range(20000):\n    print('é漢🙂\\u2028' * 10)\n'é漢🙂\\u2028' * 20000";
    const execution = await sandbox.runCode(code);
    assert.equal(execution.logs.stdout.join(""), `${"é漢🙂\u2028".repeat(10)}\n`.repeat(20_000));
    assert.equal(execution.text, "é漢🙂\u2028".repeat(20_000));
  },

  CI16: async (context) => {
    const sandbox = await shared(context);
    await sandbox.runCode("lost = 1");
    const { error } = await sandbox.runCode("import os\nprint('last words', flush=True)\nos._exit(3)");
    assert.equal(error?.name, "KernelDied");
    assert.match(error?.value ?? "", /exited with status 3/);
    assert.equal((await sandbox.runCode("lost")).error?.name, "NameError");
  },

  CI17: async (context) => {
    const sandbox = await shared(context);
    const made = await sandbox.createCodeContext();
    const slow = sandbox.runCode("import time\nt = time.time()\ntime.sleep(0.5)\nt", { context: made });
    await delay(100);
    const queued = sandbox.runCode("time.time() - t", { context: made });
    const aside = await sandbox.runCode("'other contexts do not wait'");
    assert.equal(aside.text, "other contexts do not wait");
    assert.equal((await slow).error, undefined);
    assert.ok(Number((await queued).text) >= 0.5, "the second cell waited for the first");
    await sandbox.removeCodeContext(made);
  },
};
