"""Limits of keys, creates that are sent twice."""

import time
from concurrent.futures import ThreadPoolExecutor

from context import is_api_error, raises, same
from e2b import RateLimitException, SandboxException
from sdk import Sandbox

CREATE = {"templateID": "base", "timeout": 60}


def seconds(reply):
    header = reply[1].get("retry-after", "")
    same(header.isdecimal() and int(header) > 0, True, f"Retry-After {header}")
    return int(header)


def ad1(context):
    limited = context.rig["keys"]["limited"]
    options = context.options(limited)
    first = context.create(**options)
    refused = context.raw("POST", "/v2/sandboxes", CREATE, limited)
    message = is_api_error(refused, 429)
    same("max_sandboxes=1" in message and "--e2b-api-key-file" in message, True, message)
    seconds(refused)
    same(refused[1]["ratelimit"], '"max_sandboxes";r=0')
    raises(RateLimitException, lambda: context.create(**options, retries=0), "max_sandboxes=1")
    # The SDK waits as it is told, and tries again.
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(lambda: context.create(**options))
        time.sleep(0.2)
        first.kill()
        same(second.result().commands.run("echo room").stdout, "room\n")
    second.result().kill()


def ad2(context):
    rated = context.rig["keys"]["rated"]
    for _ in range(3):
        reply = context.raw("POST", "/v2/sandboxes", CREATE, rated)
        if reply[0] != 201:
            break
        context.raw("DELETE", f"/sandboxes/{reply[2]['sandboxID']}", key=rated)
    message = is_api_error(reply, 429)
    same("create_per_minute=2" in message, True, message)
    same(seconds(reply) <= 60, True)
    options = context.options(rated)
    raises(RateLimitException, lambda: context.create(**options, retries=0), "create_per_minute=2")


def ad3(context):
    key = f"conformance-{context.job['client'].replace('.', '-')}-{time.time_ns()}"
    newest = context.job["client"] == "py-newest"
    once = {"idempotency_key": key} if newest else {"api_headers": {"Idempotency-Key": key}}
    options = {"timeout": 60, "metadata": {"job": "once"}, **once}
    before = context.claims_made()
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda _: context.create(**options), range(3)))
    same(len({sandbox.sandbox_id for sandbox in made}), 1, "sandboxes of one key")
    again = context.create(**options)
    same(again.sandbox_id, made[0].sandbox_id)
    same(again.commands.run("echo same").stdout, "same\n")
    raises(SandboxException, lambda: context.create(**{**options, "timeout": 30}), "^409: .*Idempotency-Key")
    same(context.claims_made() - before, 1, "claims of one key")
    same(Sandbox.kill(again.sandbox_id, **context.options()), True)
    following = context.create(**options)
    same(following.sandbox_id != again.sandbox_id, True, "a new sandbox after the first was killed")
    following.kill()


ADMISSION_ROWS = {"AD1": ad1, "AD2": ad2, "AD3": ad3}
