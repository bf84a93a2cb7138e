"""A small convolution on each of the 28 SoCs in all three modes: a value for each precision, a time for each chip."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import ascend_sim
from ascend_sim.chip import chip_names, load_chip
from tests.support.sampling import part_of_cases

FP16, HF32, FP32 = ("float16", 0), ("float32", 1), ("float32", 0)
SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "2-D": ((1, 16, 2, 3), (1, 18, 4, 5), (16, 18, 3, 2)),  # gradOutput, input, weight
    "3-D": ((1, 16, 2, 2, 3), (1, 18, 3, 4, 5), (16, 18, 2, 3, 2)),
}
STRIDE, PADDING = {"2-D": (2, 2), "3-D": (1, 2, 2)}, {"2-D": (1, 1), "3-D": (0, 1, 1)}
SOCS = chip_names()
WIDE = [name for name in SOCS if not load_chip(name).cores.coupled]
EVERY = [(name, rank, precision) for name in WIDE for rank, precision in (("2-D", HF32), ("3-D", FP16), ("3-D", FP32))]
SOME = [("ascend910a", "2-D", FP16), ("ascend310p3", "2-D", FP16), ("ascend910_9391", "2-D", FP16)]
SOME += [case for case in EVERY if case[0] in ("ascend910b3", "ascend950pr_9589")]


def operands(rank: str, dtype: str) -> list[Any]:
    """Whole numbers: sums of them are exact in any order, so tilings and core counts do not matter."""
    rng = np.random.default_rng(len(rank) + len(SHAPES[rank][0]))
    return [rng.integers(-3, 4, shape).astype(dtype) for shape in SHAPES[rank]]


def run(chip: str, rank: str, precision: tuple[str, int], mode: str) -> ascend_sim.Result:
    axes = len(STRIDE[rank])
    return ascend_sim.convolution_backward(
        *operands(rank, precision[0]),
        [SHAPES[rank][0][1]],
        STRIDE[rank],
        PADDING[rank],
        (1,) * axes,
        False,
        (0,) * axes,
        1,
        (True, True, True),
        cube_math_type=precision[1],
        chip=chip,
        mode=mode,
    )


@cache
def known(rank: str, precision: tuple[str, int]) -> dict[str, Any]:
    return run("ascend910b3", rank, precision, "functional").outputs


def check_values(chip: str, rank: str, precision: tuple[str, int], mode: str) -> ascend_sim.Result:
    result = run(chip, rank, precision, mode)
    assert result.report.passed
    assert result.report.to_dict(statements=False).get("findings", []) == []
    for name, gradient in known(rank, precision).items():
        assert np.array_equal(result.outputs[name], gradient), name
    return result


def check_all_modes(chip: str, rank: str, precision: tuple[str, int]) -> None:
    check_values(chip, rank, precision, "functional")
    full, timing = check_values(chip, rank, precision, "full"), run(chip, rank, precision, "timing")
    assert full.report.total_us == timing.report.total_us > 0


@part_of_cases(6)
@pytest.mark.parametrize("chip", SOCS)
def test_two_dimensions_in_fp16(chip: str) -> None:
    """`timing` of every SoC: test_products.py."""
    check_values(chip, "2-D", FP16, "functional")
    assert check_values(chip, "2-D", FP16, "full").report.total_us > 0


@part_of_cases(10)
@pytest.mark.parametrize(("chip", "rank", "precision"), EVERY)
def test_values_of_other_precisions_and_ranks(chip: str, rank: str, precision: tuple[str, int]) -> None:
    check_values(chip, rank, precision, "functional")


@part_of_cases(2)
@pytest.mark.parametrize(("chip", "rank", "precision"), SOME)
def test_each_architecture_in_all_modes(chip: str, rank: str, precision: tuple[str, int]) -> None:
    check_all_modes(chip, rank, precision)


@pytest.mark.slow
@pytest.mark.parametrize(("chip", "rank", "precision"), [*EVERY, *((name, "2-D", FP16) for name in SOCS)])
def test_everything_in_all_modes(chip: str, rank: str, precision: tuple[str, int]) -> None:
    check_all_modes(chip, rank, precision)


@pytest.mark.fast
def test_the_precisions_are_those_asked_for() -> None:
    computed = {
        precision: run("ascend910b3", "2-D", precision, "functional").report.to_dict()["outputs"]["grad_input"]["compute_dtype"]
        for precision in (FP16, HF32, FP32)
    }
    assert computed == {FP16: "float16", HF32: "hf32", FP32: "float32"}
