"""Reading and running the cells of a notebook."""

import ast
import inspect
import io
import json
import linecache
import os
import re
import textwrap
import tokenize

from . import shell_lines

FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def requests(descriptor):
    """Yields the cells to run until the other side is gone."""
    pending = b""
    while True:
        line, newline, rest = pending.partition(b"\n")
        if newline:
            pending = rest
            request = json.loads(line)
            # Interruptions come as signals.
            if request["type"] == "execute":
                yield request
            continue
        data = os.read(descriptor, 65536)
        if not data:
            return
        pending += data


def is_silenced(source):
    """Whether the last statement ends with a semicolon, by which notebooks keep a value to themselves."""
    last = None
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER):
                last = token
    except (tokenize.TokenError, SyntaxError):
        return False
    return last is not None and last.type == tokenize.OP and last.string == ";"


def dedented(source):
    """Cells are often pasted with an indentation that all lines, or the first one, share."""
    first = re.match(r"(?:[ \t]*\n)*([ \t]+)\S", source)
    if first is None:
        return source
    indent = first.group(1)
    lines = source.split("\n")
    if all(not line.strip() or line.startswith(indent) for line in lines):
        return "\n".join(line[len(indent) :] if line.startswith(indent) else "" for line in lines)
    return textwrap.dedent(source)


def parse(source, filename):
    try:
        return source, compile(source, filename, "exec", FLAGS | ast.PyCF_ONLY_AST, dont_inherit=True)
    except SyntaxError:
        changed = shell_lines.translate(source)
        if changed == source:
            raise
        return changed, compile(changed, filename, "exec", FLAGS | ast.PyCF_ONLY_AST, dont_inherit=True)


def run(source, count, space, event_loop):
    """Runs a cell and returns whether its last statement is a value to be shown, and that value."""
    filename = f"<cell {count}>"
    source, tree = parse(dedented(source), filename)
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not is_silenced(source):
        last = ast.Expression(tree.body.pop().value)
    value = None
    for part, mode in ((tree, "exec"), (last, "eval")):
        if part is None or (mode == "exec" and not tree.body):
            continue
        code = compile(part, filename, mode, FLAGS, dont_inherit=True)
        result = eval(code, space)
        if code.co_flags & inspect.CO_COROUTINE:
            result = event_loop().run_until_complete(result)
        if mode == "eval":
            value = result
    return value is not None, value
