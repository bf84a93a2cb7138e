"""Deterministic mode: the same bits whatever the instructions cost, and in `full` as in `functional` mode."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import ascend_sim
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.ops.kernels.grad_weight.fields import STREAM_IMAGES, STREAM_ROWS
from tests.support.sampling import part_of_cases, sampled

FEW = sampled(3, 6, suppress_health_check=list(HealthCheck))
FEWER = sampled(2, 3, suppress_health_check=list(HealthCheck))
MANY = sampled(10, 20, suppress_health_check=list(HealthCheck))
WIDE, FP16 = ("ascend910b3", "ascend950pr_9589"), ("ascend910a", "ascend310p3")


@dataclass(frozen=True)
class OddProblem:
    """A call with few, odd sizes: x is the map that the kernel slides over."""

    x: tuple[int, ...]
    weight: tuple[int, ...]
    stride: int = 1
    padding: int = 1
    dilation: int = 1
    groups: int = 1
    transposed: bool = False
    dtype: Any = np.float16
    cube_math_type: int = 1
    views: bool = False
    chips: tuple[str, ...] = WIDE + FP16
    mask: tuple[bool, ...] = field(default=(True, True, True))

    def run(self, chip: ChipSpec, mode: str) -> ascend_sim.Result:
        axes = len(self.weight) - 2
        out = tuple(
            (size + 2 * self.padding - (k - 1) * self.dilation - 1) // self.stride + 1
            for size, k in zip(self.x[2:], self.weight[2:], strict=True)
        )
        rng = np.random.default_rng(0)
        x, y, weight = (self.array(rng, shape) for shape in (self.x, (self.x[0], self.weight[0], *out), self.weight))
        rest = [
            size - ((o - 1) * self.stride - 2 * self.padding + (k - 1) * self.dilation + 1)
            for size, o, k in zip(self.x[2:], out, self.weight[2:], strict=True)
        ]
        return ascend_sim.convolution_backward(
            *((x, y) if self.transposed else (y, x)),
            weight,
            None,
            (self.stride,) * axes,
            (self.padding,) * axes,
            (self.dilation,) * axes,
            self.transposed,
            rest if self.transposed else (0,) * axes,
            self.groups,
            self.mask,
            cube_math_type=self.cube_math_type,
            chip=chip,
            mode=mode,
            deterministic=True,
            conformance="library",
        )

    def array(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        if self.views:  # the axes of memory in reverse
            return rng.standard_normal(shape[::-1]).astype(self.dtype).T
        return rng.standard_normal(shape).astype(self.dtype)


@dataclass(frozen=True)
class TbcProblem(OddProblem):
    """Convolution over time: x is [B, C_in, T], weight [C_out, C_in, K]; the kernel slides over T."""

    def run(self, chip: ChipSpec, mode: str) -> ascend_sim.Result:
        (batch, c_in, steps), (c_out, _, kernel) = self.x, self.weight
        rng = np.random.default_rng(0)
        shapes = ((steps + 2 * self.padding - kernel + 1, batch, c_out), (steps, batch, c_in), (kernel, c_in, c_out))
        return ascend_sim.conv_tbc_backward(
            *(self.array(rng, shape) for shape in shapes),
            self.array(rng, (c_out,)),
            self.padding,
            cube_math_type=self.cube_math_type,
            chip=chip,
            mode=mode,
            deterministic=True,
            conformance="library",
        )


PROBLEMS: dict[str, OddProblem] = {
    "1d": OddProblem((3, 5, 37), (7, 5, 3)),
    "1d grouped": OddProblem((2, 8, 21), (12, 2, 3), groups=4),
    "1d transposed": OddProblem((2, 6, 21), (5, 6, 3), stride=2, transposed=True),
    "2d images shared": OddProblem((9, 17, 9, 9), (18, 17, 3, 3)),
    "2d rows shared": OddProblem((1, 20, 40, 8), (20, 20, 3, 3)),
    "2d dilation before": OddProblem((2, 6, 17, 17), (5, 6, 3, 3), stride=3),
    "2d dilation after": OddProblem((2, 6, 15, 15), (5, 6, 1, 1), stride=2, padding=0),
    "2d dilated": OddProblem((2, 18, 11, 11), (17, 18, 3, 2), dilation=2, padding=2),
    "2d grouped": OddProblem((2, 12, 9, 9), (18, 4, 3, 3), groups=3),
    "2d depthwise": OddProblem((2, 33, 9, 9), (33, 1, 3, 3), groups=33),
    "2d transposed": OddProblem((2, 20, 13, 13), (6, 20, 3, 3), stride=2, transposed=True),
    "2d transposed grouped": OddProblem((2, 20, 9, 9), (8, 5, 3, 3), groups=4, transposed=True),
    "2d views": OddProblem((2, 18, 9, 9), (17, 18, 3, 3), views=True),
    "2d cast": OddProblem((2, 18, 9, 9), (17, 18, 3, 3), dtype=np.float32, cube_math_type=2),
    "2d hf32": OddProblem((2, 10, 9, 9), (9, 10, 3, 3), dtype=np.float32, chips=WIDE),
    "2d fp32": OddProblem((2, 10, 9, 9), (9, 10, 3, 3), dtype=np.float32, cube_math_type=0, chips=WIDE),
    "2d bf16": OddProblem((2, 18, 9, 9), (17, 18, 3, 3), dtype=ml_dtypes.bfloat16, chips=WIDE),
    "3d": OddProblem((2, 17, 4, 7, 7), (18, 17, 3, 3, 3), chips=WIDE),
    "3d strided": OddProblem((2, 9, 5, 9, 9), (10, 9, 3, 3, 3), stride=2, chips=WIDE),
    "3d fp32": OddProblem((1, 9, 3, 6, 6), (10, 9, 2, 3, 3), dtype=np.float32, cube_math_type=0, chips=WIDE),
    "3d grouped": OddProblem((1, 8, 3, 6, 6), (8, 2, 2, 3, 3), groups=4, chips=WIDE),
    "3d transposed": OddProblem((1, 9, 5, 7, 7), (10, 9, 3, 3, 3), stride=2, transposed=True, chips=WIDE),
    "matmul, kernel over the map": OddProblem((5, 6, 4, 6), (7, 6, 4, 6), padding=0, chips=WIDE),
    "matmul, patches": OddProblem((2, 5, 6, 6), (7, 5, 3, 3), stride=3, padding=0, mask=(True, False, True), chips=WIDE),
    "matmul, pixels": OddProblem((1, 20, 9, 7), (18, 20, 1, 1), padding=0, chips=WIDE[1:]),
    "tbc": TbcProblem((3, 17, 21), (18, 17, 3), views=True),
    "tbc fp32": TbcProblem((2, 9, 14), (10, 9, 4), dtype=np.float32, cube_math_type=0, chips=WIDE),
    "tbc matmul": TbcProblem((4, 9, 5), (10, 9, 5), padding=0, chips=WIDE[:1]),
    "bias alone": OddProblem((3, 5, 37, 7), (7, 5, 3, 3), mask=(False, False, True)),
}
CASES = [pytest.param(name, chip, id=f"{name}-{chip}") for name, one in PROBLEMS.items() for chip in one.chips]
QUICK = [*((name, "ascend910b3") for name in PROBLEMS), *((name, "ascend310p3") for name in list(PROBLEMS)[2:9:3])]
SAMPLE = [pytest.param(*case.values, id=case.id, marks=[] if case.values in QUICK else [pytest.mark.slow]) for case in CASES]

COSTS = {
    "bytes_per_cycle", "head", "latency", "head_first", "head_stream", "unaligned_row", "hbm_latency", "hbm_gb_per_s",
    "l2_read_bytes_per_cycle_per_aic", "l2_write_bytes_per_cycle_per_aic", "flag_latency", "cross_latency",
    "barrier_latency", "issue_cycles", "task_overhead_us", "core_start_us", "block_us", "cycles_per_repeat", "queue_depth",
    "outstanding", "other", "stride_w",
}  # fmt: skip
"""Fields of a chip that say how long something takes; a tiling depends on none of them."""


def retimed(model: ChipSpec, draw: random.Random) -> Any:
    """A copy of a chip in which every cost is up to eight times smaller or larger, each on its own."""

    def changed(value: Any, cost: bool) -> Any:
        if is_dataclass(value):
            return value.model_copy(
                update={name: changed(getattr(value, name), name in COSTS) for name in [one.name for one in fields(value)]}
            )
        if isinstance(value, dict):
            return {key: changed(entry, cost) for key, entry in value.items()}
        if not cost or isinstance(value, bool) or not isinstance(value, int | float) or not value:
            return value
        scaled = value * 2 ** draw.uniform(-3, 3)
        return max(round(scaled), 1) if isinstance(value, int) else scaled

    return changed(model, False)


def bits(result: ascend_sim.Result) -> dict[str, bytes]:
    assert not result.report.findings
    return {name: array.tobytes() for name, array in result.outputs.items()}


@part_of_cases(4)
@pytest.mark.parametrize(("name", "chip"), SAMPLE)
def test_full_equals_functional_bit_for_bit(name: str, chip: str) -> None:
    full, functional = (PROBLEMS[name].run(load_chip(chip), mode) for mode in ("full", "functional"))
    assert bits(full) == bits(functional)
    names = ("grad_input", "grad_weight", "grad_bias")
    wanted = {gradient for gradient, kept in zip(names, PROBLEMS[name].mask, strict=True) if kept}
    assert full.report.passed and set(full.outputs) == wanted


def check_any_timing(name: str, chip: str, seed: int) -> None:
    spec = load_chip(chip)
    other = PROBLEMS[name].run(retimed(spec, random.Random(seed)), "full")
    base = PROBLEMS[name].run(spec, "functional")
    assert bits(other) == bits(base)


@part_of_cases(3)
@pytest.mark.parametrize("chip", ["ascend910b3", "ascend310p3"])
@pytest.mark.parametrize("name", ["2d images shared", "2d rows shared", "2d dilation before", "2d transposed", "2d cast"])
@FEW
@given(seed=st.integers(0, 2**32))
def test_any_timing_gives_the_same_bits(name: str, chip: str, seed: int) -> None:
    check_any_timing(name, chip, seed)


@part_of_cases(3)
@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("1d", "ascend950pr_9589"),  # StreamK by images
        ("2d grouped", "ascend950pr_9589"),  # StreamK by rows, groups merged
        ("3d transposed", "ascend950pr_9589"),
        ("2d dilated", "ascend910a"),
        ("matmul, kernel over the map", "ascend910b3"),
        ("matmul, patches", "ascend910b3"),
        ("matmul, pixels", "ascend950pr_9589"),
        ("tbc", "ascend910a"),
        ("tbc", "ascend950pr_9589"),
    ],
)
@FEWER
@given(seed=st.integers(0, 2**32))
def test_any_timing_gives_the_same_bits_on_every_route(name: str, chip: str, seed: int) -> None:
    check_any_timing(name, chip, seed)


def test_the_950s_problems_share_their_sums() -> None:
    """Check that the problems above have StreamK by images and by rows, and a merged group."""
    chip = load_chip("ascend950pr_9589")
    kinds = {}
    for name in ("1d", "2d grouped"):
        kernels = PROBLEMS[name].run(chip, "full").report.kernels
        kinds[name] = next(k["tiling"]["streamKType"] for k in kernels if k["name"] == "grad_weight")
    assert kinds == {"1d": STREAM_IMAGES, "2d grouped": STREAM_ROWS}


@pytest.mark.parametrize("chip", WIDE)
def test_parts_of_a_sum_are_added_in_the_order_of_their_cores(chip: str) -> None:
    """An image a core: 2^24 + 1 is 2^24 in float32, of which the third part leaves nothing; from the other end 1 is left."""
    g, x, weight = (np.zeros(shape, np.float16) for shape in ((3, 7, 37), (3, 5, 37), (7, 5, 3)))
    g[:, 0, 5], x[:, 0, 5] = (4096, 1, -4096), (4096, 1, 4096)
    result = ascend_sim.convolution_backward(
        g,
        x,
        weight,
        None,
        (1,),
        (1,),
        (1,),
        False,
        (0,),
        1,
        (False, True, False),
        chip=chip,
        mode="functional",
        deterministic=True,
        cube_math_type=0,
        conformance="library",
    )
    (kernel,) = (one for one in result.report.kernels if one["name"] == "grad_weight")
    assert (kernel["tiling"]["streamKType"], kernel["tiling"]["coreStreamK"]) == (STREAM_IMAGES, 3)
    assert result.grad_weight[0, 0, 1] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "chip"), CASES)
@MANY
@given(seed=st.integers(0, 2**32))
def test_any_timing_of_every_kernel_gives_the_same_bits(name: str, chip: str, seed: int) -> None:
    check_any_timing(name, chip, seed)
