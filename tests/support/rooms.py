"""The rooms of the house and their floors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.support.places import ROOT

FLOORS = (
    ("errors", "frozen", "keywords"),
    ("built",),
    ("host", "npz_file", "shipped", "yaml_file"),
    ("chip", "numerics"),
    ("options",),
    ("memory",),
    ("isa",),
    ("kernel",),
    ("engine",),
    ("runtime",),
    ("ascend_c",),
    ("check",),
    ("ops.arguments", "ops.status"),
    ("ops.problem",),
    ("ops.layouts",),
    ("ops.kernels.cube", "ops.kernels.vector"),
    ("ops.kernels.grad_input", "ops.kernels.grad_weight", "ops.kernels.conv_forward", "ops.kernels.matmul"),
    ("ops.kernels.tilings",),
    ("ops.checks",),
    ("ops.call", "ops.kinds", "ops.plan", "ops.case_data", "ops.tensor_files"),
    ("ops.case_entries", "ops.execute"),
    ("ops.convolution",),
    ("ops.layer",),
    ("ops.operator",),
    ("ops.verdicts", "ops.operators.convolution_backward"),
    ("ops.operators.conv_tbc_backward", "ops.operators.convolution"),
    ("ops.operators",),
    ("ops.network",),
    ("ops.case",),
    ("report",),
    ("settings", "expected"),
    ("sequence",),
    ("calls", "launching"),
    ("checking",),
    ("studies",),
    ("api", "acl", "torch"),
    ("cli",),
    ("__main__",),
)
"""From the ground up: every room of the house. Rooms of one floor do not import from each other."""


LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}


DOORS = {"", "ops", "ops.kernels"}
"""Packages that are only a door: nothing stands in their `__init__`, or names that are imported when first used."""


def modules() -> Iterator[tuple[str, Path]]:
    """Dotted names below `ascend_sim` and their files; `ops` stands at the top of the tree."""
    for folder, prefix in ((ROOT / "ascend_sim", ""), (ROOT / "ops", "ops.")):
        for path in sorted(folder.rglob("*.py")):
            yield (prefix + ".".join(path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__"), path


def room(module: str) -> str:
    """The room of `FLOORS` that a module belongs to; KeyError for a module that stands in none."""
    name = module
    while name and name not in LEVEL:
        name = name.rpartition(".")[0]
    if not name:
        raise KeyError(f"{module} belongs to no room: FLOORS has to list it")
    return name


MODULES = {name: path for name, path in modules() if name != "__init__"}
