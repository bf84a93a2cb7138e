"""The vendor's unit tests of the 950's tilings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.family import PLAIN_SPLIT
from ascend_sim.ops.problem.layout import CHANNELS_LAST, PLANAR
from ascend_sim.ops.problem.tiling_input import TilingInput
from tests.support.places import DATA

LOAD3D_950 = load_chip("ascend950pr_9589").load3d.limits


ARCH35 = json.loads((DATA / "ut_tilings_arch35_grad_input.json").read_text())


def fields_of(tiling: GradInputTiling) -> dict[str, Any]:
    """Every field under the vendor's name."""
    return tiling.to_vendor() | {tiling.VENDOR[name]: getattr(tiling, name) for name in tiling.DIRECT_ONLY}


def on_950(row: dict[str, Any]) -> TilingInput:
    """The problem on the kernel that reads NCDHW, or NDHWC where a row's name says so; the vendor's merges groups."""
    problem = ConvProblem(**row["problem"])
    return TilingInput(
        problem,
        row["itemsize"],
        row["cores"],
        ARCH35["buffers"],
        ARCH35["l2_bytes"],
        layout=CHANNELS_LAST if "NDHWC" in row.get("name", "") else PLANAR,
        family=PLAIN_SPLIT,
        load3d=LOAD3D_950,
    )


TABLE = json.loads((DATA / "ut_tilings_arch22.json").read_text())


def rows(**wanted: Any) -> list[Any]:
    chosen = [r for r in TABLE["rows"] if all(r[k] == v for k, v in wanted.items())]
    return [pytest.param(r, id=f"{r['kernel']}-{r['name']}") for r in chosen]
