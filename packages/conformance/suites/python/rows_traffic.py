"""Many sandboxes at once, user ports, clients that go away."""

import json
import os
import signal
import socket
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

from context import same
from sdk import Sandbox

SERVER = "\n".join(
    [
        "from http.server import BaseHTTPRequestHandler, HTTPServer",
        "class Answer(BaseHTTPRequestHandler):",
        "  def do_GET(self):",
        "    body = ('%s %s' % (self.path, self.headers.get('Host'))).encode()",
        "    self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers()",
        "    self.wfile.write(body)",
        "HTTPServer(('127.0.0.1', 3000), Answer).serve_forever()",
    ]
)


def routed(sandbox_id, port):
    return {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": str(port)}


def x1(context):
    with ThreadPoolExecutor(20) as pool:
        sandboxes = list(pool.map(lambda _: context.create(), range(20)))
        same(len({sandbox.sandbox_id for sandbox in sandboxes}), 20)

        def use(sandbox):
            sandbox.files.write("/home/user/me", sandbox.sandbox_id)
            return sandbox.commands.run("cat /home/user/me").stdout == sandbox.sandbox_id

        same(list(pool.map(use, sandboxes)), [True] * 20)
        same(list(pool.map(lambda sandbox: sandbox.kill(), sandboxes)), [True] * 20)


def x2(context):
    sandbox = context.shared()
    sandbox.files.write("/home/user/server.py", SERVER)
    sandbox.commands.run("python3 /home/user/server.py", background=True, timeout=0)
    by_headers = routed(sandbox.sandbox_id, 3000)
    reply = context.proxy("GET", "/a?b=1", by_headers)
    for _ in range(50):
        if reply[0] != 502:
            break
        time.sleep(0.1)
        reply = context.proxy("GET", "/a?b=1", by_headers)
    host = sandbox.get_host(3000)
    same(host, f"3000-{sandbox.sandbox_id}.{context.rig['domain']}")
    same((reply[0], reply[2]), (200, f"/a?b=1 {host}"))
    status, _, text = context.proxy("GET", "/c", {"Host": host})
    same((status, text), (200, f"/c {host}"))


def x3(context):
    sandbox_id = context.shared().sandbox_id
    status, headers, text = context.proxy("GET", "/", routed(sandbox_id, 3999))
    same((status, json.loads(text)["code"]), (502, 502))
    same(headers["content-type"].startswith("application/json"), True)
    for extra in ({}, {"X-Access-Token": "0" * 64}):
        status, _, text = context.proxy("GET", "/health", {**routed(sandbox_id, 49983), **extra})
        same((status, json.loads(text)["code"]), (401, 401))
    same(context.proxy("GET", "/", routed("sb-0000000000000000", 3000))[0], 502)
    same(context.proxy("GET", "/", {})[0], 400)


def x4(context):
    url = urllib.parse.urlsplit(context.rig["apiUrl"])
    body = json.dumps({"templateID": "base", "timeout": 300})
    request = (
        f"POST /v2/sandboxes HTTP/1.1\r\nHost: {url.netloc}\r\nX-API-KEY: {context.rig['keys']['three']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    ).encode()
    connections = [socket.create_connection((url.hostname, url.port)) for _ in range(8)]
    # The server stands still meanwhile, so that it learns of request and hang-up at once: a client that is slow to hang
    # up may have been answered.
    os.kill(context.rig["frontPid"], signal.SIGSTOP)
    try:
        for connection in connections:
            connection.sendall(request)
            connection.close()
    finally:
        os.kill(context.rig["frontPid"], signal.SIGCONT)
    deadline = time.monotonic() + 15
    while context.on_nodes("ns3/"):
        if time.monotonic() > deadline:
            raise AssertionError(f"{len(context.on_nodes('ns3/'))} sandboxes are left of 8 creates nobody waited for")
        time.sleep(0.25)
    context.poll()
    same(Sandbox.list(**context.options(context.rig["keys"]["three"])).next_items(), [])


TRAFFIC_ROWS = {"X1": x1, "X2": x2, "X3": x3, "X4": x4}
