import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { messagesOf, outcomeOf, startInterpreter, type TestInterpreter } from "../testing/interpreter.ts";

let shared: TestInterpreter;
beforeAll(async () => {
  shared = await startInterpreter({}, { FROM_SANDBOX: "yes" });
});
afterAll(() => shared[Symbol.asyncDispose]());

describe("a cell of Python", () => {
  test.each<[string, string, Record<string, unknown>]>([
    ["shows its last expression", "1\n2 + 3", { text: "5" }],
    ["shows a string as it is", "'it' + \"'s\"", { text: "it's" }],
    ["keeps a value behind a semicolon to itself", "7 ;  # seven", {}],
    ["shows a value whose comment ends with a semicolon", "7  # seven;", { text: "7" }],
    ["shows a string that ends with a semicolon", "'a;'", { text: "a;" }],
    ["shows nothing for None", "None", {}],
    ["shows nothing after a statement", "x = 1", {}],
    ["may be empty", "", {}],
    ["may be a comment", "# nothing", {}],
    ["may await", "import asyncio\nawait asyncio.sleep(0)\n'after'", { text: "after" }],
    ["may await in its last line", "import asyncio\nawait asyncio.sleep(0, 'slept')", { text: "slept" }],
    ["may be indented as a whole", "    x = 1\n    if x:\n        x = 2\n    x", { text: "2" }],
    ["prints", "import sys\nprint('out')\nprint('err', file=sys.stderr)", { stdout: "out\n", stderr: "err\n" }],
    ["prints without a line end", "print('a', end='')", { stdout: "a" }],
    [
      "prints what its programs print",
      "import os\nprint('1')\nos.system('echo 2')\nprint('3')",
      { stdout: "1\n2\n3\n" },
    ],
    ["prints characters that cannot be encoded", "print('\\ud800')", { stdout: "\\ud800\n" }],
    ["runs a line of the shell", "x = 1\n!echo $((1 + 2))\nx", { stdout: "3\n", text: "1" }],
    ["runs a cell of the shell", "%%bash\nfor i in 1 2; do echo $i; done", { stdout: "1\n2\n" }],
    ["passes over magic without effect", "%matplotlib inline\n1", { text: "1" }],
    [
      "refuses other magic by name",
      "%timeit 1",
      { error: "NotImplementedError: the magic command %timeit is not supported here" },
    ],
    [
      "takes a percent sign and an exclamation mark as Python does",
      "a = 7\nb = (a\n% 4)\n'!' if b != 3 else b",
      { text: "3" },
    ],
    ["finds no input", "input()", { error: "EOFError: EOF when reading a line" }],
    ["sees the sandbox's variables", "import os\nos.environ['FROM_SANDBOX']", { text: "yes" }],
    [
      "is the main module",
      "import sys\nclass A: pass\nA.__module__, sys.modules['__main__'].A is A",
      { text: "('__main__', True)" },
    ],
    ["runs in the directory of its context", "import os\nos.getcwd()", { text: "/tmp" }],
    ["ends alone when it exits", "import sys\nsys.exit(3)", { error: "SystemExit: 3" }],
    [
      "tells of an error whose text fails",
      "class E(Exception):\n  def __str__(self): 1 / 0\nraise E",
      { error: "E: <the error has no text>" },
    ],
    [
      "tells of a value that cannot be shown",
      "class V:\n  def __repr__(self): raise ValueError('no')\nV()",
      { error: "ValueError: no" },
    ],
    ["replaces its streams without harm", "import sys\nsys.stdout = None\n1", { text: "1" }],
  ])("%s", async (_name, code, outcome) => {
    expect(outcomeOf(await shared.run(code))).toEqual(outcome);
    await shared.run("import sys\nsys.stdout = sys.__stdout__");
  });

  test("an error's traceback begins in the cell and shows its lines", async () => {
    const messages = await shared.run("def f():\n    raise ValueError('v')\n\nf()");
    const error = messages.find((message) => message.type === "error");
    expect(error?.type === "error" && error.traceback).toMatch(
      /^Traceback \(most recent call last\):\n  File "<cell \d+>", line 4, in <module>\n    f\(\)\n(?: +[\^~]+\n)?  File "<cell \d+>", line 2, in f\n    raise ValueError\('v'\)\nValueError: v\n$/,
    );
  });

  test("numbers that JSON lacks do not end the answer", async () => {
    const code =
      "class J:\n  def _repr_json_(self): return {'a': float('nan'), 1: [float('inf'), 2], 'o': object}\nJ()";
    const main = (await shared.run(code)).find((message) => message.type === "result");
    expect(main).toMatchObject({ json: { a: null, "1": [null, 2], o: "<class 'object'>" } });
  });

  test("IPython's display classes show themselves", async () => {
    const code =
      "from IPython.display import HTML, Image, Markdown, display\ndisplay(HTML('<b>'), Markdown('*m*'))\nImage(b'\\x89PNG')";
    const results = (await shared.run(code)).filter((message) => message.type === "result");
    expect(results).toMatchObject([{ html: "<b>" }, { markdown: "*m*" }, { png: "iVBORw==", is_main_result: true }]);
  });
});

describe("a cell of JavaScript", () => {
  test.each<[string, string, Record<string, unknown>]>([
    ["shows the value of its last statement", "1; 2 + 3", { text: "5" }],
    ["shows nothing for undefined", "undefined", {}],
    ["shows null", "null", { text: "null" }],
    ["shows numbers that JSON lacks", "[NaN, -0, 1n, Infinity].at(-1)", { text: "Infinity" }],
    ["shows big integers", "10n ** 20n", { text: "100000000000000000000n" }],
    ["shows symbols", "Symbol('s')", { text: "Symbol(s)" }],
    ["may declare a constant again", "const c = 1\nconst d = c + 1\nd", { text: "2" }],
    ["may await", "const v = await Promise.resolve(4); v", { text: "4" }],
    ["prints", "console.log('out'); console.error('err')", { stdout: "out\n", stderr: "err\n" }],
    ["imports", "import { sep } from 'node:path'\n(await import('node:path')).sep === sep", { text: "true" }],
    ["requires", "require('node:path').basename('/a/b')", { text: "b" }],
    [
      "says which package is not there",
      "import x from 'npm:no-such-package@1'",
      { error: "Error: Cannot find package 'no-such-package' imported from /tmp/cell.mjs" },
    ],
    ["sees the sandbox's variables", "process.env.FROM_SANDBOX", { text: "yes" }],
    ["says what is wrong with its syntax", "let x = ;", { error: "SyntaxError: Unexpected token ';'" }],
    ["may throw what is no error", "throw { a: 1 }", { error: "Error: { a: 1 }" }],
    ["may be empty", "", {}],
  ])("%s", async (_name, code, outcome) => {
    expect(outcomeOf(await shared.run(code, { language: "js" }))).toEqual(outcome);
  });

  test("what fails after its cell is printed and ends nothing", async () => {
    const late =
      "setTimeout(() => { throw new Error('late') }, 1); Promise.reject(new Error('loose')); await new Promise((r) => setTimeout(r, 50)); 1";
    const { text, stderr } = outcomeOf(await shared.run(late, { language: "js" }));
    expect([text, stderr]).toEqual(["1", expect.stringMatching(/loose[\s\S]*late/)]);
    expect(outcomeOf(await shared.run("2", { language: "js" }))).toEqual({ text: "2" });
  });

  test("may have types", async () => {
    const code = "enum E { A = 3 }\ninterface I { a: number }\nconst i: I = { a: E.A }\ni.a as number";
    expect(outcomeOf(await shared.run(code, { language: "typescript" }))).toEqual({ text: "3" });
  });
});

describe("a request", () => {
  test.each<[string, string, string, unknown, number]>([
    ["without code", "POST", "/execute", {}, 400],
    ["whose code is no text", "POST", "/execute", { code: 1 }, 400],
    ["that is not JSON", "POST", "/execute", "{", 400],
    ["with context and language", "POST", "/execute", { code: "1", context_id: "x", language: "python" }, 400],
    ["for an unknown context", "POST", "/execute", { code: "1", context_id: "x" }, 404],
    ["for a language that is not there", "POST", "/contexts", { language: "r" }, 400],
    ["for a directory that is not there", "POST", "/contexts", { cwd: "/nowhere" }, 400],
    ["for a directory that is a file", "POST", "/contexts", { cwd: "/etc/passwd" }, 400],
    ["for a relative directory", "POST", "/contexts", { cwd: "tmp" }, 400],
    ["to end an unknown context", "DELETE", "/contexts/x", undefined, 404],
    ["to restart an unknown context", "POST", "/contexts/x/restart", undefined, 404],
    ["with a wrong method", "PUT", "/execute", {}, 405],
    ["for another path", "GET", "/contexts/x/y", undefined, 404],
  ])("%s is refused", async (_name, method, path, body, status) => {
    const reply = await shared.fetch(method, path, body);
    const { code, message } = (await reply.json()) as { code: number; message: string };
    expect([reply.status, code, typeof message]).toEqual([status, status, "string"]);
  });

  test("without the sandbox's token runs nothing", async () => {
    const reply = await shared.fetch("POST", "/execute", { code: "1" }, { token: "another" });
    expect([reply.status, await reply.json()]).toEqual([401, { code: 401, message: expect.stringContaining("token") }]);
  });

  test("with a body beyond the limit is refused", async () => {
    const reply = await shared.fetch("POST", "/execute", { code: "#".repeat(33 * 1024 * 1024) });
    expect(reply.status).toBe(413);
  });

  test("may have a query, and health needs no token", async () => {
    expect(await (await shared.fetch("GET", "/health?source=x", undefined, { token: "" })).json()).toBe("OK");
  });

  test("for a language that is not offered is answered with an error by name", async () => {
    expect(outcomeOf(await shared.run("1", { language: "java" }))).toEqual({
      error: 'UnsupportedLanguage: language "java" is not supported here: want python, javascript, typescript',
    });
  });
});

test("a daemon that is not there has no variables, and no say", async () => {
  await using alone = await startInterpreter({ daemonPort: 1 });
  expect(outcomeOf(await alone.run("import os\nos.environ.get('FROM_SANDBOX', 'none')"))).toEqual({ text: "none" });
});

test("silence is filled with messages that mean nothing", async () => {
  await using interpreter = await startInterpreter({ keepaliveMs: 20 });
  const messages = await interpreter.run("import time\ntime.sleep(0.3)");
  expect(messages.filter(({ type }) => type === "keepalive").length).toBeGreaterThan(2);
});

test("a Python that is not there is said so, and JavaScript works all the same", async () => {
  await using interpreter = await startInterpreter({
    commands: (language) =>
      language === "python"
        ? { command: "no-such-python", args: [] }
        : { command: process.execPath, args: ["-e", "1"] },
  });
  expect(outcomeOf(await interpreter.run("1")).error).toBe(
    "KernelDied: the python kernel ended: no-such-python is not installed in this sandbox. What it held is lost",
  );
});

test("an answer begins with the count and ends with its end", async () => {
  await using interpreter = await startInterpreter();
  expect(await interpreter.run("1")).toMatchObject([
    { type: "number_of_executions", execution_count: 1 },
    { type: "result" },
    { type: "end_of_execution" },
  ]);
  const reply = await interpreter.fetch("POST", "/execute", { code: "2" });
  expect(reply.headers.get("content-type")).toContain("ndjson");
  expect(messagesOf(await reply.text())[0]).toEqual({ type: "number_of_executions", execution_count: 2 });
});
