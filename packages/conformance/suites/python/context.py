"""What the rows of the Python SDK work with."""

import http.client
import json
import re
import socket
import ssl
import time
import urllib.parse

from sdk import Sandbox


class RowContext:
    """One suite's state: the rig, the sandbox its rows share, and what has to be killed at the end."""

    def __init__(self, job):
        self.job = job
        self.rig = job["rig"]
        self._shared = None
        self._made = set()

    def options(self, key=None):
        """Connection options for the key of namespace ns1, or another key."""
        options = {
            "api_key": key or self.rig["keys"]["one"],
            "api_url": self.rig["apiUrl"],
            "domain": self.rig["domain"],
        }
        if self.rig.get("transport") != "by-host":
            options["sandbox_url"] = self.rig["proxyUrl"]
        return options

    def create(self, template=None, **options):
        """Creates a sandbox that is killed when the suite ends."""
        sandbox = Sandbox.create(template, **{"timeout": 120, **self.options(), **options})
        self._made.add(sandbox.sandbox_id)
        return sandbox

    def shared(self):
        """The sandbox of this suite."""
        if self._shared is None:
            self._shared = self.create(timeout=600)
        return self._shared

    def share(self, sandbox):
        self._shared = sandbox
        self._made.add(sandbox.sandbox_id)

    def clean_up(self):
        for key in self.rig["keys"].values():
            for sandbox_id in self._made:
                try:
                    Sandbox.kill(sandbox_id, **self.options(key))
                except Exception:
                    pass

    def raw(self, method, path, body=None, key=""):
        """A call of the control plane without the SDK. Gives status, headers and parsed body."""
        headers = {}
        if key is not None:
            headers["X-API-KEY"] = key or self.rig["keys"]["one"]
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body)
        status, reply_headers, text = call(self.rig["apiUrl"], method, path, headers, data)
        return status, reply_headers, json.loads(text) if text else None

    def proxy(self, method, path, headers, body=None):
        """A call of the data plane without the SDK."""
        return call(self.rig["proxyUrl"], method, path, headers, body)

    def node(self, address, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.rig['nodeToken']}"}
        data = None if body is None else json.dumps(body)
        return call(f"http://{address}", method, path, headers, data)

    def daemon_status(self, sandbox_id, token):
        """The status of a request for the daemon of a sandbox that presents this token."""
        headers = {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": "49983", "X-Access-Token": token}
        return self.proxy("GET", "/envs", headers)[0]

    def promote(self, sandbox_id, name):
        """Makes what a sandbox holds the template of this name in ns1, as a build does, and waits until it is known."""
        claim = re.sub(r"^sb-", "sb_", sandbox_id)
        for address in self.rig["nodeAddresses"]:
            if self.node(address, "GET", f"/v1/sandboxes/{claim}")[0] == 200:
                status, _, text = self.node(
                    address, "POST", f"/v1/sandboxes/{claim}/promote", {"template": f"e2b/ns1/{name}"}
                )
                same(status, 200, text)
        self.poll()

    def claims_made(self):
        """Claims that all nodes have made since they started."""
        total = 0
        for address in self.rig["nodeAddresses"]:
            text = self.node(address, "GET", "/metrics")[2]
            total += sum(int(n) for n in re.findall(r'^sandboxd_claims_total\{tier="\w+"\} (\d+)', text, re.M))
        return total

    def on_node(self, sandbox_id):
        """What the owning node says of a sandbox."""
        claim = re.sub(r"^sb-", "sb_", sandbox_id)
        for address in self.rig["nodeAddresses"]:
            status, _, text = self.node(address, "GET", f"/v1/sandboxes/{claim}")
            if status == 200:
                return json.loads(text)
        raise AssertionError(f"no node has {claim}")

    def on_nodes(self, prefix):
        """Claims of all nodes whose ref starts with the prefix."""
        rows = []
        for address in self.rig["nodeAddresses"]:
            rows += json.loads(self.node(address, "GET", "/v1/sandboxes")[2]).get("sandboxes") or []
        return [row for row in rows if row.get("claim_ref", "").startswith(prefix)]

    def poll(self):
        """Waits one inventory poll and a little more."""
        time.sleep(self.rig["pollMs"] / 1000 + 0.3)


class Absent(Exception):
    """Raised by a row whose subject is not there: a skip. The message says why and what would help."""


class NamedConnection(http.client.HTTPSConnection):
    """
    A TLS connection to loopback under another name, for interpreters whose resolver does not know names below localhost
    as those of browsers and of the SDK do.
    """

    def __init__(self, port, name):
        super().__init__("127.0.0.1", port, timeout=30)
        self._name = name

    def connect(self):
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        self.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=self._name)


def call(origin, method, path, headers, body=None, name=None):
    url = urllib.parse.urlsplit(origin)
    if url.scheme == "https":
        connection = NamedConnection(url.port, name or url.hostname)
    else:
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
    try:
        if "Host" in headers:
            connection.putrequest(method, path, skip_host=True)
            data = body.encode() if isinstance(body, str) else body
            for name, value in headers.items():
                connection.putheader(name, value)
            if data is not None:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
        else:
            connection.request(method, path, body=body, headers=headers)
        reply = connection.getresponse()
        return reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read().decode("utf-8", "replace")
    finally:
        connection.close()


def raises(kind, action, pattern=None):
    """Expects the action to raise the class (or one made from it) and returns the exception."""
    try:
        value = action()
    except kind as error:
        if pattern is not None and not re.search(pattern, str(error), re.S):
            raise AssertionError(f"{error!r} does not match {pattern}") from error
        return error
    except Exception as error:
        raise AssertionError(f"expected {kind.__name__}, got {type(error).__name__}: {error}") from error
    raise AssertionError(f"expected {kind.__name__}, but it answered {value!r}")


def same(actual, expected, what=""):
    if actual != expected:
        raise AssertionError(f"{what + ': ' if what else ''}{actual!r} is not {expected!r}"[:400])


def near(actual, expected, tolerance, what):
    if abs(actual - expected) > tolerance:
        raise AssertionError(f"{what}: {actual} is not within {tolerance} of {expected}")


def is_api_error(reply, status):
    """Expects an answer of our API to be a well-formed error of that status, and returns its message."""
    got, _, body = reply
    same(got, status, f"status ({body})")
    same(body.get("code"), status, "code in the body")
    same(type(body.get("message")), str, "message in the body")
    return body["message"]


def until(what, probe, limit):
    deadline = time.monotonic() + limit
    while not probe():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {limit} s")
        time.sleep(0.25)
