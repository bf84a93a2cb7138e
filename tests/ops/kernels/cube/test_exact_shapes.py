"""Shapes for which the library has tilings of its own."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from typing import Any

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.ops.kernels.cube.vendor import has_exact_shape
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.shipped import load_shipped
from tests.support.ops.tiling_problems import on_910b

pytestmark = pytest.mark.fast


EXACT = load_shipped((resources.files("ascend_sim.configs") / "exact_shapes_910b.yaml").read_text())["rows"]


@pytest.mark.parametrize("row", EXACT, ids=range(len(EXACT)))
def test_what_the_library_has_a_tiling_of_its_own_for_is_a_stand_in(row: dict[str, Any]) -> None:
    """And only that: not with an image more, nor on another chip."""
    unit = BLOCK_BYTES // row["itemsize"]
    c_in, c_out = (unit * blocks for blocks in row["blocks"])
    shape = (row["images"], c_in, c_out, *row["input"], *row["output"], *row["window"], *row["stride"], *row["dilation"])
    problem, name = ConvProblem(*shape, *row["padding"]), row["soc"].lower()
    ask = {"grad_input": GradInputQuestion, "grad_weight": GradWeightQuestion}[row["kernel"]]
    more, other = replace(problem, n=problem.n + 1), {"ascend910b2": "ascend910b3", "ascend910b3": "ascend910b2"}[name]
    for chip, one, wanted in ((name, problem, True), (name, more, False)):
        spec = load_chip(chip)
        inp = replace(on_910b(one, row["itemsize"], spec.cores.aic), cores=spec.cores.aic)
        assert has_exact_shape(row["kernel"], inp, spec) == wanted
        source = ask(inp, chip=spec).tiling().source
        assert source == "stand-in" if wanted else source in ("stand-in", "vendor procedure")
    assert not has_exact_shape(row["kernel"], inp, None)
    assert has_exact_shape(row["kernel"], replace(inp, problem=problem), load_chip(other)) == any(
        one != row and {**one, "soc": row["soc"]} == row for one in EXACT
    )
