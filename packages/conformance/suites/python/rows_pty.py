"""`pty` of the SDK."""

import re
import threading
import time

from context import raises, same
from e2b import CommandExitException, PtySize


class Screen:
    """Gathers what a terminal prints, in a thread that waits for its end."""

    def __init__(self, handle):
        self._data = b""
        self.end = None
        self._thread = threading.Thread(target=self._run, args=(handle,), daemon=True)
        self._thread.start()

    def _run(self, handle):
        try:
            self.end = handle.wait(on_pty=self._on_data)
        except Exception as error:
            self.end = error

    def _on_data(self, data):
        self._data += bytes(data)

    def shows(self, pattern):
        for _ in range(100):
            text = self._data.decode("utf-8", "replace")
            if re.search(pattern, text):
                return
            time.sleep(0.1)
        raise AssertionError(f"no {pattern} on the screen: {self._data[-300:]!r} {self.end!r}")

    def ended(self):
        self._thread.join(10)
        return self.end


def pt1(context):
    pty = context.shared().pty
    handle = pty.create(PtySize(rows=24, cols=80), envs={"MARK": "abc"}, timeout=0)
    screen = Screen(handle)
    pty.send_stdin(handle.pid, b'echo "<$MARK|$TERM|$LANG|$(whoami)|$(pwd)>"\n')
    screen.shows(r"<abc\|xterm-256color\|C\.UTF-8\|user\|/home/user>")
    pty.send_stdin(handle.pid, "echo é漢🙂\n".encode())
    screen.shows("\n.*é漢🙂")
    pty.send_stdin(handle.pid, b"exit 0\n")
    same(screen.ended().exit_code, 0)


def pt2(context):
    pty = context.shared().pty
    handle = pty.create(PtySize(rows=24, cols=80), timeout=0)
    screen = Screen(handle)
    pty.send_stdin(handle.pid, b'echo "size=$(stty size)"\n')
    screen.shows("size=24 80")
    pty.resize(handle.pid, PtySize(rows=50, cols=132))
    pty.send_stdin(handle.pid, b'echo "size=$(stty size)"\n')
    screen.shows("size=50 132")
    pty.kill(handle.pid)


def pt3(context):
    pty = context.shared().pty
    handle = pty.create(PtySize(rows=24, cols=80), timeout=0)
    same(pty.kill(handle.pid), True)
    raises(CommandExitException, handle.wait)
    same(pty.kill(handle.pid), False)


def pt4(context):
    pty = context.shared().pty
    handle = pty.create(PtySize(rows=24, cols=80), timeout=0)
    pty.send_stdin(handle.pid, b"export KEEP=kept\n")
    handle.disconnect()
    again = pty.connect(handle.pid, timeout=0)
    same(again.pid, handle.pid)
    screen = Screen(again)
    pty.send_stdin(handle.pid, b'echo "again $KEEP"\n')
    screen.shows("again kept")
    pty.send_stdin(handle.pid, b"exit 4\n")
    end = screen.ended()
    same((type(end), end.exit_code), (CommandExitException, 4))


PTY_ROWS = {"PT1": pt1, "PT2": pt2, "PT3": pt3, "PT4": pt4}
