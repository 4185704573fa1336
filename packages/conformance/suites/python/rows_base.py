"""Section 14.1 of the control-plane contract."""

import datetime
import json
import os
import subprocess
import sys

from context import is_api_error, near, raises, same
from e2b import AuthenticationException, SandboxException, SandboxNotFoundException, SandboxState
from sdk import Sandbox

FILE = "/home/user/kept.txt"
TEXT = "kept over a pause: é漢🙂\n"

_fresh = {}


def left(info):
    return (info.end_at - datetime.datetime.now(datetime.timezone.utc)).total_seconds()


def reconnect(context, sandbox_id):
    """Connects to a sandbox as a fresh process does, and uses it."""
    sandbox = Sandbox.connect(sandbox_id, **context.options())
    return {
        "running": sandbox.is_running(),
        "stdout": sandbox.commands.run("echo fresh").stdout,
        "file": sandbox.files.read(FILE),
    }


def reconnect_elsewhere(context, sandbox_id):
    if sandbox_id not in _fresh:
        job = json.dumps({**context.job, "reconnect": sandbox_id})
        done = subprocess.run(
            [sys.executable, os.path.join(os.path.dirname(__file__), "client.py")],
            env={**os.environ, "CONFORMANCE_JOB": job},
            capture_output=True,
            text=True,
            timeout=50,
        )
        if done.returncode != 0:
            raise AssertionError(done.stderr[-400:])
        _fresh[sandbox_id] = json.loads(done.stdout)
    return _fresh[sandbox_id]


def b1(context):
    sandbox = Sandbox.create(context.rig["image"], timeout=300, **context.options())
    context.share(sandbox)
    same(sandbox.sandbox_id[:3], "sb-")
    int(sandbox.sandbox_id[3:], 16)
    same(sandbox.sandbox_domain, context.rig["domain"])


def b2(context):
    row = context.on_node(context.shared().sandbox_id)
    same(row["key"], {"template": context.rig["image"], "net": "none", "size": "small"})
    same(row["claim_ref"][:8], "ns1/e2b-")


def b3(context):
    result = context.shared().commands.run("echo hi")
    same((result.stdout, result.exit_code), ("hi\n", 0))


def b4(context):
    files = context.shared().files
    files.write(FILE, TEXT)
    same(files.read(FILE), TEXT)


def b5(context):
    sandbox = context.shared()
    info = sandbox.get_info()
    same(info.sandbox_id, sandbox.sandbox_id)
    same((info.template_id, info.name, info.state), (context.rig["image"], "base", SandboxState.RUNNING))
    if not info.end_at > info.started_at:
        raise AssertionError(f"{info.end_at} > {info.started_at}")
    near(left(info), 300, 15, "time left")


def b6(context):
    sandbox = context.shared()
    for when in ("at once", "after a poll"):
        items = Sandbox.list(**context.options()).next_items()
        states = [item.state for item in items if item.sandbox_id == sandbox.sandbox_id]
        same(states, [SandboxState.RUNNING], when)
        context.poll()


def b7(context):
    sandbox = context.shared()
    same(sandbox.pause(), True, "first pause")
    same(sandbox.pause(), False, "second pause")
    same(sandbox.get_info().state, SandboxState.PAUSED)


def b8(context):
    sandbox = context.shared()
    same(sandbox.is_running(), False)
    same(sandbox.get_info().state, SandboxState.PAUSED, "asking for its health must not wake it")


def b9(context):
    same(reconnect_elsewhere(context, context.shared().sandbox_id)["running"], True)


def b10(context):
    seen = reconnect_elsewhere(context, context.shared().sandbox_id)
    same((seen["stdout"], seen["file"]), ("fresh\n", TEXT))


def b11(context):
    sandbox_id = context.shared().sandbox_id
    other = context.options(context.rig["keys"]["two"])
    raises(SandboxNotFoundException, lambda: Sandbox.get_info(sandbox_id, **other))
    raises(SandboxNotFoundException, lambda: Sandbox.connect(sandbox_id, **other))
    raises(SandboxNotFoundException, lambda: Sandbox.set_timeout(sandbox_id, 1, **other))
    raises(SandboxNotFoundException, lambda: Sandbox.pause(sandbox_id, **other))
    same(Sandbox.kill(sandbox_id, **other), False)
    same(Sandbox.list(**other).next_items(), [])
    same(Sandbox.get_info(sandbox_id, **context.options()).state, SandboxState.RUNNING, "still alive")


def b12(context):
    wrong = "e2b_ffffffffffffffffffffffffffffffff"
    raises(AuthenticationException, lambda: Sandbox.create(**context.options(wrong)))
    raises(AuthenticationException, lambda: Sandbox.list(**context.options(wrong)).next_items())
    is_api_error(context.raw("GET", "/v2/sandboxes", key=wrong), 401)
    is_api_error(context.raw("GET", "/v2/sandboxes", key=None), 401)


def b13(context):
    before = context.claims_made()
    raises(SandboxException, lambda: context.create(network={"deny_out": ["10.0.0.0/8"]}), "^400: .*network")
    same(context.claims_made(), before, "claims made")


def b14(context):
    sandbox = context.shared()
    sandbox.set_timeout(60)
    near(left(sandbox.get_info()), 60, 5, "time left")


def b15(context):
    sandbox = context.shared()
    before = sandbox.get_info().end_at
    sandbox.connect(timeout=10)
    near((sandbox.get_info().end_at - before).total_seconds(), 0, 1, "moved by a shorter connect")
    sandbox.connect(timeout=600)
    near(left(sandbox.get_info()), 600, 5, "time left after a longer connect")


def b16(context):
    sandbox = context.shared()
    same(sandbox.kill(), True)
    raises(SandboxNotFoundException, sandbox.get_info)
    same(sandbox.kill(), False, "second kill")


def b17(context):
    sandbox = Sandbox.create(timeout=30, **context.options())
    same(sandbox.kill(), True)


BASE_ROWS = {
    f"B{number}": row
    for number, row in enumerate(
        [b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15, b16, b17], start=1
    )
}
