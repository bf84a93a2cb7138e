"""Where the compiled engine is, if it was built."""

from __future__ import annotations

import ctypes
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from ascend_sim.errors import SimError

REINSTALL = "install the package again, pip install . or pip install -e ."
"""What to do about a library that is of no use."""


def built_file() -> Path | None:
    """The shared library that the C files of this folder became; None where the install found no compiler."""
    paths = (Path(__file__).with_name("_machine" + suffix) for suffix in EXTENSION_SUFFIXES)
    return next((path for path in paths if path.exists()), None)


def opened(path: Path) -> ctypes.CDLL:
    """The shared library at `path`; SimError for a broken one."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise SimError(f"{path.name} cannot be loaded ({error}): {REINSTALL}") from None
