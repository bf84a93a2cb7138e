"""What a shell completes arguments with: names that ship with the package, and YAML files and folders beside them.

Listed from folders, without what reads them: a shell asks at every press of the tab key.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

__all__ = ["CASES", "CHIPS", "NETWORKS", "RUNS", "SUBJECTS", "among"]

_FAMILY = "dav-"
"""How files of chips begin that only other chips extend."""


def _completer(*folders: str, endings: tuple[str, ...] = (".yaml",)) -> Callable[[str], list[str]]:
    """A function that completes the names in these folders of the configuration, and files with one of the endings."""

    def complete(incomplete: str) -> list[str]:
        shipped = [one.name for folder in folders for one in files("ascend_sim.configs").joinpath(folder).iterdir()]
        names = [
            name.removesuffix(".yaml") for name in shipped if name.endswith(".yaml") and not name.startswith(_FAMILY)
        ]
        return [*sorted(name for name in names if name.startswith(incomplete)), *_beside(incomplete, endings)]

    return complete


def among(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    """A function that completes one of these values."""
    return lambda incomplete: [one for one in choices if one.startswith(incomplete)]


def _beside(incomplete: str, endings: tuple[str, ...]) -> list[str]:
    """Files with one of the endings and folders (with a slash) whose path begins so; hidden ones only when asked for."""
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
"""What `compare` takes: cases, chips, tilings, folders and timelines of runs."""
SUBJECTS = _completer("cases", endings=(".yaml", ".py", ".cpp"))
"""What `check` takes."""
