"""The verbs beside the base matrix: snapshots, forks, metrics, refusals, ends of life."""

import datetime
import threading
from concurrent.futures import ThreadPoolExecutor

from context import is_api_error, raises, same, until
from e2b import SandboxException, SandboxNotFoundException, SandboxState, TimeoutException
from sdk import Sandbox

# How late a node may notice the end of a lease, in seconds.
REAP = 7
UNKNOWN = "sb-0000000000000000"


def running(context):
    sandbox = context.shared()
    same(sandbox.get_info().state, SandboxState.RUNNING)
    return sandbox


def s1(context):
    envs = {"GREETING": "from create", "E2B_SANDBOX_ID": "forged"}
    if context.rig["mode"] == "seed":
        raises(SandboxException, lambda: context.create(envs=envs), "^400: .*envVars")
        return
    sandbox = context.create(envs=envs)
    same(sandbox.commands.run('echo "$GREETING"').stdout, "from create\n")
    same(sandbox.commands.run('echo "$GREETING"', envs={"GREETING": "from run"}).stdout, "from run\n")
    sandbox.kill()


def s2(context):
    sandbox = running(context)
    samples = sandbox.get_metrics()
    same(len(samples), 1)
    same(samples[0].cpu_count > 0 and samples[0].mem_total > 0, True, "sizes are known")
    status, _, batch = context.raw("GET", f"/sandboxes/metrics?sandbox_ids={sandbox.sandbox_id},{UNKNOWN}")
    same((status, list(batch["sandboxes"])), (200, [sandbox.sandbox_id]), "batch")
    is_api_error(context.raw("GET", "/sandboxes/metrics?sandbox_ids=a,,b"), 400)
    old = {"start": datetime.datetime(2001, 1, 1), "end": datetime.datetime(2001, 1, 2)}
    same(sandbox.get_metrics(**old), [])
    sandbox.pause()
    same(sandbox.get_metrics(), [], "paused")
    same(sandbox.get_info().state, SandboxState.PAUSED, "reading metrics must not wake it")
    sandbox.connect()
    raises(SandboxNotFoundException, lambda: Sandbox.get_metrics(UNKNOWN, **context.options()))


def s3(context):
    sandbox = running(context)
    sandbox.files.write("/home/user/in-snapshot.txt", "snap")
    name = "snap-" + context.job["client"].replace(".", "-")
    snapshot = sandbox.create_snapshot(name=name)
    same((snapshot.snapshot_id[:3], snapshot.names), ("ck_", [name]))
    same(sandbox.get_info().state, SandboxState.RUNNING, "the source keeps running")

    def listed(**options):
        return [item.snapshot_id for item in Sandbox.list_snapshots(**options).next_items()]

    other = context.options(context.rig["keys"]["two"])
    same(snapshot.snapshot_id in listed(sandbox_id=sandbox.sandbox_id, **context.options()), True, "listed")
    same(snapshot.snapshot_id in listed(**other), False, "listed in another namespace")
    sandbox.files.write("/home/user/in-snapshot.txt", "changed")
    copy = context.create(snapshot.snapshot_id)
    same(copy.files.read("/home/user/in-snapshot.txt"), "snap")
    copy.kill()
    same(Sandbox.delete_snapshot(snapshot.snapshot_id, **other), False)
    same(Sandbox.delete_snapshot(snapshot.snapshot_id, **context.options()), True)
    same(Sandbox.delete_snapshot(snapshot.snapshot_id, **context.options()), False)
    raises(SandboxNotFoundException, lambda: Sandbox.create_snapshot(UNKNOWN, **context.options()))


def s4(context):
    parent = running(context)
    parent.files.write("/home/user/forked.txt", "inherited")
    children = parent.fork(count=2, timeout=60)
    same(len(children), 2)
    for child in children:
        if isinstance(child, Exception):
            raise child
        same(child.files.read("/home/user/forked.txt"), "inherited")
        child.files.write("/home/user/forked.txt", child.sandbox_id)
    same(parent.files.read("/home/user/forked.txt"), "inherited", "children have their own files")
    for child in children:
        same(child.files.read("/home/user/forked.txt"), child.sandbox_id)
        same(child.kill(), True)
    raises(SandboxNotFoundException, lambda: Sandbox.fork(UNKNOWN, **context.options()))


def s5(context):
    sandbox = context.create()
    timer = threading.Timer(0.5, sandbox.kill)
    timer.start()
    # Which of the two texts it is depends on where in the stream the connection broke.
    raises(TimeoutException, lambda: sandbox.commands.run("sleep 30"), "killed or reached its|due to sandbox timeout")


def s6(context):
    sandbox = context.create()
    same(sandbox.commands.run("echo up").stdout, "up\n")
    same(sandbox.is_running(), True)
    sandbox.kill()
    same(sandbox.is_running(), False)
    raises(SandboxException, lambda: sandbox.commands.run("true"))
    raises(SandboxException, lambda: sandbox.files.read("/etc/hostname"))
    for action in (
        sandbox.get_info,
        lambda: sandbox.set_timeout(1),
        sandbox.pause,
        sandbox.connect,
    ):
        raises(SandboxNotFoundException, action)
    gone = context.raw("GET", f"/sandboxes/{sandbox.sandbox_id}")
    same(is_api_error(gone, 404).startswith("sandbox not found: it was killed at "), True, str(gone))
    stranger = context.raw("GET", f"/sandboxes/{sandbox.sandbox_id}", key=context.rig["keys"]["two"])
    same(is_api_error(stranger, 404), "sandbox not found")


def s7(context):
    sandbox = context.create(timeout=3, lifecycle={"on_timeout": "pause"})
    sandbox.files.write("/home/user/outlives.txt", "still here")
    sandbox.connect(timeout=3)
    sandbox.connect(timeout=2)
    until("paused at expiry", lambda: sandbox.get_info().state == SandboxState.PAUSED, 3 + REAP)
    again = Sandbox.connect(sandbox.sandbox_id, timeout=60, **context.options())
    same(again.files.read("/home/user/outlives.txt"), "still here")
    again.kill()


def s8(context):
    sandbox = running(context)
    sandbox.commands.run("echo before > /tmp/before")
    same(sandbox.pause(), True)
    with ThreadPoolExecutor(5) as pool:
        woken = list(pool.map(lambda _: sandbox.commands.run("cat /tmp/before").stdout, range(5)))
    same(woken, ["before\n"] * 5)
    same(sandbox.get_info().state, SandboxState.RUNNING)


def s9(context):
    before = context.claims_made()
    for name, options in (
        ("volumeMounts", {"volume_mounts": {"/data": "a-volume"}}),
        ("iam", {"iam": {"tokens": {"aws": {"audience": "a", "token_type": "JWT-SVID"}}}}),
        ("network", {"network": {"allow_public_traffic": False}}),
        ("autoPauseMemory", {"lifecycle": {"on_timeout": {"action": "pause", "keep_memory": False}}}),
        ("mcp", {"mcp": {"exa": {"apiKey": "x"}}}),
    ):
        raises(SandboxException, lambda: context.create("base", **options), f"^400: .*{name}")
    for path in ("/sandboxes", "/v2/sandboxes"):
        for body in (
            {},
            {"templateID": "  "},
            {"templateID": "base", "timeout": -1},
            {"templateID": "base", "timeout": 1.5},
            {"templateID": "base", "timeout": "60"},
            {"templateID": "base", "secure": False},
            {"templateID": "base", "metadata": {"a": 1}},
        ):
            is_api_error(context.raw("POST", path, body), 400)
        is_api_error(context.raw("POST", path, {"templateID": "never-built"}), 404)
    same(context.claims_made(), before, "claims made")
    sandbox = running(context)
    raises(SandboxException, lambda: sandbox.pause(keep_memory=False), "^400: .*memory")
    raises(SandboxException, lambda: sandbox.connect(on_resume="reboot"), "^400: .*memory")
    same(sandbox.get_info().state, SandboxState.RUNNING)


def s10(context):
    sandbox = running(context)
    raises(SandboxException, lambda: sandbox.update_network({"deny_out": ["1.1.1.1"]}), "^400: .*network")
    raises(SandboxNotFoundException, lambda: Sandbox.update_network(UNKNOWN, {}, **context.options()))


def s11(context):
    sandbox = context.create(metadata={"job": "7"})
    before = sandbox.get_info()
    sandbox.pause()
    paused = sandbox.get_info()
    same(paused.state, SandboxState.PAUSED)
    paused.state = before.state
    same(paused, before)
    sandbox.connect(timeout=1)
    same(sandbox.get_info(), before)
    sandbox.kill()


def s12(context):
    sandbox = context.create(timeout=1)

    def gone():
        try:
            sandbox.get_info()
            return False
        except SandboxNotFoundException:
            return True

    until("gone after its lease", gone, 1 + REAP)
    reason = context.raw("GET", f"/sandboxes/{sandbox.sandbox_id}")
    same(is_api_error(reason, 404).startswith("sandbox not found: its lease ended at "), True, str(reason))
    same(sandbox.is_running(), False)
    context.poll()
    ids = [item.sandbox_id for item in Sandbox.list(**context.options()).next_items()]
    same(sandbox.sandbox_id in ids, False, "listed")


SURFACE_ROWS = {
    f"S{number}": row
    for number, row in enumerate([s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12], start=1)
}
