"""Section 9 of the control-plane contract: template builds."""

import asyncio
import os
import re
import tempfile
import time
import traceback

from context import raises, same
from e2b import AsyncTemplate, wait_for_file
from e2b.exceptions import BuildException
from sdk import Template

_files = None


def files():
    """The folder that templates copy from. One for the process: the system removes it with its other leftovers."""
    global _files
    if _files is None:
        _files = tempfile.mkdtemp(prefix="conformance-template-")
        os.makedirs(f"{_files}/app/deep")
        for path, text in {
            "app/main.txt": "main\n",
            "app/deep/.hidden": "hidden\n",
            "run.sh": "echo ran\n",
            "one.log": "1\n",
            "two.log": "2\n",
        }.items():
            with open(f"{_files}/{path}", "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(f"{_files}/{path}", 0o755 if path.endswith(".sh") else 0o644)
        os.symlink("main.txt", f"{_files}/app/link")
    return _files


def name_of(context, what):
    """Names are one namespace's: each client and run has its own."""
    return f"{context.job['client'].replace('.', '-')}-{what}"


def build(context, template, name, **options):
    lines = []
    key = options.pop("key", None)
    Template.build(template, name, on_build_logs=lines.append, **context.options(key), **options)
    return lines


def left_over(context):
    """What builds claimed and did not give back. Namespace ns3 is used by no other row at this time."""
    return [row["id"] for row in context.on_nodes("ns3/")]


def run(context, template, command):
    sandbox = context.create(template)
    out = sandbox.commands.run(command).stdout
    sandbox.kill()
    return out


def t1(context):
    template = (
        Template(file_context_path=files())
        .from_base_image()
        .set_envs({"STAGE": "test", "WHERE": "$HOME/x"})
        .run_cmd("echo built-$STAGE > ~/built.txt; echo to-out; echo to-err >&2")
        .run_cmd("id -un > /opt/by-root", user="root")
        .copy("app", "/srv/app")
        .set_user("worker")
        .set_workdir("/srv/work")
        .run_cmd("id -un > who; pwd >> who")
        .set_start_cmd("echo up > /tmp/up-$STAGE; exec sleep 100000", wait_for_file("/tmp/up-test"))
    )
    lines = build(context, template, name_of(context, "full"), tags=["v1"])
    text = "\n".join(line.message for line in lines)
    for part in ("[2/7] RUN echo built", "to-out", "to-err", "[4/7] COPY app /srv/app", "Done"):
        if part not in text:
            raise AssertionError(f"the log lacks {part}: {text[:800]}")


def t2(context):
    sandbox = context.create(name_of(context, "full"))
    context.share(sandbox)
    out = sandbox.commands.run(
        "id -un; pwd; echo $STAGE $WHERE; cat who /home/user/built.txt /opt/by-root /srv/app/main.txt "
        "/srv/app/deep/.hidden; readlink /srv/app/link; stat -c %U /srv/app/deep /srv/work /opt/by-root; "
        "cat /tmp/up-test; pgrep -u worker -x sleep | wc -l"
    ).stdout
    same(
        out.split("\n")[:-1],
        [
            "worker",
            "/srv/work",
            "test /home/user/x",
            "worker",
            "/srv/work",
            "built-test",
            "root",
            "main",
            "hidden",
            "main.txt",
            "user",
            "worker",
            "root",
            "up",
            "1",
        ],
    )
    same(sandbox.get_info().template_id, name_of(context, "full"))


def t3(context):
    sandbox = context.create(name_of(context, "full"), envs={"STAGE": "own", "MORE": "1"})
    out = sandbox.commands.run("echo $STAGE $WHERE $MORE; id -un; cat /tmp/up-*").stdout
    same(out, "own /home/user/x 1\nworker\nup\n")
    sandbox.kill()


def t4(context):
    name = name_of(context, "full")

    def tags():
        return sorted(tag.tag for tag in Template.get_tags(name, **context.options()))

    same(tags(), ["v1"])
    assigned = Template.assign_tags(f"{name}:v1", ["stable", "v1-0"], **context.options())
    same(bool(re.fullmatch("[0-9a-f-]{36}", assigned.build_id)), True, assigned.build_id)
    same(tags(), ["stable", "v1", "v1-0"])
    same(run(context, f"{name}:stable", "cat ~user/built.txt"), "built-test\n")
    Template.remove_tags(name, ["v1", "v1-0"], **context.options())
    same(tags(), ["stable"])
    same(Template.exists(name, **context.options()), True)
    same(Template.exists(name_of(context, "none"), **context.options()), False)


def t5(context):
    template = Template(file_context_path=files()).from_base_image().copy("run.sh", "/srv/")

    def uploads():
        return "\n".join(line.message for line in build(context, template, name_of(context, "again")))

    for pattern in ("Uploaded 'run.sh'", "Skipping upload of 'run.sh', already cached"):
        text = uploads()
        same(pattern in text, True, text)
    same(run(context, name_of(context, "again"), "sh /srv/run.sh"), "ran\n")


def t6(context):
    lines = []
    key = context.rig["keys"]["three"]
    template = Template().from_base_image().run_cmd("true").run_cmd("echo last-words >&2; exit 3").run_cmd("true")
    name = name_of(context, "bad")
    error = raises(
        BuildException,
        lambda: Template.build(template, name, on_build_logs=lines.append, **context.options(key)),
        r'^step 2 \(RUN\) failed: "echo last-words >&2; exit 3" exited with code 3$',
    )
    places = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    same(any(place.endswith("rows_builds.py") for place in places), True, "the traceback leads to the template")
    same("last-words" in [line.message for line in lines], True)
    same(Template.exists(name, **context.options(key)), False)
    same(left_over(context), [])


def t7(context):
    options = context.options(context.rig["keys"]["three"])
    name = name_of(context, "bad")
    for template, pattern in (
        (Template().from_image("nobody/serves:this"), r"no warm sandbox of nobody/serves:this \(none, \w+\); a pool must"),
        (Template().from_template("base"), "fromTemplate"),
        (Template().from_base_image().set_envs({"A": "${B%x}"}), r"step 1 \(ENV\) failed: .*not supported"),
        (Template().from_base_image().set_user("a:nogroup"), r"step 1 \(USER\) failed: .*group nogroup"),
        (
            Template().from_base_image().set_start_cmd("exit 7", "false"),
            'start command failed: "exit 7" exited with code 7',
        ),
    ):
        raises(BuildException, lambda template=template: Template.build(template, name, **options), pattern)
    raises(BuildException, lambda: Template.build(Template().from_base_image(), "a b", **options), "characters of")
    same(Template.exists(name, **options), False)
    same(left_over(context), [])


def t8(context):
    name = name_of(context, "twice")
    for text in ("first", "second"):
        build(context, Template().from_base_image().run_cmd(f"echo {text} > ~/text"), name)
        same(run(context, name, "cat ~/text"), f"{text}\n")
    same(len(context.raw("GET", f"/templates/{name}")[2]["builds"]), 1)


def t9(context):
    name = name_of(context, "copy")
    template = (
        Template(file_context_path=files())
        .from_base_image()
        .set_workdir("/srv/c")
        .copy("run.sh", "renamed.sh")
        .copy("run.sh", "into/")
        .copy("*.log", "logs")
        .copy("app", "over")
        .copy("app/deep", "over/more", user="root")
        .copy("one.log", "/srv/c/mode", mode=0o600)
    )
    build(context, template, name)
    found = run(context, name, "find . -not -type d -printf '%P %m %u\\n' | LC_ALL=C sort")
    same(
        found.split("\n")[:-1],
        [
            "into/run.sh 755 user",
            "logs/one.log 644 user",
            "logs/two.log 644 user",
            "mode 600 user",
            "over/deep/.hidden 644 user",
            "over/link 777 user",
            "over/main.txt 644 user",
            "over/more/.hidden 644 root",
            "renamed.sh 755 user",
        ],
    )


def t10(context):
    template = Template().from_base_image().run_cmd("seq 1 250; sleep 1")
    started = Template.build_in_background(template, name_of(context, "quiet"), **context.options())
    seen = []
    while True:
        status = Template.get_build_status(started, logs_offset=len(seen), **context.options())
        seen += [line.message for line in status.log_entries]
        if status.status.value == "error":
            raise AssertionError(status.reason)
        if status.status.value == "ready" and not status.log_entries:
            break
        time.sleep(0.1)
    same([int(line) for line in seen if line.isdigit()], list(range(1, 251)))


def t11(context):
    name = name_of(context, "async")
    template = AsyncTemplate(file_context_path=files()).from_base_image().copy("one.log", "/srv/one").run_cmd("cat /srv/one")
    lines = []
    asyncio.run(AsyncTemplate.build(template, name, on_build_logs=lines.append, **context.options()))
    same("1" in [line.message for line in lines], True)
    same(run(context, name, "cat /srv/one"), "1\n")
    same(context.raw("DELETE", f"/templates/{name}")[0], 204)


def t12(context):
    name = name_of(context, "full")
    two = context.rig["keys"]["two"]
    same(Template.exists(name, **context.options(two)), False)
    same(context.raw("GET", f"/templates/{name}", key=two)[0], 404)
    for what in ("full", "again", "twice", "copy", "quiet"):
        own = name_of(context, what)
        same(context.raw("DELETE", f"/templates/{own}")[0], 204, own)
        same(Template.exists(own, **context.options()), False)
    same(left_over(context), [])


BUILD_ROWS = {
    "T1": t1,
    "T2": t2,
    "T3": t3,
    "T4": t4,
    "T5": t5,
    "T6": t6,
    "T7": t7,
    "T8": t8,
    "T9": t9,
    "T10": t10,
    "T11": t11,
    "T12": t12,
}
