"""`display`, a stand-in for IPython's when there is none, and plots that show themselves."""

import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

from . import representations

MEDIA_CLASSES = {
    "HTML": "text/html",
    "Markdown": "text/markdown",
    "SVG": "image/svg+xml",
    "Latex": "text/latex",
    "Math": "text/latex",
    "JSON": "application/json",
    "Javascript": "application/javascript",
}


class Hook(importlib.abc.MetaPathFinder):
    """Calls a function with a module once somebody has imported it."""

    def __init__(self, functions):
        self._functions = functions

    def find_spec(self, name, path=None, target=None):
        function = self._functions.pop(name, None)
        if function is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            function(module)

        spec.loader.exec_module = exec_module
        return spec


def install(events):
    # Plots have no window to open; programs that the cells start learn it the same way.
    os.environ.setdefault("MPLBACKEND", "Agg")

    def display(*values, raw=False, include=None, exclude=None, metadata=None, display_id=None, **_more):
        for value in values:
            if raw:
                events.forms(representations.media_forms(value))
            else:
                events.result(value)

    builtins.display = display
    hooks = {"matplotlib.pyplot": lambda pyplot: setattr(pyplot, "show", lambda *_a, **_k: show_figures(events))}
    if importlib.util.find_spec("IPython") is None:
        sys.meta_path.append(StandIn(display))
    else:
        hooks["IPython.display"] = lambda module: setattr(module, "display", display)
    sys.meta_path.insert(0, Hook(hooks))


def show_figures(events):
    """Shows and closes what the cell has drawn."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not hasattr(pyplot, "get_fignums"):
        return
    try:
        for number in pyplot.get_fignums():
            events.result(pyplot.figure(number))
    finally:
        pyplot.close("all")


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The part of IPython that notebooks use most. Libraries that only look whether it is loaded do not find it."""

    def __init__(self, display):
        self._display = display

    def find_spec(self, name, path=None, target=None):
        if name not in ("IPython", "IPython.display"):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=name == "IPython")

    def exec_module(self, module):
        module.display = self._display
        module.get_ipython = lambda: None
        # What libraries ask before they use a part of it.
        module.version_info = (8, 24, 0, "")
        if module.__name__ == "IPython":
            return
        module.clear_output = lambda *_values, **_more: None
        for name, media_type in MEDIA_CLASSES.items():
            setattr(module, name, media_class(name, media_type))
        module.Image = Image


def media_class(name, media_type):
    def __init__(self, data=None, filename=None, **_more):
        if data is None and filename is not None:
            with open(filename, encoding="utf-8") as file:
                data = file.read()
        self.data = data

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {media_type: self.data, "text/plain": repr(self)}

    return type(
        name,
        (),
        {
            "__init__": __init__,
            "_repr_mimebundle_": _repr_mimebundle_,
            "__repr__": lambda self: f"<IPython.display.{name} object>",
            "__module__": "IPython.display",
        },
    )


class Image:
    """A picture out of bytes or a file; nothing is fetched."""

    def __init__(self, data=None, filename=None, url=None, format=None, **_more):
        if url is not None:
            raise NotImplementedError("Image(url=…) is not supported here: fetch the picture and give its bytes")
        if isinstance(data, str) and filename is None:
            filename, data = data, None
        if data is None and filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
        self.data = data
        self.format = format or ("jpeg" if data[:3] == b"\xff\xd8\xff" else "png")

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {f"image/{'jpeg' if self.format == 'jpg' else self.format}": self.data, "text/plain": repr(self)}

    def __repr__(self):
        return "<IPython.display.Image object>"
