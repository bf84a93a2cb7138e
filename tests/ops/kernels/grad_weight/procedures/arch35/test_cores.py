"""The 950's tiling of dW against a separate program of the library's decision."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_weight.procedures.arch35.blocks import decided
from ascend_sim.ops.kernels.grad_weight.procedures.dav_3510 import with_groups_merged
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.tiling_input import TilingInput
from tests.support.ops.dw35_model import SIZES, Model, random_problem
from tests.support.places import DATA

pytestmark = pytest.mark.fast

CHIP = load_chip("ascend950pr_9589")
BUFFERS = {str(name): size for name, size in CHIP.buffers.items()}
TABLE = json.loads((DATA / "ut_tilings_arch35.json").read_text())
BRANCHES = {
    "groups need no merging", "merged: L0C", "merged: UB", "merged: block", "merged", "K in whole rows", "1 buffers",
    "2 buffers", "shrunk", "shrunk: K", "shrunk: both sides", "long rows", "beyond load3d", "strips of 64",
    "strips of 32", "strips of 16", "single taps", "few tasks: shared as they are", "few tasks: too few rows", "few tasks: L0C",
    "few tasks: M", "few tasks: N", "shared by images", "shared by rows",
    "shared by rows: L1", "shared by rows: given up",
}  # fmt: skip


def ours(p: dict[str, int]) -> dict[str, Any] | None:
    problem = ConvProblem(**{name: value for name, value in p.items() if name not in ("itemsize", "cores")})
    inp = TilingInput(
        problem, p["itemsize"], p["cores"], BUFFERS, CHIP.memory.l2_bytes, True, PLANAR, load3d=CHIP.load3d.limits
    )
    inp = with_groups_merged(inp)
    try:
        return decided(inp).to_vendor() | {"realGroup": inp.real_groups}
    except TilingError:
        return None


@pytest.mark.parametrize("row", [row for row in TABLE["rows"] if "wino" not in row["name"]], ids=lambda row: row["name"])
def test_the_model_has_the_vendors_rows(row: dict[str, Any]) -> None:
    problem = ConvProblem(**row["problem"])
    sizes = {name: getattr(problem, name) for name in SIZES if hasattr(problem, name)}
    found = Model(sizes | {"itemsize": row["itemsize"], "cores": row["cores"]}, BUFFERS).fields()
    assert found is not None
    assert {name: found[name] for name in row["fields"]} == row["fields"]


RARE = (
    {
        "n": 16,
        "c_in": 3,
        "c_out": 48,
        "h_in": 449,
        "w_in": 6177,
        "h_out": 29,
        "w_out": 387,
        "stride_h": 16,
        "stride_w": 16,
        "cores": 36,
    },
    {"n": 2, "c_in": 512, "c_out": 32, "h_in": 51, "w_in": 112, "h_out": 51, "w_out": 112, "groups": 32, "cores": 36},
)  # parts of rows that overfill L1: the one stays whole
UNPADDED = dict.fromkeys(SIZES, 1) | dict.fromkeys(("pad_up", "pad_down", "pad_left", "pad_right"), 0) | {"itemsize": 2}


def test_random_problems_are_decided_alike() -> None:
    """2,000 problems of all kinds, which meet every branch of the decision, and two that meet rare ones."""
    rng, met = random.Random(35), Counter[str]()
    for p in (*[random_problem(rng) for _ in range(2000)], *[UNPADDED | rare for rare in RARE]):
        wanted, found = Model(p, BUFFERS, met).fields(), ours(p)
        if wanted is None or found is None:
            assert wanted is found, (p, wanted, found)
            continue
        assert {name: found[name] for name in wanted} == wanted, p
    assert BRANCHES - set(met) == set()
    assert met["none"] < 100
