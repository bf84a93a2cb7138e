"""Where the compiled engine is, if it was built."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path


def built_file() -> Path | None:
    """The shared library that the C files of this folder became; None where the install found no compiler."""
    paths = (Path(__file__).with_name("_machine" + suffix) for suffix in EXTENSION_SUFFIXES)
    return next((path for path in paths if path.exists()), None)
