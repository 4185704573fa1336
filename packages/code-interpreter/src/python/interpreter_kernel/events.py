"""What the kernel tells its reader."""

import json
import math
import os
import threading

from . import representations


def finite(value):
    """The same without numbers that JSON has no word for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(member) for member in value]
    return value


def encode(value):
    try:
        return json.dumps(value, allow_nan=False, default=str)
    except (ValueError, TypeError):
        return json.dumps(finite(value), allow_nan=False, default=str, skipkeys=True)


class EventWriter:
    def __init__(self, descriptor, interrupts):
        self._descriptor = descriptor
        self._interrupts = interrupts
        self._lock = threading.Lock()

    def _send(self, event):
        data = memoryview((encode(event) + "\n").encode())
        with self._interrupts, self._lock:
            while data:
                data = data[os.write(self._descriptor, data) :]

    def ready(self):
        self._send({"type": "ready"})

    def done(self):
        self._send({"type": "done"})

    def error(self, error):
        self._send({"type": "error", **error})

    def result(self, value, main=False):
        """Shows a value in every form it has."""
        forms = representations.forms_of(value)
        if forms is not None:
            self.forms(forms, main)

    def forms(self, forms, main=False):
        self._send({"type": "result", **forms, "is_main_result": main})
