"""Runs rows with one version of the Python SDK and prints one JSON line per row. The job comes in CONFORMANCE_JOB."""

import json
import os
import sys
import threading
import time
import traceback

from context import Absent, RowContext
from rows_admission import ADMISSION_ROWS
from rows_alias import ALIAS_ROWS, RESUME_ROWS
from rows_base import BASE_ROWS, reconnect
from rows_builds import BUILD_ROWS
from rows_commands import COMMAND_ROWS
from rows_copies import COPY_ROWS
from rows_data import DATA_ROWS
from rows_files import FILE_ROWS
from rows_interpreter import INTERPRETER_ROWS
from rows_paging import PAGING_ROWS
from rows_pty import PTY_ROWS
from rows_surface import SURFACE_ROWS
from rows_traffic import TRAFFIC_ROWS

ROWS = {
    **BASE_ROWS,
    **PAGING_ROWS,
    **ALIAS_ROWS,
    **RESUME_ROWS,
    **COMMAND_ROWS,
    **FILE_ROWS,
    **PTY_ROWS,
    **SURFACE_ROWS,
    **COPY_ROWS,
    **ADMISSION_ROWS,
    **TRAFFIC_ROWS,
    **BUILD_ROWS,
    **INTERPRETER_ROWS,
    **DATA_ROWS,
}

ROW_LIMIT_SECONDS = 60


def say(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def describe(error):
    places = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if os.path.basename(frame.filename).startswith("rows_")
    ]
    where = f" ({os.path.basename(places[-1].filename)}:{places[-1].lineno})" if places else ""
    return f"{type(error).__name__}: {error}"[:500] + where


def run_row(context, row):
    begun = time.monotonic()
    outcome = {}

    def body():
        try:
            ROWS[row](context)
            outcome["detail"] = ""
        except BaseException as error:
            outcome["detail"] = describe(error) or "failed"
            outcome["skipped"] = isinstance(error, Absent)

    # A thread, since a hanging call of the synchronous SDK cannot be cancelled: it is left behind instead.
    worker = threading.Thread(target=body, daemon=True)
    worker.start()
    worker.join(ROW_LIMIT_SECONDS)
    detail = outcome.get("detail", f"no end within {ROW_LIMIT_SECONDS} s")
    say(
        {
            "row": row,
            "status": "skip" if outcome.get("skipped") else "fail" if detail else "pass",
            "detail": detail,
            "ms": round((time.monotonic() - begun) * 1000),
        }
    )


def main():
    job = json.loads(os.environ["CONFORMANCE_JOB"])
    context = RowContext(job)
    if "reconnect" in job:
        say(reconnect(context, job["reconnect"]))
        return
    for row in job["rows"]:
        run_row(context, row)
    context.clean_up()


main()
sys.stdout.flush()
os._exit(0)
