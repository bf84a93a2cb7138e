"""Templates of a case, a network, a chip and a kernel file, with a comment for each entry."""

from __future__ import annotations

from importlib.resources import files
from os.path import exists, isdir
from pathlib import Path

from ascend_sim.errors import SimError
from ascend_sim.keywords import near_names
from ascend_sim.report.files import write_text

TEMPLATES = {"case": "case.yaml", "network": "network.yaml", "chip": "chip.yaml", "kernel": "kernel.py"}
"""Kind of template -> its file below configs/templates."""


def template(kind: str) -> str:
    """Return the text of a template. Raises SimError for an unknown kind."""
    if kind not in TEMPLATES:
        raise SimError(f"{kind!r}: no such template; there are {', '.join(TEMPLATES)}")
    return (files("ascend_sim.configs") / "templates" / TEMPLATES[kind]).read_text(encoding="utf-8")


@near_names
def write_template(kind: str, path: str | Path | None = None) -> Path:
    """Write the template of `kind` to `path` (my_case.yaml, my_kernel.py, ... unless given) and return the path.

    Raises SimError for an unknown kind, another ending, a missing folder, and a file that exists or cannot be written.
    """
    text = template(kind)
    ending = Path(TEMPLATES[kind]).suffix
    target = Path(path or f"my_{kind}{ending}")
    if target.suffix != ending:
        raise SimError(f"{target}: a {kind} is a file that ends in {ending}")
    if exists(target):
        raise SimError(f"{target}: there is a file of that name already; give another")
    if not isdir(target.parent):
        raise SimError(f"{target}: there is no folder {target.parent}")
    write_text(target, text)
    return target
