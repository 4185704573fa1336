"""The asynchronous half of the SDK, behind the calls of the synchronous one, so that both run the same rows."""

import asyncio
import functools
import inspect
import threading
import time

import e2b
from e2b.api.client_async import get_api_client

_loop = asyncio.new_event_loop()
threading.Thread(target=_loop.run_forever, daemon=True).start()

# Longer than any row may take: what hangs is the row's failure to tell.
LIMIT = 90


def wait(coroutine):
    """Runs a coroutine on the one loop of this process and answers what it gives, or raises what it raises."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop).result(LIMIT)


async def _on_loop(function, args, options):
    value = function(*args, **options)
    return await value if inspect.isawaitable(value) else value


def face(value):
    """What a row sees of a value of the SDK."""
    if isinstance(value, list):
        return [face(item) for item in value]
    if hasattr(value, "__aiter__"):
        return _Stream(value)
    module = type(value).__module__
    if type(value).__name__ == "AsyncCommandHandle":
        return _Command(value)
    return _Blocking(value) if module.startswith("e2b.sandbox_async") else value


class _Blocking:
    """An asynchronous object whose calls wait for their answer. Values without a loop of their own are given as they are."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        value = getattr(self._inner, name)
        return _calling(value) if inspect.isroutine(value) or isinstance(value, functools.partial) else face(value)

    @property
    def files(self):
        return _Files(self._inner.files)

    @property
    def pty(self):
        return _Terminals(self._inner.pty)


class _Stream:
    """An asynchronous iterator, as an iterator."""

    def __init__(self, inner):
        self._inner = inner.__aiter__()

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return wait(_on_loop(self._inner.__anext__, (), {}))
        except StopAsyncIteration:
            raise StopIteration from None


class _Command(_Blocking):
    """A running command. Of a terminal's, what came before somebody waits is kept, as the synchronous client does."""

    def __init__(self, inner, output=None):
        super().__init__(inner)
        self._output = output

    def wait(self, on_pty=None):
        if on_pty is not None:
            self._output.attach(on_pty)
        return wait(_on_loop(self._inner.wait, (), {}))


class _Output:
    """Keeps what comes until somebody listens."""

    def __init__(self):
        self._kept = []
        self._listener = None
        self._lock = threading.Lock()

    def __call__(self, item):
        with self._lock:
            if self._listener is None:
                self._kept.append(item)
            else:
                self._listener(item)

    def attach(self, listener):
        with self._lock:
            for item in self._kept:
                listener(item)
            self._listener = listener

    def drain(self):
        with self._lock:
            kept, self._kept = self._kept, []
            return kept


class _Terminals(_Blocking):
    def create(self, size, **options):
        output = _Output()
        return _Command(wait(_on_loop(self._inner.create, (size, output), options)), output)

    def connect(self, pid, **options):
        output = _Output()
        return _Command(wait(_on_loop(self._inner.connect, (pid, output), options)), output)


class _Watch(_Blocking):
    """A watch that is asked for its events. They come by themselves, so asking waits until none came for a moment."""

    def __init__(self, inner, events):
        super().__init__(inner)
        self._events = events

    def get_new_events(self):
        seen = self._events.drain()
        quiet = 0
        while quiet < 3:
            time.sleep(0.1)
            more = self._events.drain()
            quiet = 0 if more else quiet + 1
            seen += more
        return seen


class _Files(_Blocking):
    def watch_dir(self, path, **options):
        events = _Output()
        return _Watch(wait(_on_loop(self._inner.watch_dir, (path, events), options)), events)


def _calling(function):
    def call(*args, **options):
        return face(wait(_on_loop(function, args, options)))

    return call


class _Class(_Blocking):
    """A class of the SDK: its static calls wait as well. What it constructs is given as it is."""

    def __call__(self, *args, **options):
        return self._inner(*args, **options)


Sandbox = _Class(e2b.AsyncSandbox)
Template = _Class(e2b.AsyncTemplate)


def call_generated(endpoint, path, config, body):
    """Calls an endpoint of the generated client."""

    async def call():
        return await endpoint.asyncio_detailed(path, client=get_api_client(config), body=body)

    return wait(call())
