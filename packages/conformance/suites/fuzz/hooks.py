"""Steers schemathesis over the control plane, judges what is special to it, and counts.

Random requests seldom meet a sandbox. So some of them are pointed at what is there: known templates for creates, living
sandboxes, builds and snapshots for the rest. At most `ALIVE` sandboxes live at a time, and their leases are short.
The counts go to the file of FUZZ_REPORT when the process ends.
"""

import atexit
import json
import os
import random
import re
import threading
import urllib.request
from collections import Counter, defaultdict

import schemathesis

API = os.environ["FUZZ_API_URL"]
KEY = os.environ["FUZZ_API_KEY"]
REPORT = os.environ["FUZZ_REPORT"]
IMAGE = os.environ["FUZZ_IMAGE"]
BUILT = os.environ["FUZZ_BUILT"]
WANTED = int(os.environ.get("FUZZ_SEED", "1"))

ALIVE = 2
LEASE_SECONDS = 60
CREATES = {"POST /sandboxes", "POST /v2/sandboxes"}
FORK = "POST /sandboxes/{sandboxID}/fork"
TAGGING = {"POST /templates/tags", "DELETE /templates/tags"}
TAG = re.compile("[A-Za-z0-9._-]{1,63}")
REQUEST_BUILD = "POST /v3/templates"

lock = threading.Lock()
chance = random.Random(WANTED)
statuses = defaultdict(Counter)
busy = Counter()
sandboxes = []
builds = []
snapshots = []


def json_of(response):
    try:
        return json.loads(response.content)
    except ValueError:
        return None


def at_random(items):
    with lock:
        return chance.choice(items) if items else None


def likely(share):
    with lock:
        return chance.random() < share


def end(sandbox):
    """Ends a sandbox beside the count."""
    request = urllib.request.Request(f"{API}/sandboxes/{sandbox}", method="DELETE", headers={"X-API-Key": KEY})
    try:
        urllib.request.urlopen(request, timeout=30).close()
    except OSError:
        pass


def keep(ids):
    """Remembers sandboxes, and ends the oldest ones when there are too many."""
    with lock:
        sandboxes.extend(ids)
        over = sandboxes[: max(0, len(sandboxes) - ALIVE)]
        del sandboxes[: len(over)]
    for sandbox in over:
        end(sandbox)


@schemathesis.hook
def before_call(context, case, kwargs):
    label = case.operation.label
    if label in CREATES or label == FORK:
        steer_creation(label, case.body)
    if case.meta is not None and case.meta.phase.name.value == "stateful":
        # Its requests build on each other as they are.
        return
    path = case.path_parameters or {}
    if "sandboxID" in path and likely(0.7):
        path["sandboxID"] = at_random(sandboxes) or path["sandboxID"]
    if "buildID" in path and likely(0.7):
        build = at_random(builds)
        if build is not None:
            path["templateID"], path["buildID"] = build
    elif label == "DELETE /templates/{templateID}":
        # The built template is to stay.
        if likely(0.3):
            path["templateID"] = at_random(snapshots) or path["templateID"]
    elif "templateID" in path and likely(0.5):
        path["templateID"] = BUILT
    elif "alias" in path and likely(0.3):
        path["alias"] = at_random([IMAGE, BUILT])
    if label in TAGGING:
        steer_tags(case.body)


def steer_creation(label, body):
    if not isinstance(body, dict):
        return
    template = body.get("templateID")
    if isinstance(template, str) and template.strip() != "" and likely(0.15):
        body["templateID"] = at_random([IMAGE, BUILT])
    if body.get("allow_internet_access") is True and likely(0.8):
        # That lane has few guests.
        body["allow_internet_access"] = False
    for name, most in (("timeout", LEASE_SECONDS), ("count", 2)):
        value = body.get(name)
        if type(value) is int and most < value < 2**31:
            body[name] = most


def steer_tags(body):
    """At the built template, with one of two tags, so that what is taken away was sometimes given."""
    if not isinstance(body, dict) or not likely(0.5):
        return
    for name in ("target", "name"):
        if isinstance(body.get(name), str):
            body[name] = BUILT
    tags = body.get("tags")
    if isinstance(tags, list) and len(tags) > 0 and all(isinstance(tag, str) and TAG.fullmatch(tag) for tag in tags):
        body["tags"] = [at_random(["one", "two"])]


@schemathesis.hook
def after_call(context, case, response):
    label = case.operation.label
    method = case.method.upper()
    with lock:
        statuses[label if label.startswith(f"{method} ") else f"{method} {case.operation.path} (not described)"][
            response.status_code
        ] += 1
    if response.status_code == 201 and (label in CREATES or label == FORK):
        body = json_of(response)
        made = [item["sandbox"] for item in body] if isinstance(body, list) else [body]
        keep([sandbox["sandboxID"] for sandbox in made])
    elif response.status_code == 202 and label == REQUEST_BUILD:
        body = json_of(response)
        with lock:
            builds.append((body["templateID"], body["buildID"]))
            del builds[:-20]
    elif response.status_code == 201 and label.endswith("/snapshots"):
        with lock:
            snapshots.append(json_of(response)["snapshotID"])


def nothing_warm(response):
    """The one 5xx that is no fault: the fleet was asked for more than it keeps warm at this moment."""
    body = json_of(response)
    return (
        response.status_code == 503
        and isinstance(body, dict)
        and "no warm sandbox" in str(body.get("message"))
        and response.headers.get("retry-after") is not None
    )


def says_nothing(response):
    """A body of white space alone is none, and a body may be absent where this was taken."""
    sent = response.request.body
    return isinstance(sent, (bytes, str)) and len(sent) > 0 and len(sent.strip()) == 0


@schemathesis.hook
def filter_failure(context, failure, case, response):
    if type(failure).__name__ == "ServerError" and nothing_warm(response):
        with lock:
            busy[case.operation.label] += 1
        return False
    return not (type(failure).__name__ == "AcceptedNegativeData" and says_nothing(response))


@schemathesis.check
def error_has_code_and_message(context, response, case):
    """Every error body is JSON with the status as `code` and a text as `message`."""
    if response.status_code < 400 or case.method.upper() == "HEAD":
        return
    body = json_of(response)
    assert isinstance(body, dict), f"the body of a {response.status_code} is no JSON object"
    assert type(body.get("code")) is int and body["code"] == response.status_code, "code is not the status"
    assert isinstance(body.get("message"), str) and body["message"] != "", "there is no message"


@schemathesis.check
def status_is_named(context, response, case):
    """The document names the status itself, not only a range that it falls into."""
    responses = case.operation.definition.raw.get("responses", {})
    if case.operation.label.startswith(f"{case.method.upper()} "):
        assert str(response.status_code) in responses, f"{response.status_code} is not among the answers described"


@atexit.register
def report():
    with lock:
        left = list(sandboxes)
    for sandbox in left:
        end(sandbox)
    with open(REPORT, "w", encoding="utf-8") as file:
        json.dump({"statuses": {label: dict(counts) for label, counts in statuses.items()}, "busy": dict(busy)}, file)
