"""A bubblewrap sandbox for the processes that run a judged kernel, on machines where it works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

JUDGED = "ASCEND_SIM_JUDGED"
"""Environment variable that is set in the processes of a case of `ascend-sim judge`."""
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache")
"""Files of the machine that a program needs to start."""


_KEPT = (JUDGED, "PATH", "LD_LIBRARY_PATH")
"""Environment variables that a program needs to start, or its confinement."""


def environment() -> dict[str, str]:
    """Return the environment of a process that runs a kernel: in `judge` only what a program needs to start."""
    return {name: text for name, text in os.environ.items() if name in _KEPT or JUDGED not in os.environ}


def confined(command: Sequence[str], needed: Sequence[Path]) -> list[str]:
    """Return the command line that runs `command` in a sandbox in which it can read only `needed`, Python and the system's
    libraries.

    Outside of `judge`, and on machines where bubblewrap does not work, return `command` itself.
    """
    if JUDGED not in os.environ or not confines():
        return list(command)
    return [*_sandbox(needed), "--", *command]


@cache
def confines() -> bool:
    """Return True if bubblewrap is installed and can make namespaces here; tried once."""
    if shutil.which("bwrap") is None:
        return False
    try:
        done = subprocess.run([*_sandbox(()), "--", sys.executable, "-I", "-S", "-c", ""], capture_output=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _sandbox(needed: Sequence[Path]) -> list[str]:
    """Return the bwrap command for a sandbox without network and other processes.

    Only `needed`, Python and the system's libraries can be read in it, only its own /tmp can be written.
    """
    python = Path(sys.executable)
    shown = [*_SYSTEM, sys.base_prefix, sys.prefix, str(python.parent), str(python.resolve().parent.parent), *map(str, needed)]
    bound = [word for path in dict.fromkeys(shown) if os.path.exists(path) for word in ("--ro-bind", path, path)]
    alone = ["--unshare-all", "--die-with-parent", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    return ["bwrap", *alone, *bound, "--chdir", "/"]
