"""A Python kernel: one process that keeps the state of one context.

Requests come as JSON lines on descriptor 3, events leave as JSON lines on descriptor 4. What the code prints goes to the
descriptors 1 and 2, with a mark of the request after each cell, so that the reader knows that it has everything.
"""

import asyncio
import builtins
import io
import os
import signal
import sys
import threading
import traceback
import types

from . import cells, display_hooks
from .events import EventWriter

REQUESTS = 3
EVENTS = 4
HOME = os.path.dirname(os.path.abspath(__file__))
FLUSH_SECONDS = 0.1


class Interrupts:
    """Turns SIGINT into KeyboardInterrupt while a cell runs, but never in the middle of an event."""

    def __init__(self):
        self._running = False
        self._held = 0
        self._pending = False
        signal.signal(signal.SIGINT, self._on_signal)

    def _on_signal(self, _number, _frame):
        if not self._running:
            return
        if self._held:
            self._pending = True
            return
        raise KeyboardInterrupt

    def running(self, value):
        self._pending = False
        self._running = value

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            self._held += 1

    def __exit__(self, *_error):
        if threading.current_thread() is not threading.main_thread():
            return
        self._held -= 1
        if self._pending and not self._held:
            self._pending = False
            if self._running:
                raise KeyboardInterrupt


class Flusher(threading.Thread):
    """Sends unfinished lines, such as a progress bar's, while a cell runs."""

    def __init__(self):
        super().__init__(name="output", daemon=True)
        self.active = threading.Event()

    def run(self):
        pause = threading.Event()
        while True:
            self.active.wait()
            pause.wait(FLUSH_SECONDS)
            flush()


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            # The code closed or replaced its stream.
            pass


def output(descriptor):
    raw = os.fdopen(os.dup(descriptor), "wb", buffering=0)
    return io.TextIOWrapper(
        io.BufferedWriter(raw, 65536), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )


def apply_variables(variables):
    """Sets variables and returns what they were before; None stands for one that is not set."""
    before = {}
    for name, value in variables.items():
        before[name] = os.environ.get(name)
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    return before


def is_own(trace):
    return os.path.dirname(trace.tb_frame.f_code.co_filename) == HOME


def own_frames_cut(error):
    """The traceback from the first frame of the cell to its last one."""
    first = error.__traceback__
    while first is not None and is_own(first):
        first = first.tb_next
    last = first
    while last is not None and last.tb_next is not None:
        if is_own(last.tb_next):
            last.tb_next = None
        last = last.tb_next
    return first


def describe(error):
    """Name, value and traceback of an error, whatever its own methods do."""
    try:
        value = str(error)
    except Exception:
        value = "<the error has no text>"
    try:
        trace = own_frames_cut(error)
        lines = traceback.format_exception(type(error), error.with_traceback(trace), trace)
    except Exception:
        lines = [f"{type(error).__name__}: {value}\n"]
    return {"name": type(error).__name__, "value": value, "traceback": "".join(lines)}


class Kernel:
    def __init__(self):
        for descriptor in (REQUESTS, EVENTS):
            os.set_inheritable(descriptor, False)
        self.interrupts = Interrupts()
        self.events = EventWriter(EVENTS, self.interrupts)
        sys.stdout = sys.__stdout__ = output(1)
        sys.stderr = sys.__stderr__ = output(2)
        self.flusher = Flusher()
        self.flusher.start()
        self.loop = None
        main = types.ModuleType("__main__")
        self.space = main.__dict__
        self.space["__builtins__"] = builtins
        sys.modules["__main__"] = main
        sys.argv = [""]
        display_hooks.install(self.events)

    def event_loop(self):
        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        return self.loop

    def run(self, code, count):
        """Runs a cell. Never raises."""
        try:
            self.interrupts.running(True)
            try:
                shown, value = cells.run(code, count, self.space, self.event_loop)
                if shown:
                    builtins._ = self.space["_"] = value
                    self.events.result(value, main=True)
                display_hooks.show_figures(self.events)
            finally:
                self.interrupts.running(False)
        except BaseException as error:
            self.events.error(describe(error))

    def end_cell(self, mark):
        self.flusher.active.clear()
        flush()
        for descriptor in (1, 2):
            try:
                os.write(descriptor, mark.encode())
            except OSError:
                # The code closed it.
                pass
        self.events.done()

    def serve(self):
        self.events.ready()
        for request in cells.requests(REQUESTS):
            apply_variables(request["globals"])
            before = apply_variables(request["variables"])
            self.flusher.active.set()
            self.run(request["code"], request["count"])
            apply_variables(before)
            self.end_cell(request["mark"])
