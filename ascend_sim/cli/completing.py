"""Shell completion: names that ship with the package, and YAML files and folders beside them.

Names are listed from folders, without importing what reads them: a shell asks at every press of the tab key.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

__all__ = ["CASES", "CHIPS", "KERNELS", "NETWORKS", "RUNS", "SUBJECTS", "TOOLS", "among", "tiling_fields"]

_FAMILY = "dav-"
"""Prefix of chip files that only other chip files extend; they are not offered."""


def _completer(*folders: str, endings: tuple[str, ...] = (".yaml",)) -> Callable[[str], list[str]]:
    """Return a completion function: names of shipped YAML files in these folders, then local files with one of the endings."""

    def complete(incomplete: str) -> list[str]:
        shipped = [one.name for folder in folders for one in files("ascend_sim.configs").joinpath(folder).iterdir()]
        names = [
            name.removesuffix(".yaml") for name in shipped if name.endswith(".yaml") and not name.startswith(_FAMILY)
        ]
        return [*sorted(name for name in names if name.startswith(incomplete)), *_beside(incomplete, endings)]

    return complete


def among(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Return a completion function that offers those of `choices` that begin with the typed text."""
    return lambda incomplete: [one for one in choices if one.startswith(incomplete)]


def tiling_fields(incomplete: str) -> list[str]:
    """Return completions of a --tiling text KERNEL.FIELD=VALUE,...: kernels up to the dot, then the kernel's fields by the
    vendor's names.

    Only the part behind the last comma is completed; the first part may also be a YAML file.
    """
    from ascend_sim.ops.kernels.tilings import TILINGS
    from ascend_sim.options.short_names import SHORT_NAMES, full_name

    before, comma, last = incomplete.rpartition(",")
    kernel, dot, _ = last.partition(".")
    if not dot:
        kernels = (*TILINGS, *(short for short, name in SHORT_NAMES.items() if name in TILINGS))
        found = [f"{one}." for one in kernels if one.startswith(last)]
        return [f"{before}{comma}{one}" for one in found] + ([] if comma else _beside(incomplete, (".yaml",)))
    tiling = TILINGS.get(full_name(kernel))
    fields = [] if tiling is None else [name for ours, name in tiling.VENDOR.items() if ours not in tiling.DERIVED]
    return [f"{before}{comma}{one}" for one in (f"{kernel}.{field}=" for field in fields) if one.startswith(last)]


def _beside(incomplete: str, endings: tuple[str, ...]) -> list[str]:
    """Return local files with one of the endings, and folders (with a slash), whose path begins with `incomplete`; hidden ones
    only if asked for.
    """
    head, slash, tail = incomplete.rpartition("/")
    try:
        found = sorted(Path(head + slash or ".").iterdir())
    except OSError:
        return []
    shown = [one for one in found if one.name.startswith(tail) and (tail or not one.name.startswith("."))]
    return [
        f"{head}{slash}{one.name}{'/' if one.is_dir() else ''}"
        for one in shown
        if one.is_dir() or one.suffix in endings
    ]


CASES = _completer("cases")
CHIPS = _completer("chips")
NETWORKS = _completer("networks")
RUNS = _completer("cases", "chips", endings=(".yaml", ".npz"))
"""Completion of the arguments of `compare`: cases, chips, tilings, folders and timelines of runs."""
SUBJECTS = _completer("cases", endings=(".yaml", ".py", ".cpp"))
"""Completion of the argument of `check`: cases, files of kernels and folders."""
KERNELS = among(("grad_input", "grad_weight", "dX", "dW"))
"""Completion of the kernels that `tile` searches."""
TOOLS = among(("memcheck", "racecheck", "initcheck", "synccheck"))
"""Completion of the tools of `check`."""
