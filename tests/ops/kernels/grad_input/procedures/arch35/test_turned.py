"""When the library for dav-3510 turns the weights first: at each limit the last that is turned and the first that is not."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.parts import NO_HK, UNCUT
from ascend_sim.ops.kernels.grad_input.procedures.arch35.problem import DataProblem
from ascend_sim.ops.kernels.grad_input.procedures.dav_3510 import turns_weights
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.family import PLAIN_SPLIT
from ascend_sim.ops.problem.layout import CHANNELS_LAST, PLANAR
from ascend_sim.ops.problem.tiling_input import TilingInput
from tests.support.ops.tiling_problems import conv2d

pytestmark = pytest.mark.fast

BUFFERS = {"L1": 524288, "L0A": 65536, "L0B": 65536, "L0C": 262144, "UB": 245760}
LOAD3D = load_chip("ascend950pr_9589").load3d.limits
CORES = 32
SHORT = {
    "base_m": 64, "base_k": 48, "base_n": 128, "step_kb": 3,
    "single_core_m": 49, "single_core_cin": 128, "single_core_din": 1,
}  # fmt: skip
PROBLEM = {field.name for field in fields(ConvProblem)}
TILING = {field.name for field in fields(GradInputTiling)}


def turned(itemsize: int, **changes: Any) -> bool:
    """128 channels from 32, 7 by 7 pixels, 3 by 3 taps, short blocks; otherwise as `changes` say."""
    problem = replace(conv2d(1, 128, 32, 7, 3, pad=1), **{k: v for k, v in changes.items() if k in PROBLEM})
    layout = changes.get("layout", PLANAR)
    inp = TilingInput(
        problem, itemsize, CORES, BUFFERS, 128 << 20, layout=layout, family=PLAIN_SPLIT, load3d=LOAD3D
    )  # fmt: skip
    tiling = GradInputTiling(**SHORT | {k: v for k, v in changes.items() if k in TILING})
    return turns_weights(DataProblem(inp, changes.get("cut", UNCUT)), tiling)


@pytest.mark.parametrize(
    ("itemsize", "last", "first"),
    [
        (4, {"k_d": 2, "k_h": 1, "k_w": 1}, {"k_h": 1, "k_w": 1}),
        (4, {"c_in": 50, "k_h": 7, "k_w": 7}, {"c_in": 49, "k_h": 7, "k_w": 7}),
        (4, {"c_in": 32}, {"c_in": 31}),
        (4, {"c_in": 16}, {"c_in": 17}),
        (4, {"c_in": 16}, {"c_in": 15}),
        (4, {"c_in": 65535}, {"c_in": 65536}),
        (4, {}, {"groups": 2}),
        (4, {}, {"layout": CHANNELS_LAST}),
        (4, {}, {"cut": NO_HK}),
        # 16 channels of 8 by 8 taps, twice or four times in 240 KB
        (4, {"k_d": 30, "k_h": 8, "k_w": 8}, {"k_d": 31, "k_h": 8, "k_w": 8}),
        (1, {"k_d": 60, "k_h": 8, "k_w": 8}, {"k_d": 61, "k_h": 8, "k_w": 8}),
        # a long block of which the weights are loaded once: K is 288
        (4, {"base_m": 512, "base_k": 96}, {"base_m": 512, "base_k": 80}),
        (4, {"base_m": 512, "base_k": 96, "k_d": 3}, {"base_m": 512, "base_k": 96, "k_d": 3, "d_in": 2}),
    ],
)
def test_what_is_turned(itemsize: int, last: dict[str, Any], first: dict[str, Any]) -> None:
    assert (turned(itemsize, **last), turned(itemsize, **first)) == (True, False)


@pytest.mark.parametrize(
    ("last", "first"),
    [
        ({"k_d": 2}, {"k_d": 1}),
        ({"c_out": 5}, {"c_out": 4}),  # four are packed
        # 32 tasks for 32 cores, and 64 blocks of weights, two a core
        ({}, {"c_out": 9}),
        ({"c_out": 9, "base_n": 320}, {"c_out": 9, "base_n": 304}),
        ({"c_out": 9, "d_in": 33}, {"c_out": 9}),
        ({"c_out": 9, "d_in": 66, "single_core_din": 2}, {"c_out": 9, "d_in": 64, "single_core_din": 2}),
        ({"c_out": 9, "n": 2}, {"c_out": 9, "n": 1}),
        ({"c_out": 9, "single_core_m": 48}, {"c_out": 9, "single_core_m": 49}),
        # few tasks, of which fewer share their weights than run at once
        ({"d_in": 2}, {"d_in": 2, "single_core_cin": 64}),
        ({"single_core_cin": 64}, {"d_in": 31, "single_core_cin": 64}),
    ],
)
def test_weights_of_two_bytes_are_worth_it_where_many_tasks_share_few(last: dict[str, Any], first: dict[str, Any]) -> None:
    deep = {"k_d": 3, "d_in": 32, "c_out": 8}
    assert (turned(2, **deep | last), turned(2, **deep | first)) == (True, False)
