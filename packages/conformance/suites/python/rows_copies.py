"""Rows about copies of sandboxes: forks, snapshots, templates made of them."""

import datetime
import urllib.parse

from context import is_api_error, raises, same
from e2b import SandboxException, SandboxNotFoundException, SandboxState
from sdk import Sandbox, Template


def named(context, what):
    """A name that no other client of this run uses."""
    return f"{what}-{context.job['client'].replace('.', '-')}-{context.rig['mode']}"


def s14(context):
    secret = context.rig["mode"] == "secret"
    parent = context.create(**({"envs": {"GREETING": "inherited"}, "metadata": {"job": "7"}} if secret else {}))
    path = f"/sandboxes/{parent.sandbox_id}/fork"
    status, _, reply = context.raw("POST", path, {"count": 2})
    same(status, 201)
    children = [item["sandbox"] for item in reply]
    token = context.raw("POST", f"/sandboxes/{parent.sandbox_id}/connect", {})[2]["envdAccessToken"]
    same(len({token, *(child["envdAccessToken"] for child in children)}), 3, "three tokens")
    same(context.daemon_status(parent.sandbox_id, token), 200, "the parent's token still opens it")
    for child in children:
        child_id = child["sandboxID"]
        same(context.daemon_status(child_id, child["envdAccessToken"]), 200, "its own token")
        same(context.daemon_status(child_id, token), 401, "the parent's token")
        same(context.on_node(child_id)["claim_ref"].startswith("ns1/sb_"), True)
        handle = Sandbox.connect(child_id, **context.options())
        seen = handle.commands.run('echo "$GREETING"; whoami; pwd')
        same(seen.stdout, f"{'inherited' if secret else ''}\nuser\n/home/user\n")
        two = context.options(context.rig["keys"]["two"])
        raises(SandboxNotFoundException, lambda: Sandbox.connect(child_id, **two))
        same(handle.kill(), True)
    same("max_fork_count" in is_api_error(context.raw("POST", path, {"count": 1000}), 400), True)
    parent.pause()
    is_api_error(context.raw("POST", path), 409)
    same(parent.get_info().state, SandboxState.PAUSED)
    parent.kill()


def s15(context):
    source = context.create()
    two = context.options(context.rig["keys"]["two"])
    first = source.create_snapshot()
    same(first.names, [])
    name = named(context, "paged")
    second = source.create_snapshot(name=name)
    third = source.create_snapshot(name=f"{name}:v2")
    newest_first = [item.snapshot_id for item in (third, second, first)]
    pages = Sandbox.list_snapshots(sandbox_id=source.sandbox_id, limit=2, **context.options())
    seen = []
    while pages.has_next:
        seen.append([item.snapshot_id for item in pages.next_items()])
    same(seen, [newest_first[:2], newest_first[2:]])
    by_name = context.raw("GET", f"/snapshots?name={urllib.parse.quote(name)}")[2]
    same(by_name, [{"snapshotID": second.snapshot_id, "names": [name]}])
    is_api_error(context.raw("GET", "/snapshots?limit=0"), 400)
    is_api_error(context.raw("GET", "/snapshots?nextToken=not-a-token"), 400)
    raises(SandboxException, lambda: source.create_snapshot(name="n" * 60), "^400: .* 59 ")
    raises(SandboxNotFoundException, lambda: Sandbox.create_snapshot(source.sandbox_id, **two))
    stolen = {"templateID": second.snapshot_id}
    is_api_error(context.raw("POST", "/v2/sandboxes", stolen, context.rig["keys"]["two"]), 404)
    for snapshot_id in newest_first:
        same(Sandbox.delete_snapshot(snapshot_id, **context.options()), True)
    is_api_error(context.raw("POST", "/v2/sandboxes", stolen), 404)
    source.kill()


def s16(context):
    options = context.options()
    two = context.options(context.rig["keys"]["two"])
    name = named(context, "built")
    source = context.create()
    source.files.write("/home/user/from-template.txt", name)
    context.promote(source.sandbox_id, name)
    source.kill()
    same(Template.exists(name, **options), True)
    same(Template.exists(name, **two), False, "in another namespace")
    same(Template.get_tags(name, **options), [])
    assigned = Template.assign_tags(name, ["v1", "stable"], **options)
    same(assigned.tags, ["v1", "stable"])
    tags = Template.get_tags(name, **options)
    same([(tag.tag, tag.build_id) for tag in tags], [("stable", assigned.build_id), ("v1", assigned.build_id)])
    same(all(isinstance(tag.created_at, datetime.datetime) for tag in tags), True)
    Template.assign_tags(f"{name}:v1", "production", **options)
    Template.remove_tags(name, ["stable", "production"], **options)
    same([tag.tag for tag in Template.get_tags(name, **options)], ["v1"])
    raises(Exception, lambda: Template.remove_tags(name, "stable", **options), "404")
    raises(Exception, lambda: Template.assign_tags(f"{name}:nope", "x", **options), "404")
    raises(Exception, lambda: Template.assign_tags(name, "x", **two), "404")
    for template in (name, f"{name}:v1", f"{name}:default"):
        sandbox = context.create(template)
        same(sandbox.get_info().template_id, name, template)
        same(sandbox.files.read("/home/user/from-template.txt"), name)
        same(sandbox.commands.run("pwd").exit_code, 0)
        sandbox.kill()
    is_api_error(context.raw("POST", "/v2/sandboxes", {"templateID": f"{name}:nope"}), 404)
    is_api_error(context.raw("POST", "/v2/sandboxes", {"templateID": name}, context.rig["keys"]["two"]), 404)
    detail = context.raw("GET", f"/templates/{name}")[2]
    same([build["buildID"] for build in detail["builds"]], [assigned.build_id])
    same(detail["names"], [name, f"{name}:v1"])
    same(context.raw("PATCH", f"/v2/templates/{name}", {"public": True})[::2], (200, {"names": [name, f"{name}:v1"]}))
    message = is_api_error(context.raw("GET", "/templates/base"), 404)
    same("is a pool image, not a built template" in message, True)
    is_api_error(context.raw("DELETE", f"/templates/{name}", None, context.rig["keys"]["two"]), 404)
    same(context.raw("DELETE", f"/templates/{name}")[0], 204)
    same(Template.exists(name, **options), False, "gone at once")
    is_api_error(context.raw("DELETE", f"/templates/{name}"), 404)


COPY_ROWS = {"S14": s14, "S15": s15, "S16": s16}
