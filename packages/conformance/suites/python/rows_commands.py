"""`commands` of the SDK."""

import time
from concurrent.futures import ThreadPoolExecutor

from context import raises, same
from e2b import (
    AuthenticationException,
    CommandExitException,
    InvalidArgumentException,
    NotFoundException,
    TimeoutException,
)


def cm1(context):
    result = context.shared().commands.run("printf 'one\\ntwo'")
    same((result.stdout, result.stderr, result.exit_code), ("one\ntwo", "", 0))


def cm2(context):
    out, err = [], []
    result = context.shared().commands.run(
        "echo to-out; echo to-err >&2", on_stdout=out.append, on_stderr=err.append
    )
    same((result.stdout, result.stderr), ("to-out\n", "to-err\n"))
    same(("".join(out), "".join(err)), ("to-out\n", "to-err\n"))


def cm3(context):
    commands = context.shared().commands
    error = raises(CommandExitException, lambda: commands.run("echo partly; echo why >&2; exit 7"))
    same((error.exit_code, error.stdout, error.stderr), (7, "partly\n", "why\n"))
    same(raises(CommandExitException, lambda: commands.run("no-such-program-here")).exit_code, 127)


def cm4(context):
    commands = context.shared().commands
    envs = {"GREETING": "hello 'world' $HOME é", "EMPTY": "", "LINES": "a\nb"}
    same(commands.run('printf %s "$GREETING|$EMPTY|$LINES"', envs=envs).stdout, "hello 'world' $HOME é||a\nb")
    same(commands.run('printf %s "${GREETING-none}"').stdout, "none")


def cm5(context):
    commands = context.shared().commands
    same(commands.run("pwd").stdout, "/home/user\n", "default")
    same(commands.run("pwd", cwd="/tmp").stdout, "/tmp\n", "given")
    raises(InvalidArgumentException, lambda: commands.run("pwd", cwd="/no/such/folder"), "does not exist")


def cm6(context):
    commands = context.shared().commands
    same(commands.run('echo "$(whoami) $HOME $USER"').stdout, "user /home/user user\n")
    same(commands.run('echo "$(whoami) $HOME"', user="root").stdout, "root /root\n")
    raises(AuthenticationException, lambda: commands.run("true", user="nobody-here"), "nobody-here")


def cm7(context):
    commands = context.shared().commands
    raises(TimeoutException, lambda: commands.run("sleep 30", timeout=1))
    same(commands.run("echo ok").stdout, "ok\n", "the sandbox goes on")


def cm8(context):
    handle = context.shared().commands.run("sleep 0.3; echo late; exit 3", background=True)
    same(handle.pid > 0, True)
    error = raises(CommandExitException, handle.wait)
    same((error.exit_code, error.stdout), (3, "late\n"))


def cm9(context):
    commands = context.shared().commands
    handle = commands.run("cat", background=True, stdin=True)
    commands.send_stdin(handle.pid, "text é\n")
    commands.send_stdin(handle.pid, "")
    handle.send_stdin(b"bytes\n")
    handle.close_stdin()
    same(handle.wait().stdout, "text é\nbytes\n")
    same(commands.run("cat; echo end").stdout, "end\n", "no standard input unless asked for")


def cm10(context):
    commands = context.shared().commands
    handle = commands.run("sleep 60", background=True)
    same(commands.kill(handle.pid), True)
    same(raises(CommandExitException, handle.wait).exit_code != 0, True)
    same(commands.kill(handle.pid), False, "second kill")
    raises(CommandExitException, lambda: commands.run(f"kill -0 {handle.pid}", user="root"))


def cm11(context):
    commands = context.shared().commands
    handles = [commands.run(command, background=True, envs={"TAG": "x"}) for command in ("sleep 41", "sleep 42")]
    listed = {process.pid: process for process in commands.list()}
    for handle, command in zip(handles, ("sleep 41", "sleep 42")):
        same((listed[handle.pid].cmd, listed[handle.pid].args[-1]), ("/bin/bash", command))
        same(handle.kill(), True)
    time.sleep(0.2)
    left = {process.pid for process in commands.list()}
    same(left & {handle.pid for handle in handles}, set(), "killed commands leave the list")


def cm12(context):
    commands = context.shared().commands
    first = commands.run("sleep 0.7; echo seen; exit 5", background=True)
    second = commands.connect(first.pid)
    same(second.pid, first.pid)
    for handle in (first, second):
        error = raises(CommandExitException, handle.wait)
        same((error.exit_code, error.stdout), (5, "seen\n"))
    raises(NotFoundException, lambda: commands.connect(999_999))


def cm13(context):
    text = "!@#$%^&*()_+-=[]{}|;:,.<>?/~`'\"\\ \t é漢🙂"
    result = context.shared().commands.run(f"cat <<'END_OF_TEXT'\n{text}\nsecond line\nEND_OF_TEXT")
    same(result.stdout, f"{text}\nsecond line\n")


def cm14(context):
    commands = context.shared().commands
    chunks = []
    script = "; ".join(f"printf '\\x{byte:02x}'; sleep 0.03" for byte in "é漢🙂".encode())
    same(commands.run(script, on_stdout=chunks.append).stdout, "é漢🙂")
    same("".join(chunks), "é漢🙂")
    block = commands.run("printf 'x%.0s' $(seq 1 8191); printf 'é'; printf '\\xff'")
    same(block.stdout, "x" * 8191 + "é\ufffd")


def cm15(context):
    result = context.shared().commands.run(f"printf %s '{'a' * 100_000}' | wc -c")
    same(result.stdout.strip(), "100000")


def cm16(context):
    result = context.shared().commands.run("head -c 8388608 /dev/zero | tr '\\0' 'z'; echo; echo done >&2")
    same((len(result.stdout), result.stdout[-4:], result.stderr), (8_388_609, "zzz\n", "done\n"))


def cm17(context):
    sandbox = context.shared()
    handle = sandbox.commands.run("sleep 0.8; echo survived > /tmp/survived", background=True)
    handle.disconnect()
    time.sleep(1.5)
    same(sandbox.files.read("/tmp/survived"), "survived\n")


def cm18(context):
    commands = context.shared().commands
    with ThreadPoolExecutor(20) as pool:
        results = list(pool.map(lambda index: commands.run(f"sleep 0.1; echo {index}").stdout, range(20)))
    same(results, [f"{index}\n" for index in range(20)])


def s13(context):
    """Input as one client stream, which the newest versions offer."""
    commands = context.shared().commands
    handle = commands.run("cat", background=True, stdin=True)
    commands.stream_input(handle.pid, (f"line {index}\n" for index in range(100)))
    commands.close_stdin(handle.pid)
    same(handle.wait().stdout, "".join(f"line {index}\n" for index in range(100)))


COMMAND_ROWS = {
    **{
        f"CM{number}": row
        for number, row in enumerate(
            [cm1, cm2, cm3, cm4, cm5, cm6, cm7, cm8, cm9, cm10, cm11, cm12, cm13, cm14, cm15, cm16, cm17, cm18],
            start=1,
        )
    },
    "S13": s13,
}
