"""What users rely on in a sandbox, beyond the rows of the other suites."""

import json
import re
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

from context import Absent, call, raises, same, until
from e2b import (
    AuthenticationException,
    CommandExitException,
    FileNotFoundException,
    InvalidArgumentException,
    PtySize,
    SandboxException,
    TimeoutException,
)
from rows_pty import Screen
from sdk import ASYNCHRONOUS, Sandbox, face

KILLED = "killed or reached its|due to sandbox timeout"


def by_host(context):
    return context.rig.get("transport") == "by-host"


def reach(context, address, method="GET", headers=None, body=None):
    """
    Calls an address as any program does where names resolve. Where the client is told another origin, the name travels
    as the `Host` only.
    """
    url = urllib.parse.urlsplit(address)
    path = url.path + (f"?{url.query}" if url.query else "")
    if not by_host(context):
        return context.proxy(method, path, {"Host": url.netloc, **(headers or {})}, body)
    return call(context.rig["proxyUrl"], method, path, {"Host": url.netloc, **(headers or {})}, body, url.hostname)


def multipart(text):
    headers = {"Content-Type": "multipart/form-data; boundary=frontier"}
    body = (
        "--frontier\r\nContent-Disposition: form-data; name=\"file\"; filename=\"any-name\"\r\n\r\n"
        f"{text}\r\n--frontier--\r\n"
    )
    return {"method": "POST", "headers": headers, "body": body}


def needs(context, program, fix):
    if context.shared().commands.run(f"command -v {program} || true").stdout == "":
        raise Absent(f"guests have no {program}: {fix}")


def with_token(sandbox, token):
    """A handle of the same sandbox that presents another token."""
    handle = sandbox._inner if ASYNCHRONOUS else sandbox
    config = handle.connection_config
    config._ConnectionConfig__extra_sandbox_headers["X-Access-Token"] = token
    other = type(handle)(
        sandbox_id=handle.sandbox_id,
        sandbox_domain=handle.sandbox_domain,
        envd_version=handle._envd_version,
        envd_access_token=token,
        traffic_access_token=None,
        connection_config=config,
    )
    return face(other)


def events_of(watch):
    return [(event.type.value, event.name) for event in watch.get_new_events()]


def d1(context):
    commands = context.shared().commands
    handle = commands.run("echo first; sleep 30", background=True, timeout=1.5)
    seen = []

    def read():
        if ASYNCHRONOUS:
            handle.wait()
        for out, _, _ in handle:
            seen.append(out)

    raises(TimeoutException, read)
    if not ASYNCHRONOUS:
        same("".join(seen), "first\n")


def d2(context):
    sandbox = context.create(envs={"FROM_CREATE": "create é", "BOTH": "create"})
    script = "import os; print([os.environ.get(k) for k in ('FROM_CREATE', 'BOTH', 'ONLY_HERE')])"

    def read(**options):
        return sandbox.commands.run(f'python3 -c "{script}"', **options).stdout

    same(read(envs={"BOTH": "command", "ONLY_HERE": "x"}), "['create é', 'command', 'x']\n")
    same(read(), "['create é', 'create', None]\n")
    sandbox.kill()


def d3(context):
    commands = context.shared().commands
    text = "one\ntwo\n!@#$%^&*()_+ 'q' \"d\" \\ é漢🙂\n"
    handle = commands.run("cat", background=True, stdin=True)
    handle.send_stdin(text)
    commands.send_stdin(handle.pid, text)
    commands.close_stdin(handle.pid)
    result = handle.wait()
    same((result.exit_code, result.stdout), (0, text + text))
    raises(SandboxException, lambda: commands.send_stdin(handle.pid, "late"))


def d4(context):
    needs(context, "tput", "install ncurses-bin on the machine of the node")
    pty = context.shared().pty
    handle = pty.create(PtySize(rows=24, cols=80), timeout=0)
    screen = Screen(handle)
    pty.send_stdin(handle.pid, b'echo "cols=$(tput cols)"\n')
    screen.shows("cols=80")
    pty.resize(handle.pid, PtySize(rows=24, cols=100))
    pty.send_stdin(handle.pid, b'echo "cols=$(tput cols)"\n')
    screen.shows("cols=100")
    pty.send_stdin(handle.pid, b"exit\n")
    same(screen.ended().exit_code, 0)


def d5(context):
    sandbox = context.shared()
    sandbox.files.write("/home/user/links/dir/target.txt", "x")
    sandbox.commands.run("ln -s dir/target.txt relative; ln -s dir folder; mkdir B a; touch A b", cwd="/home/user/links")
    entries = sandbox.files.list("/home/user/links", depth=2)
    same(
        [entry.path[17:] for entry in entries],
        ["A", "B", "a", "b", "dir", "dir/target.txt", "folder", "relative"],
        "by byte, each folder before what it holds, links not followed",
    )
    found = {entry.name: entry for entry in entries}
    same(found["relative"].symlink_target, "/home/user/links/dir/target.txt")
    same(found["folder"].symlink_target, "/home/user/links/dir")
    same(found["dir"].symlink_target, None)
    same((found["folder"].type.value, found["folder"].permissions[0]), ("dir", "L"))


def d6(context):
    sandbox = context.shared()
    path = "/home/user/attributes.txt"
    sandbox.files.write(path, "x")
    setting = (
        "os.setxattr('attributes.txt', 'user.e2b.origin', b'guest'); os.setxattr('attributes.txt', 'user.x', b'y')"
    )
    sandbox.commands.run(f'python3 -c "import os; {setting}"', cwd="/home/user")
    same(sandbox.files.get_info(path).metadata, {"origin": "guest"})
    listed = [entry for entry in sandbox.files.list("/home/user") if entry.path == path]
    same(listed[0].metadata, {"origin": "guest"})
    same(sandbox.files.rename(path, "/home/user/attributes-2.txt").metadata, {"origin": "guest"})


def d7(context):
    files = context.shared().files
    path = "/home/user/meta.txt"
    files.write(path, "a", metadata={"kind": "one"})
    raises(InvalidArgumentException, lambda: files.write(path, "b", metadata={"long": "v" * 5_000}))
    raises(InvalidArgumentException, lambda: files.write(path, "b", metadata={"k" * 300: "v"}))
    same(files.read(path), "a", "a refused write leaves the file alone")
    for options in ({}, {"use_octet_stream": True}, {"gzip": True}):
        written = files.write(path, "c", metadata={"Kind": "two", "Other": "3"}, **options)
        same(written.metadata, {"kind": "two", "other": "3"})


def d8(context):
    files = context.shared().files
    files.make_dir("/home/user/flat/sub")
    watch = files.watch_dir("/home/user/flat")
    files.write("/home/user/flat/sub/unseen.txt", "x")
    # What a folder's own change of time says of it is not asked here.
    seen = [event for event in events_of(watch) if event[1] != "sub"]
    same(seen, [], "nothing from below")
    files.write("/home/user/flat/seen.txt", "x")
    seen = [event for event in events_of(watch) if event[1] != "sub"]
    same(seen, [("create", "seen.txt"), ("chmod", "seen.txt"), ("write", "seen.txt")])
    same(events_of(watch), [], "each event once")
    watch.stop()
    if not ASYNCHRONOUS:
        raises(SandboxException, watch.get_new_events)


def d9(context):
    sandbox = context.shared()
    sandbox.files.make_dir("/home/user/deep/a")
    watch = sandbox.files.watch_dir("/home/user/deep", recursive=True)
    sandbox.commands.run(
        "mkdir a/b && sleep 0.3 && echo x > a/b/c.txt && chmod 600 a/b/c.txt && mv a/b z && sleep 0.3 && rm z/c.txt",
        cwd="/home/user/deep",
    )
    wanted = {
        ("create", "a/b"),
        ("create", "a/b/c.txt"),
        ("write", "a/b/c.txt"),
        ("chmod", "a/b/c.txt"),
        ("rename", "a/b"),
        ("create", "z"),
        ("remove", "z/c.txt"),
    }
    seen = set()
    deadline = time.monotonic() + 10
    while not wanted <= seen and time.monotonic() < deadline:
        seen |= set(events_of(watch))
        time.sleep(0.1)
    watch.stop()
    same(wanted - seen, set(), "events that did not come")


def d10(context):
    files = context.shared().files
    files.make_dir("/home/user/entries")
    watch = files.watch_dir("/home/user/entries", include_entry=True, allow_network_mounts=True)
    files.write("/home/user/entries/e.txt", "12345")
    written = [event for event in watch.get_new_events() if event.type.value == "write"]
    same((written[0].entry.path, written[0].entry.owner), ("/home/user/entries/e.txt", "user"))
    files.remove("/home/user/entries/e.txt")
    removed = [event for event in watch.get_new_events() if event.type.value == "remove"]
    same(removed[0].entry, None, "a removed file has no entry")
    watch.stop()


def d11(context):
    files = context.shared().files
    files.write("/home/user/no-folder.txt", "x")
    raises(InvalidArgumentException, lambda: files.watch_dir("/home/user/no-folder.txt"), "directory")
    raises(FileNotFoundException, lambda: files.watch_dir("/home/user/missing"))


def d12(context):
    sandbox = context.shared()
    host = f"49983-{sandbox.sandbox_id}.{context.rig['domain']}"
    same(sandbox.get_host(3000), f"3000-{sandbox.sandbox_id}.{context.rig['domain']}")
    path = "/home/user/by address é+&.txt"
    up = sandbox.upload_url(path, use_signature_expiration=60)
    down = sandbox.download_url(path, use_signature_expiration=60)
    if by_host(context):
        same(down.startswith(f"https://{host}/files?"), True, down)
        same(reach(context, up, **multipart("by address"))[0], 200)
        same(reach(context, down)[::2], (200, "by address"))
        root = sandbox.upload_url("root-by-address.txt", user="root")
        same(reach(context, root, **multipart("root's"))[0], 200)
        same(sandbox.files.read("/root/root-by-address.txt", user="root"), "root's")
        expired = sandbox.download_url(path, use_signature_expiration=-10)
        same(json.loads(reach(context, expired)[2]), {"code": 401, "message": "signature is already expired"})
    else:
        # The SDK signs the address it was told, which names no sandbox.
        same(down.startswith(f"{context.rig['proxyUrl']}/files?"), True, down)
        status, _, text = context.proxy("GET", down[len(context.rig["proxyUrl"]) :], {})
        same((status, json.loads(text)["code"]), (400, 400), text)


def d13(context):
    sandbox = context.create()
    sandbox.files.write("/home/user/www/index.html", "<p>hello</p>")
    sandbox.commands.run("python3 -m http.server 8000", background=True, cwd="/home/user/www", timeout=0)
    scheme = "https" if by_host(context) else "http"
    address = f"{scheme}://{sandbox.get_host(8000)}/"
    until("the server", lambda: reach(context, address)[0] == 200, 10)
    same(reach(context, address)[2], "<p>hello</p>")
    sandbox.kill()
    status, _, text = reach(context, address)
    same((status, json.loads(text)["code"]), (502, 502))


def d14(context):
    sandbox = context.shared()
    again = Sandbox.connect(sandbox.sandbox_id, **context.options())
    same(again.commands.run("echo again").stdout, "again\n")
    scheme = "https" if by_host(context) else "http"
    address = f"{scheme}://{sandbox.get_host(49983)}/process.Process/List"
    for extra in ({}, {"X-Access-Token": "wrong"}, {"X-Access-Token": ""}):
        headers = {"Content-Type": "application/json", **extra}
        status, _, text = reach(context, address, method="POST", headers=headers, body="{}")
        same((status, sorted(json.loads(text))), (401, ["code", "message"]), text)


def d16(context):
    needs(context, "git", "install git on the machine of the node")
    sandbox = context.shared()
    git = sandbox.git
    git.configure_user("Some Body", "some@example.test")
    git.init("/home/user/origin.git", bare=True, initial_branch="main")
    git.clone("/home/user/origin.git", path="/home/user/work")
    sandbox.files.write("/home/user/work/é.txt", "one\n")
    same(len(git.status("/home/user/work").file_status), 1)
    git.add("/home/user/work")
    git.commit("/home/user/work", "first 'quoted' \"line\"")
    git.push("/home/user/work", remote="origin", branch="main", set_upstream=True)
    git.create_branch("/home/user/work", "topic")
    branches = git.branches("/home/user/work")
    same((sorted(branches.branches), branches.current_branch), (["main", "topic"], "topic"))
    log = sandbox.commands.run("git -C /home/user/origin.git log --format='%an <%ae> %s' main")
    same(log.stdout, "Some Body <some@example.test> first 'quoted' \"line\"\n")
    raises(CommandExitException, lambda: git.clone("/home/user/nothing.git", path="/home/user/never"))


def d17(context):
    commands = context.shared().commands
    steady = commands.run("for i in $(seq 1 60); do echo $i; sleep 0.05; done", background=True)
    with ThreadPoolExecutor(10) as pool:

        def cancelled(_):
            handle = commands.run("sleep 120", background=True)
            handle.disconnect()
            return commands.kill(handle.pid)

        same(list(pool.map(cancelled, range(100))), [True] * 100)
    same(len(steady.wait().stdout.split()), 60, "streams that were cancelled disturb no other")
    same(commands.run("echo still here").stdout, "still here\n")


def d18(context):
    sandbox = context.create()
    terminal = Screen(sandbox.pty.create(PtySize(rows=24, cols=80), timeout=0))
    timer = threading.Timer(1, sandbox.kill)
    timer.start()
    raises(SandboxException, lambda: sandbox.commands.run("sleep 50", timeout=0), KILLED)
    end = terminal.ended()
    # Later clients have a class of their own for it.
    same(isinstance(end, SandboxException) and re.search(KILLED, str(end)) is not None, True, repr(end))


def d19(context):
    commands = context.shared().commands
    with ThreadPoolExecutor(60) as pool:
        outputs = list(pool.map(lambda index: commands.run(f"echo {index}", timeout=0).stdout, range(60)))
    same(outputs, [f"{index}\n" for index in range(60)])


def d20(context):
    """Answers that are plain JSON rather than the protocol's own errors: of the token check, and of the proxy."""
    sandbox = context.create()
    stranger = with_token(Sandbox.connect(sandbox.sandbox_id, **context.options()), "0" * 64)
    raises(AuthenticationException, lambda: stranger.files.read("/etc/hostname"))
    raises(AuthenticationException, lambda: stranger.files.list("/"))
    raises(AuthenticationException, lambda: stranger.commands.run("true"))
    raises(AuthenticationException, stranger.commands.list)
    sandbox.kill()
    raises(SandboxException, lambda: sandbox.commands.list())
    raises(SandboxException, lambda: sandbox.files.list("/"))
    same(sandbox.is_running(), False)


def d21(context):
    commands = context.shared().commands
    # Neither a character that is cut by the end of a block nor one that is no character may lose what is around it.
    script = "import sys; sys.stdout.buffer.write(b'a' * 8191 + bytes([0xE2, 0x82]) + b'b' * 10)"
    result = commands.run(f'python3 -c "{script}"')
    same((result.stdout[:8191], result.stdout[-10:]), ("a" * 8191, "b" * 10))
    same(set(result.stdout[8191:-10]), {"\ufffd"})


def d22(context):
    sandbox = context.shared()
    pty, commands, files = sandbox.pty, sandbox.commands, sandbox.files
    paste = b"0123456789abcde\n" * (5 * 1024 * 1024 // 16)
    stopped = pty.create(PtySize(rows=24, cols=80), timeout=0)
    screen = Screen(stopped)
    pty.send_stdin(stopped.pid, b"kill -STOP $$\n")
    until("a stop of the shell", lambda: commands.run(f"ps -o stat= -p {stopped.pid}").stdout.startswith("T"), 10)
    ends = []

    # Nobody reads it, so it waits; what comes behind must not.
    def paste_it():
        try:
            pty.send_stdin(stopped.pid, paste, request_timeout=60)
            ends.append("taken")
        except SandboxException:
            ends.append("refused")

    pasting = threading.Thread(target=paste_it, daemon=True)
    pasting.start()
    time.sleep(0.3)
    pty.resize(stopped.pid, PtySize(rows=30, cols=100), request_timeout=5)
    same(pty.kill(stopped.pid, request_timeout=5), True)
    same(isinstance(screen.ended(), CommandExitException), True)
    pasting.join(10)
    same(len(ends), 1)

    reader = pty.create(PtySize(rows=24, cols=80), timeout=0)
    screen = Screen(reader)
    into = f"stty raw -echo; echo ready; head -c {len(paste)} > /home/user/pasted; echo done; exit\n"
    pty.send_stdin(reader.pid, into.encode())
    screen.shows("[\r\n]ready")
    pty.send_stdin(reader.pid, paste, request_timeout=60)
    same(screen.ended().exit_code, 0)
    same(bytes(files.read("/home/user/pasted", format="bytes")) == paste, True)


def d23(context):
    sandbox = context.shared()
    commands, files = sandbox.commands, sandbox.files
    # Below 0.3.0 input is always there, from it on only when asked for.
    same(commands.run("readlink /proc/self/fd/0").stdout, "/dev/null\n")
    # Below 0.4.0 the client names a user, from it on the sandbox's own is taken.
    same(commands.run("whoami").stdout, "user\n")
    files.write("whose.txt", "x")
    same((files.get_info("whose.txt").owner, files.exists("/home/user/whose.txt")), ("user", True))
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(sandbox.download_url("whose.txt")).query)
    same("username" in query, False)
    # Below 0.5.2 input cannot be closed.
    handle = commands.run("cat", background=True, stdin=True)
    commands.send_stdin(handle.pid, "x")
    commands.close_stdin(handle.pid)
    same(handle.wait().stdout, "x")
    # Below 0.5.7 every upload is multipart.
    files.write("streamed.txt", "octets", use_octet_stream=True)
    same(files.read("streamed.txt"), "octets")
    # Below 0.1.5 there are no metrics; disks came with 0.2.4.
    for sample in sandbox.get_metrics():
        same(sample.disk_total > 0 and sample.disk_used >= 0, True)


DATA_ROWS = {
    "D1": d1,
    "D2": d2,
    "D3": d3,
    "D4": d4,
    "D5": d5,
    "D6": d6,
    "D7": d7,
    "D8": d8,
    "D9": d9,
    "D10": d10,
    "D11": d11,
    "D12": d12,
    "D13": d13,
    "D14": d14,
    "D16": d16,
    "D17": d17,
    "D18": d18,
    "D19": d19,
    "D20": d20,
    "D21": d21,
    "D22": d22,
    "D23": d23,
}
