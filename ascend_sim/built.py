"""Path and loading of the compiled engine's library, for every floor that calls it."""

from __future__ import annotations

import ctypes
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from ascend_sim.errors import SimError

REINSTALL = "install the package again, pip install . or pip install -e ."
"""Advice for a library that cannot be used."""
SIZES = {
    "Way": 72, "Instruction": 64, "Program": 144, "Stamp": 40, "Event": 40, "CoreNumbers": 152, "GmNumbers": 64, "Touch": 128,
    "Totals": 1056, "Hazard": 184, "Action": 872, "Values": 328, "Events": 104,
}  # fmt: skip
"""Structure known to both Python and C -> its bytes, in the order of `machine_sizes`.

The numbers are written out because Python's structures are slow to load; a test compares them.
"""


def built_file() -> Path | None:
    """Return the path of the compiled engine's shared library; None if it was not built at installation."""
    folder = Path(__file__).parent / "engine/compiled"
    paths = (folder / ("_machine" + suffix) for suffix in EXTENSION_SUFFIXES)
    return next((path for path in paths if path.exists()), None)


def opened(path: Path) -> ctypes.CDLL:
    """Open the shared library at `path`. Raises SimError if it is broken or built from older sources."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise SimError(f"{path.name} cannot be loaded ({error}): {REINSTALL}") from None
    if not hasattr(library, "machine_sizes"):
        raise older(path, "it lacks machine_sizes")
    library.machine_sizes.restype, library.machine_sizes.argtypes = ctypes.c_int64, [ctypes.c_int64]
    if [library.machine_sizes(number) for number in range(len(SIZES) + 1)] != [*SIZES.values(), 0]:
        raise older(path, "its structures differ")
    return library


def older(path: Path, why: str) -> SimError:
    """Return, not raise, the SimError for a library at `path` that was built from older sources; `why` says how it shows."""
    return SimError(f"{path.name} was built from older sources ({why}): {REINSTALL}")
