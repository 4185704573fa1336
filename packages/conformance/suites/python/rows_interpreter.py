"""`run_code` and contexts of the code interpreter's client, whose package only the environment of that client has."""

import re
import threading
import time

from context import raises, same
from e2b import NotFoundException, SandboxException, TimeoutException

MEDIA = """
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
Shown()"""


def shared(context):
    """Made without a template's name: the client asks for its own."""
    if context._shared is None:
        context.share(fresh(context, timeout=600))
    return context._shared


def fresh(context, **options):
    from e2b_code_interpreter import Sandbox

    sandbox = Sandbox.create(**{"timeout": 120, **context.options(), **options})
    context._made.add(sandbox.sandbox_id)
    return sandbox


def ci1(context):
    execution = shared(context).run_code("1 + 1")
    same((execution.text, execution.error), ("2", None))
    same((execution.logs.stdout, execution.logs.stderr), ([], []))


def ci2(context):
    sandbox = shared(context)
    same(sandbox.run_code("kept = [1, 2]\nimport math").results, [])
    same(sandbox.run_code("kept.append(3); kept").text, "[1, 2, 3]")
    same(sandbox.run_code("f'{math.pi:.2f}'").text, "3.14")
    same(sandbox.run_code("import asyncio\nawait asyncio.sleep(0.01)\n'awaited'").text, "awaited")


def ci3(context):
    sandbox = shared(context)
    seen = []
    begun = time.monotonic()
    first = []

    def on_stdout(message):
        first.append(time.monotonic() - begun)
        now = time.time()
        if not now - 120 < message.timestamp / 1e9 < now + 120:
            raise AssertionError(f"timestamp {message.timestamp}")
        seen.append(("out", message.line, message.error))

    execution = sandbox.run_code(
        "import sys, time\nprint('one')\nprint('two', file=sys.stderr)\ntime.sleep(1)\nprint('three')\n4",
        on_stdout=on_stdout,
        on_stderr=lambda message: seen.append(("err", message.line, message.error)),
        on_result=lambda result: seen.append(("result", result.text, result.is_main_result)),
    )
    if time.monotonic() - begun - first[0] < 0.7:
        raise AssertionError("the first line came no sooner than the end")
    same(
        sorted(seen),
        [("err", "two\n", True), ("out", "one\n", False), ("out", "three\n", False), ("result", "4", True)],
    )
    same((execution.logs.stdout, execution.logs.stderr), (["one\n", "three\n"], ["two\n"]))
    child = sandbox.run_code("import subprocess\nsubprocess.run('echo sub; echo suberr >&2', shell=True)\n!echo bang")
    same((child.error, "".join(child.logs.stdout), "".join(child.logs.stderr)), (None, "sub\nbang\n", "suberr\n"))


def ci4(context):
    sandbox = shared(context)
    errors = []
    execution = sandbox.run_code(
        "mark = 5\ndef broken():\n    return 1 / 0\nbroken()", on_error=lambda error: errors.append(error.name)
    )
    same((errors, execution.error.value), (["ZeroDivisionError"], "division by zero"))
    pattern = r"line 4.*line 3, in broken\n +return 1 / 0.*ZeroDivisionError: division by zero"
    if not re.search(pattern, execution.error.traceback, re.S):
        raise AssertionError(execution.error.traceback)
    same(sandbox.run_code("mark").text, "5")
    same(sandbox.run_code("def (:").error.name, "SyntaxError")


def ci5(context):
    results = shared(context).run_code(MEDIA).results
    same([(result.text, result.is_main_result) for result in results], [("first", False), ("plain", True)])
    main = results[1]
    same(
        (main.html, main.markdown, main.svg, main.png, main.jpeg, main.latex, main.json, main.javascript),
        ("<b>html</b>", "**markdown**", "<svg/>", "iVBORw==", "/9g=", "$x$", {"a": [1]}, "alert(1)"),
    )


def ci6(context):
    sandbox = fresh(context)
    same([sandbox.run_code(code).execution_count for code in ("1", "1/0", "2")], [1, 2, 3])
    sandbox.kill()


def ci7(context):
    sandbox = shared(context)

    def js(code):
        return sandbox.run_code(code, language="javascript")

    first = js("const kept = await Promise.resolve([1, 2]); console.log('out'); console.error('err'); kept")
    same((first.text, first.logs.stdout, first.logs.stderr), ("[ 1, 2 ]", ["out\n"], ["err\n"]))
    same(js("const kept = 3; kept + 1").text, "4")
    same(js("import { join } from 'node:path'\njoin('a', process.cwd())").text, "a/home/user")
    error = js("function broken() { throw new TypeError('bad') }\nbroken()").error
    same((error.name, error.value), ("TypeError", "bad"))
    if not re.search(r"at broken \(cell_\d+\.js:1:\d+\)", error.traceback):
        raise AssertionError(error.traceback)
    same(js("let x = ;").error.name, "SyntaxError")
    same(js("({ [Symbol.for('Jupyter.display')]: () => ({ 'text/html': '<i>' }) })").results[0].html, "<i>")
    same(sandbox.run_code("enum E { A = 3 }\nconst n: number = E.A\nn", language="typescript").text, "3")


def ci8(context):
    sandbox = shared(context)
    before = [vars(one) for one in sandbox.list_code_contexts()]
    same(
        [(one["language"], one["cwd"]) for one in before[:2]], [("python", "/home/user"), ("javascript", "/home/user")]
    )
    made = sandbox.create_code_context(cwd="/root", language="python")
    same((made.language, made.cwd), ("python", "/root"))
    same(vars(sandbox.list_code_contexts()[-1]), vars(made))
    same(sandbox.run_code("import os\nown = 1\nos.getcwd()", context=made).text, "/root")
    same(sandbox.run_code("own").error.name, "NameError")
    sandbox.restart_code_context(made)
    same(sandbox.run_code("own", context=made).error.name, "NameError")
    sandbox.remove_code_context(made.id)
    raises(NotFoundException, lambda: sandbox.run_code("1", context=made), "not found")
    raises(NotFoundException, lambda: sandbox.remove_code_context(made))
    raises(NotFoundException, lambda: sandbox.restart_code_context(made))
    raises(SandboxException, lambda: sandbox.create_code_context(cwd="/nowhere"), "400.*/nowhere")
    same([vars(one) for one in sandbox.list_code_contexts()], before)


def ci9(context):
    sandbox = fresh(context, envs={"FROM_CREATE": "created", "OTHER": "o"})
    python = "import os; os.environ.get('FROM_CREATE'), os.environ.get('ONCE')"
    envs = {"FROM_CREATE": "over", "ONCE": "1"}
    same(sandbox.run_code(python).text, "('created', None)")
    same(sandbox.run_code(python, envs=envs).text, "('over', '1')")
    same(sandbox.run_code(python).text, "('created', None)")
    js = "[process.env.FROM_CREATE, process.env.ONCE].join()"
    same(sandbox.run_code(js, language="js", envs=envs).text, "over,1")
    same(sandbox.run_code(js, language="js").text, "created,")
    sandbox.kill()


def ci10(context):
    sandbox = shared(context)
    sandbox.run_code("kept = 7")
    sandbox.run_code("const still = 8", language="js")
    raises(TimeoutException, lambda: sandbox.run_code("import time\ntime.sleep(60)", timeout=0.7))
    same(sandbox.run_code("kept", timeout=15).text, "7")
    raises(TimeoutException, lambda: sandbox.run_code("for (;;) {}", language="js", timeout=0.7))
    same(sandbox.run_code("still", language="js", timeout=15).text, "8")


def ci11(context):
    sandbox = shared(context)
    for language in ("r", "java", "bash"):
        error = sandbox.run_code("1", language=language).error
        same(error.name, "UnsupportedLanguage")
        if f'"{language}" is not supported' not in error.value:
            raise AssertionError(error.value)
        raises(SandboxException, lambda: sandbox.create_code_context(language=language), f'400.*{language}')


def ci12(context):
    sandbox = shared(context)

    def execute(token):
        headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49999"}
        if token is not None:
            headers["X-Access-Token"] = token
        return context.proxy("POST", "/execute", headers, '{"code": "1"}')[0]

    same([execute(token) for token in (sandbox._envd_access_token, None, "not-the-token")], [200, 401, 401])


def ci13(context):
    sandbox = fresh(context)
    raises(
        TimeoutException,
        lambda: sandbox.run_code(
            "import time\nprint('up')\ntime.sleep(60)", on_stdout=lambda _message: sandbox.kill()
        ),
    )


def ci14(context):
    sandbox = fresh(context)
    sandbox.run_code("kept = 'through the pause'")
    sandbox.pause()
    again = sandbox.connect()
    same(again.run_code("kept").text, "through the pause")
    again.kill()


def ci15(context):
    word = "é漢🙂\u2028"
    execution = shared(context).run_code(
        "for i in range(20000):\n    print('é漢🙂\\u2028' * 10)\n'é漢🙂\\u2028' * 20000"
    )
    if "".join(execution.logs.stdout) != (word * 10 + "\n") * 20000:
        raise AssertionError("the output is not what was printed")
    if execution.text != word * 20000:
        raise AssertionError("the result is not the value")


def ci16(context):
    sandbox = shared(context)
    sandbox.run_code("lost = 1")
    error = sandbox.run_code("import os\nprint('last words', flush=True)\nos._exit(3)").error
    same(error.name, "KernelDied")
    if "exited with status 3" not in error.value:
        raise AssertionError(error.value)
    same(sandbox.run_code("lost").error.name, "NameError")


def ci17(context):
    sandbox = shared(context)
    made = sandbox.create_code_context()
    slow = []
    worker = threading.Thread(
        target=lambda: slow.append(sandbox.run_code("import time\nt = time.time()\ntime.sleep(0.5)\nt", context=made))
    )
    worker.start()
    time.sleep(0.1)
    queued = []
    waiter = threading.Thread(target=lambda: queued.append(sandbox.run_code("time.time() - t", context=made)))
    waiter.start()
    same(sandbox.run_code("'other contexts do not wait'").text, "other contexts do not wait")
    worker.join()
    waiter.join()
    same(slow[0].error, None)
    if float(queued[0].text) < 0.5:
        raise AssertionError(f"the second cell did not wait: {queued[0].text}")
    sandbox.remove_code_context(made)


INTERPRETER_ROWS = {
    "CI1": ci1,
    "CI2": ci2,
    "CI3": ci3,
    "CI4": ci4,
    "CI5": ci5,
    "CI6": ci6,
    "CI7": ci7,
    "CI8": ci8,
    "CI9": ci9,
    "CI10": ci10,
    "CI11": ci11,
    "CI12": ci12,
    "CI13": ci13,
    "CI14": ci14,
    "CI15": ci15,
    "CI16": ci16,
    "CI17": ci17,
}
