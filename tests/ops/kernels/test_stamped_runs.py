"""Runs of pieces of grad_weight, which blocks share, are those that each block would list: few blocks with much to do."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_sim.calls.cases import accept_case
from ascend_sim.chip import load_chip
from ascend_sim.ops.operators.convolution_backward.case import ConvolutionBackwardCase
from ascend_sim.studies.tiles.kernel import CubeKernel
from tests.support.ops.stamped_runs import difference_of
from tests.support.sampling import part_of_cases

TILINGS = 7
WIDE: dict[str, Any] = {"n": 3, "c_in": 48, "c_out": 80, "size": (5, 5), "pad": (1, 1)}
PROBLEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "images": ("ascend910b3", WIDE),
    "channels of a core that lack some": ("ascend910b3", WIDE | {"c_in": 40, "c_out": 52}),
    "depths": ("ascend910b3", WIDE | {"n": 2, "c_in": 16, "size": (4, 3, 3), "pad": (1, 1, 1)}),
    "parts of tasks": ("ascend910b3", WIDE | {"n": 7, "deterministic": True}),
    "parts of tasks, depths": (
        "ascend910b3",
        WIDE | {"n": 5, "c_in": 16, "size": (3, 3, 3), "pad": (1, 1, 1), "deterministic": True},
    ),
    "groups": ("ascend910b3", WIDE | {"c_in": 64, "c_out": 64, "groups": 2}),
    "one core": ("ascend910a", WIDE),
    "rounds": ("ascend950pr_9589", WIDE | {"n": 7}),
    "rounds, depths": ("ascend950pr_9589", WIDE | {"n": 2, "c_in": 16, "size": (4, 3, 3), "pad": (1, 1, 1)}),
}


def kernel(chip: str, p: dict[str, Any]) -> CubeKernel:
    axes, groups = len(p["size"]), p.get("groups", 1)
    case = {
        "operator": "convolution_backward",
        "input": {"shape": (p["n"], p["c_in"], *p["size"]), "dtype": "float16"},
        "weight": {"shape": (p["c_out"], p["c_in"] // groups, *[3] * axes), "dtype": "float16"},
        "stride": [1] * axes,
        "padding": p["pad"],
        "dilation": [1] * axes,
        "groups": groups,
        "deterministic": p.get("deterministic", False),
    }
    spec = load_chip(chip)
    return CubeKernel.of(accept_case(ConvolutionBackwardCase.model_validate(case), spec), spec, "grad_weight")


def few_cores(chip: str) -> tuple[int, ...]:
    """Numbers of cores that tilings of these problems have; on the 950 tasks are shared by two or more."""
    return (2, 8) if chip == "ascend950pr_9589" else (1, 3)


@part_of_cases(4)
@pytest.mark.parametrize(
    ("what", "cores"), [(what, cores) for what, (chip, _) in PROBLEMS.items() for cores in few_cores(chip)]
)
def test_runs_of_a_task_that_blocks_share_are_those_of_each_block(what: str, cores: int) -> None:
    found = kernel(*PROBLEMS[what])
    listed = [fields for fields, _ in found.tilings({"usedCoreNum": cores})]
    assert listed
    for fields in listed[:: max(len(listed) // TILINGS, 1)]:
        differs, _ = difference_of(lambda fields=fields: found.launch(fields)[1])  # type: ignore[misc]
        assert not differs, fields
