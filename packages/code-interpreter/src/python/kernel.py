"""Runs the kernel. Its package is found first, and then out of the way of what the code imports."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from interpreter_kernel.kernel import Kernel  # noqa: E402

# The script's own folder was put in front too; in its place comes the working directory, as in a notebook.
sys.path[:2] = [""]

Kernel().serve()
