"""The lines of a notebook that are not Python: `!command`, `%magic` and `%%bash`."""

import re
import subprocess

# Without effect here, and written in many notebooks.
IGNORED = {"matplotlib", "autoreload", "load_ext", "config"}


def translate(source):
    """The cell with those lines turned into calls. The rest stays as it is."""
    stripped = source.lstrip("\n")
    whole = re.match(r"%%(bash|sh)[ \t]*\n", stripped)
    if whole:
        return call("run", stripped[whole.end() :])
    return "\n".join(translate_line(line) for line in source.split("\n"))


def translate_line(line):
    found = re.match(r"(\s*)([!%])(?!=)(.*)$", line)
    if found is None:
        return line
    indent, kind, text = found.groups()
    if kind == "!":
        return indent + call("run", text.lstrip("!"))
    name = text.split(None, 1)[0] if text.strip() else ""
    if name in IGNORED:
        return indent + "pass"
    if name in ("pip", "sh", "bash"):
        return indent + call("run", f"python3 -m {text}" if name == "pip" else text[len(name) :])
    return indent + call("refuse", name)


def call(function, text):
    return f"__import__('sys').modules['interpreter_kernel.shell_lines'].{function}({text!r})"


def run(command):
    """Runs a shell command with the output of the cell."""
    subprocess.run(command, shell=True, executable="/bin/bash", stdin=subprocess.DEVNULL, check=False)


def refuse(name):
    raise NotImplementedError(f"the magic command %{name} is not supported here")
