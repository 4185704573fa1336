"""Sections 14.3 and 14.4 of the control-plane contract."""

import datetime

from context import is_api_error, near, same
from e2b import ConnectionConfig, SandboxQuery, SandboxState
from e2b.api.client.api.sandboxes import post_sandboxes_sandbox_id_resume
from e2b.api.client.models import ResumedSandbox
from sdk import Sandbox, Template, call_generated


def a1(context):
    sandbox = context.create()
    context.share(sandbox)
    info = sandbox.get_info()
    same((info.name, info.template_id), ("base", context.rig["image"]))
    status, _, body = context.raw("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 60})
    same(status, 201)
    same((body["templateID"], body["alias"], body["domain"]), (context.rig["image"], "base", context.rig["domain"]))
    same(context.raw("DELETE", f"/sandboxes/{body['sandboxID']}")[0], 204)


def a2(context):
    sandbox_id = context.shared().sandbox_id
    for template in ("base", "code-interpreter-v1", context.rig["image"]):
        items = Sandbox.list(query=SandboxQuery(template=template), **context.options()).next_items()
        same([item.name for item in items if item.sandbox_id == sandbox_id], ["base"], f"filter {template}")
    same(Sandbox.list(query=SandboxQuery(template="nope"), **context.options()).next_items(), [])


def a3(context):
    same(Template.exists("base", **context.options()), True, "alias")
    same(Template.exists(context.rig["image"], **context.options()), True, "image")
    same(Template.exists("nope", **context.options()), False, "unknown")


def a4(context):
    is_api_error(context.raw("GET", "/templates/aliases/base", key=None), 401)


def a5(context):
    status, _, templates = context.raw("GET", "/templates")
    same(status, 200)
    entry = next(template for template in templates if template["templateID"] == context.rig["image"])
    same(entry["aliases"], ["base", "code-interpreter-v1", "e2bdev/base", "medium-box"])
    datetime.datetime.fromisoformat(entry["createdAt"].replace("Z", "+00:00"))
    for template in templates:
        same(type(template["aliases"]), list)


def a6(context):
    medium = context.create("medium-box")
    same(context.on_node(medium.sandbox_id)["key"]["size"], "medium")
    same(medium.get_info().memory_mb, 1024)
    medium.kill()
    plain = context.create(context.rig["image"])
    same(context.on_node(plain.sandbox_id)["key"]["size"], "small")
    plain.kill()


def resume(context, sandbox_id, **body):
    config = ConnectionConfig(**context.options())
    return call_generated(post_sandboxes_sandbox_id_resume, sandbox_id, config, ResumedSandbox(**body))


def left(info):
    return (info.end_at - datetime.datetime.now(datetime.timezone.utc)).total_seconds()


def r1(context):
    sandbox = context.create(timeout=20)
    context.share(sandbox)
    sandbox.commands.run("echo before > /tmp/before")
    same(sandbox.pause(), True)
    reply = resume(context, sandbox.sandbox_id, timeout=30)
    same(reply.status_code, 201)
    same(type(reply.parsed.envd_access_token), str, "token in the reply")
    status, _, text = context.proxy(
        "GET",
        "/files?path=/tmp/before&username=user",
        {
            "E2b-Sandbox-Id": sandbox.sandbox_id,
            "E2b-Sandbox-Port": "49983",
            "X-Access-Token": reply.parsed.envd_access_token,
        },
    )
    same((status, text), (200, "before\n"), "with the token of the reply")
    near(left(sandbox.get_info()), 30, 5, "time left")


def r2(context):
    same(resume(context, context.shared().sandbox_id, timeout=30).status_code, 409)


def r3(context):
    same(resume(context, "sb-0000000000000000", timeout=30).status_code, 404)


def r4(context):
    sandbox = context.shared()
    sandbox.pause()
    same(resume(context, sandbox.sandbox_id, timeout=30, memory=False).status_code, 400)
    same(sandbox.get_info().state, SandboxState.PAUSED, "not woken")
    same(resume(context, sandbox.sandbox_id, timeout=30).status_code, 201)


def r5(context):
    sandbox = context.shared()
    sandbox.set_timeout(300)
    sandbox.pause()
    same(resume(context, sandbox.sandbox_id, timeout=5).status_code, 201)
    near(left(sandbox.get_info()), 300, 10, "time left")


def r6(context):
    sandbox = context.shared()
    for auto_pause, on_expire in ((True, "archive"), (False, "destroy")):
        sandbox.pause()
        same(resume(context, sandbox.sandbox_id, timeout=30, auto_pause=auto_pause).status_code, 201)
        same(context.on_node(sandbox.sandbox_id).get("on_expire", "destroy"), on_expire)
    near(left(sandbox.get_info()), 300, 20, "time left")


ALIAS_ROWS = {"A1": a1, "A2": a2, "A3": a3, "A4": a4, "A5": a5, "A6": a6}
RESUME_ROWS = {"R1": r1, "R2": r2, "R3": r3, "R4": r4, "R5": r5, "R6": r6}
