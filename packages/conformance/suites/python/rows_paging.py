"""Section 14.2 of the control-plane contract."""

import datetime
import time
import urllib.parse

from context import is_api_error, same
from e2b import SandboxQuery, SandboxState
from sdk import Sandbox

METADATA = {"a b/+": "c/d&e=f+g ü", "plain": "1"}

_five = []


def paged(context):
    return context.options(context.rig["keys"]["three"])


def five_sandboxes(context):
    """Five sandboxes in a namespace of their own, oldest first."""
    if not _five:
        for item in Sandbox.list(**paged(context)).next_items():
            Sandbox.kill(item.sandbox_id, **paged(context))
        for index in range(5):
            time.sleep(context.rig.get("apartMs", 0) / 1000)
            _five.append(context.create(metadata={**METADATA, "index": str(index)}, **paged(context)))
        context.poll()
    return _five


def ids(context):
    return [sandbox.sandbox_id for sandbox in five_sandboxes(context)]


def all_pages(context, between=None, **choices):
    paginator = Sandbox.list(**choices, **paged(context))
    sizes, more, seen = [], [], []
    while paginator.has_next and len(sizes) < 20:
        items = paginator.next_items()
        sizes.append(len(items))
        more.append(paginator.has_next)
        seen += [item.sandbox_id for item in items]
        if len(sizes) == 1 and between:
            between()
    return sizes, more, seen


def ids_of(context, **query):
    items = Sandbox.list(query=SandboxQuery(**query), **paged(context)).next_items()
    return [item.sandbox_id for item in items]


def p1(context):
    newest_first = ids(context)[::-1]
    sizes, more, seen = all_pages(context, limit=2)
    same((sizes, more, seen), ([2, 2, 1], [True, True, False], newest_first))


def p2(context):
    same(all_pages(context, limit=2, order="asc")[2], ids(context))


def p3(context):
    newest_first = ids(context)[::-1]
    time.sleep(context.rig.get("apartMs", 0) / 1000)
    extra = context.create(metadata={**METADATA, "index": "extra"}, **paged(context))
    seen = all_pages(context, extra.kill, limit=2)[2]
    same(seen[1], newest_first[0])
    same(len(set(seen)), len(seen), "no repeats")
    for sandbox_id in newest_first[2:]:
        same(sandbox_id in seen, True, f"{sandbox_id} seen")


def p4(context):
    for query in ("limit=0", "limit=101", "limit=many", "limit=1.5", "order=sideways", "nextToken=not-a-token"):
        is_api_error(context.raw("GET", f"/v2/sandboxes?{query}", key=context.rig["keys"]["three"]), 400)


def p5(context):
    made = ids(context)
    status, headers, body = context.raw("GET", "/sandboxes?limit=1", key=context.rig["keys"]["three"])
    same(status, 200)
    same(headers.get("x-next-token"), None)
    same(sorted(item["sandboxID"] for item in body), sorted(made))


def p6(context):
    paused = five_sandboxes(context)[0]
    same(paused.pause(), True)
    same(ids_of(context, state=[SandboxState.PAUSED]), [paused.sandbox_id])
    same(len(ids_of(context, state=[SandboxState.RUNNING])), 4)
    same(len(ids_of(context, state=[SandboxState.RUNNING, SandboxState.PAUSED])), 5)
    key = context.rig["keys"]["three"]
    same(len(context.raw("GET", "/v2/sandboxes?state=running&state=paused", key=key)[2]), 5)
    is_api_error(context.raw("GET", "/v2/sandboxes?state=sleeping", key=key), 400)
    context.poll()
    same(ids_of(context, state=[SandboxState.PAUSED]), [paused.sandbox_id], "after a poll")
    paused.connect()


def p7(context):
    made = five_sandboxes(context)
    same(len(ids_of(context, metadata=METADATA)), 5)
    same(ids_of(context, metadata={**METADATA, "index": "3"}), [made[3].sandbox_id])
    same(ids_of(context, metadata={"a b/+": "c/d&e=f"}), [])
    key = context.rig["keys"]["three"]
    is_api_error(context.raw("GET", "/v2/sandboxes?metadata=owner", key=key), 400)
    twice = urllib.parse.quote("a=1&a=2", safe="")
    is_api_error(context.raw("GET", f"/v2/sandboxes?metadata={twice}", key=key), 400)
    same(made[3].get_info().metadata, {**METADATA, "index": "3"})


def p8(context):
    oldest = five_sandboxes(context)[0]
    same_second = oldest.get_info().started_at.replace(microsecond=900_000)
    same(oldest.sandbox_id in ids_of(context, started_after=same_second), True, "same second")
    far = datetime.datetime(2999, 1, 1, tzinfo=datetime.timezone.utc)
    same(ids_of(context, started_after=far), [])
    key = context.rig["keys"]["three"]
    is_api_error(context.raw("GET", "/v2/sandboxes?startedAfter=yesterday", key=key), 400)


PAGING_ROWS = {f"P{number}": row for number, row in enumerate([p1, p2, p3, p4, p5, p6, p7, p8], start=1)}
