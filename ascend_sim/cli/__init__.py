"""The command line: `ascend-sim run CASE`, `ascend-sim chips [NAME]`, and the other commands, a module each.

Exit codes: 0 fine; 1 a verdict failed (a result that is not correct, or a finding such as a hazard); 2 bad input, a
refused call or output that cannot be written, reported in one line; 129 a terminal that is gone (SIGHUP), 130 Ctrl-C, 141 a
reader that has enough (SIGPIPE) and 143 SIGTERM, with what was finished kept.
"""

import atexit
import gc
import os
import sys
import warnings
from typing import Any

from ascend_sim.cli import stopping, streams
from ascend_sim.cli.app import app

_OBJECTS = 200_000
"""New objects after which Python's collector looks for cycles: a start makes more than 100,000 objects, which stay."""
_AT_START = {"OPENBLAS_NUM_THREADS": "1", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
"""Environment variables set at start unless the user set them: they save work of libraries that commands do not need.

OpenBLAS threads: each product runs on one thread anyway, so that its sums have one order. Pydantic plugins: a search of all
installed packages.
"""


def main() -> None:
    """Run the command line `ascend-sim` and exit with its code.

    Before that: guard stdout and stderr, print warnings as one line, install the handlers of signals and of the memory limit,
    and set environment variables for libraries.
    """
    streams.take_over()
    warnings.showwarning = _show_warning
    gc.set_threshold(_OBJECTS)
    atexit.register(gc.freeze)  # at its end Python would look once more through all that a command has made
    for variable, value in _AT_START.items():
        os.environ.setdefault(variable, value)
    stopping.listen()
    try:
        app()
    except SystemExit as ended:
        # An interrupt within the text of a function that a library writes as it is imported is noted for the end of
        # `python -m`, which would then be another one than ours; the next text, though empty, takes the note away.
        eval("None")
        raise SystemExit(streams.end(stopping.end_of_start(ended.code))) from None


def _show_warning(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
    """Print a warning to stderr as one line, as errors are, without its file and line."""
    print(f"ascend-sim: warning: {message}", file=sys.stderr)
