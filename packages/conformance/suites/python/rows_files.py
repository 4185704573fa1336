"""`files` of the SDK."""

import hashlib
import io
import json
import os
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

from context import raises, same
from e2b import (
    AuthenticationException,
    FileNotFoundException,
    FileType,
    InvalidArgumentException,
    NotFoundException,
)
from sdk import Sandbox

ALL_BYTES = bytes(range(256))


def write_files(files, entries, **options):
    return files.write_files([{"path": path, "data": data} for path, data in entries], **options)


def by_name(context):
    """The shared sandbox through a handle that does not know the loopback address."""
    options = context.options()
    options.pop("sandbox_url", None)
    return Sandbox.connect(context.shared().sandbox_id, **options)


def via_host(context, address, upload=None, **query):
    """Calls an address the SDK made, whose host names the sandbox, through the proxy on loopback."""
    url = urllib.parse.urlsplit(address)
    pairs = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
    pairs.update(query)
    path = url.path + "?" + urllib.parse.urlencode(pairs, quote_via=urllib.parse.quote)
    headers = {"Host": url.netloc}
    body = None
    if upload is not None:
        headers["Content-Type"] = "multipart/form-data; boundary=frontier"
        body = (
            "--frontier\r\nContent-Disposition: form-data; name=\"file\"; filename=\"ignored-name\"\r\n\r\n"
            f"{upload}\r\n--frontier--\r\n"
        )
    status, _, text = context.proxy("GET" if upload is None else "POST", path, headers, body)
    return status, text


def fl1(context):
    files = context.shared().files
    files.write("/tmp/all-bytes", ALL_BYTES)
    same(bytes(files.read("/tmp/all-bytes", format="bytes")), ALL_BYTES)
    same(b"".join(files.read("/tmp/all-bytes", format="stream")), ALL_BYTES)
    files.write("/tmp/text", "é漢🙂\r\n\0")
    same(files.read("/tmp/text"), "é漢🙂\r\n\0")


def fl2(context):
    files = context.shared().files
    kinds = [
        ("string", "kind", {}),
        ("bytes", b"kind", {}),
        ("stream", io.BytesIO(b"kind"), {}),
        ("text stream", io.StringIO("kind"), {}),
        ("octet", "kind", {"use_octet_stream": True}),
        ("multipart stream", io.BytesIO(b"kind"), {"use_octet_stream": False}),
    ]
    for name, data, options in kinds:
        path = f"/home/user/kinds/{name} file.txt"
        info = files.write(path, data, **options)
        same((info.name, info.path, info.type), (f"{name} file.txt", path, FileType.FILE))
        same(files.read(path), "kind", name)


def fl3(context):
    files = context.shared().files
    for options in ({}, {"use_octet_stream": True}):
        files.write("/tmp/empty", "", **options)
        same(files.read("/tmp/empty"), "")
        same(len(files.read("/tmp/empty", format="bytes")), 0)
        same(b"".join(files.read("/tmp/empty", format="stream")), b"")
        same(files.get_info("/tmp/empty").size, 0)


def fl4(context):
    files = context.shared().files
    path = "/home/user/deep/er/and deeper/é.txt"
    files.write(path, "first, and longer")
    files.write(path, "second")
    same(files.read(path), "second")
    parent = files.get_info("/home/user/deep/er")
    same((parent.type, oct(parent.mode), parent.owner), (FileType.DIR, "0o755", "user"))
    file = files.get_info(path)
    same((oct(file.mode), file.owner, file.group, file.size), ("0o644", "user", "user", 6))


def fl5(context):
    files = context.shared().files
    same(write_files(files, []), [])
    written = write_files(
        files, [("several/a.txt", "A"), ("/home/user/several/b.txt", b"B"), ("several/c.txt", "C")]
    )
    same([info.path for info in written], [f"/home/user/several/{letter}.txt" for letter in "abc"])
    streamed = write_files(
        files, [("/home/user/several/d.txt", io.BytesIO(b"D")), ("/home/user/several/e.txt", "E")]
    )
    same(len(streamed), 2)
    for letter in "abcde":
        same(files.read(f"/home/user/several/{letter}.txt"), letter.upper())


def fl6(context):
    files = context.shared().files
    write_files(
        files,
        [("/home/user/tree/b/c/d.txt", "4"), ("/home/user/tree/a.txt", "1"), ("/home/user/tree/z.txt", "1")],
    )

    def paths(**options):
        return [entry.path[16:] for entry in files.list("/home/user/tree", **options)]

    same(paths(), ["a.txt", "b", "z.txt"])
    same(paths(depth=1), ["a.txt", "b", "z.txt"])
    same(paths(depth=2), ["a.txt", "b", "b/c", "z.txt"])
    same(paths(depth=3), ["a.txt", "b", "b/c", "b/c/d.txt", "z.txt"])
    same([entry.type for entry in files.list("/home/user/tree")], [FileType.FILE, FileType.DIR, FileType.FILE])


def fl7(context):
    sandbox = context.shared()
    files = sandbox.files
    files.write("/home/user/info/file.txt", "12345")
    sandbox.commands.run(
        "ln -sf /home/user/info/file.txt link && ln -sf /nowhere dangling && chmod 4750 file.txt",
        cwd="/home/user/info",
    )
    file = files.get_info("/home/user/info/file.txt")
    same((file.name, file.type, file.size, file.permissions), ("file.txt", FileType.FILE, 5, "urwxr-x---"))
    same(abs(file.modified_time.timestamp() - time.time()) < 60, True, "modified just now")
    folder = files.get_info("/home/user/info")
    same((folder.type, folder.permissions), (FileType.DIR, "drwxr-xr-x"))
    link = files.get_info("/home/user/info/link")
    same(
        (link.type, link.symlink_target, link.permissions), (FileType.FILE, "/home/user/info/file.txt", "Lrwxrwxrwx")
    )
    same([entry.name for entry in files.list("/home/user/info")], ["file.txt", "link"], "dangling link left out")


def fl8(context):
    files = context.shared().files
    files.write("/home/user/from.txt", "moved")
    moved = files.rename("/home/user/from.txt", "/home/user/new folder/to.txt")
    same((moved.path, moved.name, moved.type), ("/home/user/new folder/to.txt", "to.txt", FileType.FILE))
    same(files.exists("/home/user/from.txt"), False)
    files.write("/home/user/over.txt", "new")
    files.rename("/home/user/over.txt", "/home/user/new folder/to.txt")
    same(files.read("/home/user/new folder/to.txt"), "new")


def fl9(context):
    files = context.shared().files
    files.write("/home/user/gone/deep/file.txt", "x")
    files.remove("/home/user/gone")
    same(files.exists("/home/user/gone"), False)
    files.remove("/home/user/gone")


def fl10(context):
    files = context.shared().files
    path = "/home/user/made/by/us"
    same((files.exists(path), files.make_dir(path), files.make_dir(path), files.exists(path)), (False, True, False, True))
    files.write("/home/user/made/file", "x")
    raises(InvalidArgumentException, lambda: files.make_dir("/home/user/made/file"))


def fl11(context):
    files = context.shared().files
    missing = "/home/user/never/was"
    for action in (
        lambda: files.read(missing),
        lambda: files.read(missing, format="stream"),
        lambda: files.list(missing),
        lambda: files.get_info(missing),
        lambda: files.rename(missing, "/home/user/other"),
    ):
        same(isinstance(raises(FileNotFoundException, action), NotFoundException), True)
    raises(InvalidArgumentException, lambda: files.read("/home/user"), "is a directory")
    files.write("/home/user/a-file", "x")
    raises(InvalidArgumentException, lambda: files.list("/home/user/a-file"), "not a directory")


def fl12(context):
    files = context.shared().files
    text = "squeeze me " * 5_000
    files.write("/tmp/squeezed", text, gzip=True)
    same(files.get_info("/tmp/squeezed").size, len(text), "stored plain")
    same(files.read("/tmp/squeezed", gzip=True) == text, True, "read with gzip")
    same(files.read("/tmp/squeezed") == text, True, "read plain")


def fl13(context):
    files = context.shared().files
    path = "/home/user/with-metadata.txt"
    written = files.write(path, "x", metadata={"Owner": "somebody", "build-id": "42"})
    same(written.metadata, {"owner": "somebody", "build-id": "42"})
    same(files.get_info(path).metadata, {"owner": "somebody", "build-id": "42"})
    files.write(path, "y")
    same(files.get_info(path).metadata or None, None, "cleared by a write without metadata")


def fl14(context):
    files = context.shared().files
    files.write("relative.txt", "user's")
    same(files.read("/home/user/relative.txt"), "user's")
    same(files.read("~/relative.txt"), "user's")
    same(files.write("relative.txt", "root's", user="root").path, "/root/relative.txt")
    same(files.get_info("/root/relative.txt").owner, "root")
    raises(AuthenticationException, lambda: files.read("x", user="nobody-here"))


def fl15(context):
    sandbox = by_name(context)
    files = context.shared().files
    path = "/home/user/signed é+&.txt"
    status, text = via_host(context, sandbox.upload_url(path, use_signature_expiration=60), upload="by address")
    same(status, 200, text)
    same(files.read(path), "by address")
    same(via_host(context, sandbox.download_url(path, use_signature_expiration=60)), (200, "by address"))
    same(via_host(context, sandbox.download_url(path)), (200, "by address"))
    status, text = via_host(context, sandbox.upload_url("signed-root.txt", user="root"), upload="root's")
    same(status, 200, text)
    same(files.read("/root/signed-root.txt", user="root"), "root's")


def fl16(context):
    sandbox = by_name(context)
    context.shared().files.write("/home/user/secret.txt", "s")
    good = sandbox.download_url("/home/user/secret.txt")
    expired = sandbox.download_url("/home/user/secret.txt", use_signature_expiration=-10)
    status, text = via_host(context, expired)
    same((status, json.loads(text)), (401, {"code": 401, "message": "signature is already expired"}))
    for address, choices in (
        (good, {"path": "/etc/passwd"}),
        (good, {"username": "root"}),
        (good, {"signature": "v1_AAAA"}),
        (good, {"signature": ""}),
        (good, {"upload": "overwritten"}),
        (sandbox.upload_url("/home/user/secret.txt"), {}),
    ):
        status, text = via_host(context, address, **choices)
        same((status, json.loads(text)["code"]), (401, 401), str(choices))


def fl17(context):
    sandbox = context.shared()
    data = os.urandom(32 << 20)
    digest = hashlib.sha256(data).hexdigest()
    sandbox.files.write("/tmp/large", io.BytesIO(data))
    same(sandbox.commands.run("sha256sum /tmp/large").stdout.split(" ")[0], digest, "up")
    received = hashlib.sha256()
    for part in sandbox.files.read("/tmp/large", format="stream"):
        received.update(part)
    same(received.hexdigest(), digest, "down")
    sandbox.files.remove("/tmp/large")


def fl18(context):
    files = context.shared().files
    paths = [f"/home/user/shared/new/folder/{index}.txt" for index in range(50)]
    with ThreadPoolExecutor(50) as pool:
        list(pool.map(lambda path: files.write(path, path), paths))
    same(len(files.list("/home/user/shared/new/folder")), 50)
    same(files.read(paths[17]), paths[17])


def fl19(context):
    files = context.shared().files
    files.make_dir("/home/user/watched/sub")
    raises(FileNotFoundException, lambda: files.watch_dir("/home/user/never/was"))
    plain = files.watch_dir("/home/user/watched/sub")
    watch = files.watch_dir("/home/user/watched", recursive=True)
    files.write("/home/user/watched/sub/f.txt", "x")
    events = plain.get_new_events()
    same([(event.type.value, event.name) for event in events][:1], [("create", "f.txt")])
    same(len(events), 3, "a new file gives exactly create, chmod and write")
    plain.stop()
    files.rename("/home/user/watched/sub/f.txt", "/home/user/watched/g.txt")
    files.remove("/home/user/watched/g.txt")
    files.make_dir("/home/user/watched/later")
    time.sleep(0.3)
    files.write("/home/user/watched/later/h.txt", "y")
    wanted = {
        ("create", "sub/f.txt"),
        ("write", "sub/f.txt"),
        ("rename", "sub/f.txt"),
        ("create", "g.txt"),
        ("remove", "g.txt"),
        ("create", "later"),
        ("create", "later/h.txt"),
    }
    seen = set()
    for _ in range(50):
        seen |= {(event.type.value, event.name) for event in watch.get_new_events()}
        if wanted <= seen:
            break
        time.sleep(0.1)
    watch.stop()
    same(wanted - seen, set(), "events that did not come")


FILE_ROWS = {
    f"FL{number}": row
    for number, row in enumerate(
        [fl1, fl2, fl3, fl4, fl5, fl6, fl7, fl8, fl9, fl10, fl11, fl12, fl13, fl14, fl15, fl16, fl17, fl18, fl19],
        start=1,
    )
}
