"""The V2 kernel's base template."""

from __future__ import annotations

import json
import math

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.ops.kernels.cube.vendor import has_exact_shape
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.cycles import cycle_costs
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import CacheTiling
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.search import DIMS, base_template, cache_tiling
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import task_count
from ascend_sim.ops.problem.conv_problem import ConvProblem
from tests.support.ops.tiling_problems import BUFFERS, LOAD3D
from tests.support.ops.tiling_problems import on_910b as tiling_input
from tests.support.places import DATA

COSTS = cycle_costs("dav-2201")


VENDOR = {row["name"]: row for row in json.loads((DATA / "ut_tilings_arch22.json").read_text())["rows"]}


def on_910b(problem: ConvProblem, itemsize: int = 2, cores: int = 24, hf32: bool = False, deep: bool = False) -> FilterProblem:
    return FilterProblem(problem, itemsize, cores, BUFFERS["L1"], BUFFERS["L0A"], BUFFERS["L0C"], LOAD3D, hf32, deep)


def decided(p: FilterProblem) -> CacheTiling:
    return cache_tiling(p, COSTS)


BASE_ROWS = {name: row["base_template"] for name, row in VENDOR.items() if "base_template" in row}


@pytest.mark.parametrize("name", BASE_ROWS)
def test_the_base_template_of_the_v2_kernel(name: str) -> None:
    row = VENDOR[name]
    p = on_910b(ConvProblem(**row["problem"]), row["itemsize"], row["cores"], deep=True)
    expected = dict.fromkeys(DIMS, 1) | BASE_ROWS[name]
    got = base_template(p, decided(p))
    assert {field: got[field] for field in expected} == expected


@pytest.mark.parametrize("name", BASE_ROWS)
def test_the_v2_kernel_runs_what_the_base_template_says(name: str) -> None:
    row = VENDOR[name]
    dtype = {4: "float32", 2: "float16"}[row["itemsize"]]
    chip = load_chip({24: "ascend910b2", 20: "ascend910b3"}[row["cores"]])
    inp = tiling_input(ConvProblem(**row["problem"]), row["itemsize"], row["cores"])
    tiling = GradWeightQuestion(inp, chip=chip, dtype=dtype).tiling()
    known = {field: value for field, value in BASE_ROWS[name].items() if field in tiling.to_vendor()}
    assert len(known) >= 6
    assert {field: tiling.to_vendor()[field] for field in known} == known
    assert tiling.single_core_m == BASE_ROWS[name].get("singleCoreCout", tiling.single_core_m)
    assert tiling.single_core_k == min(
        BASE_ROWS[name]["singleCoreHo"] * inp.problem.w_out, inp.problem.h_out * inp.problem.w_out
    )
    own_cuts = math.prod(BASE_ROWS[name].get(dim, 1) for dim in DIMS) == task_count(tiling, inp)
    own = own_cuts and not has_exact_shape("grad_weight", inp, chip)
    assert tiling.source == ("vendor procedure" if own else "stand-in")
