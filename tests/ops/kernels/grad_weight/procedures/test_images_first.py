"""How many blocks the 910's dW has: an image each, those of a larger chip, or those that were asked for; and measured rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.ops.kernels.cube.vendor import open_procedures
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.kernels.grad_weight.parts import walked_input
from ascend_sim.ops.kernels.grad_weight.procedures import images_first
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import task_count
from ascend_sim.ops.kernels.grad_weight.procedures.images_first import blocks_of
from ascend_sim.ops.problem.family import family_of
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.runtime import Device
from ascend_sim.studies.validate.launches import LAUNCHES
from ascend_sim.studies.validate.rows import read_rows
from tests.support.ops.tiling_problems import conv2d
from tests.support.places import ROOT

pytestmark = pytest.mark.fast
CHIP = load_chip("ascend910b")


def problem(images: int, **changes: Any) -> TilingInput:
    """A 3x3 layer of 256 channels on 14 x 14 pixels."""
    buffers = {str(name): size for name, size in CHIP.buffers.items()}
    family = family_of(CHIP)
    inp = TilingInput(
        conv2d(images, 256, 256, 14, 3), 2, CHIP.cores.aic, buffers, CHIP.memory.l2_bytes, False, family.layout,
        load3d=CHIP.load3d.limits, family=family,
    )  # fmt: skip
    return replace(inp, **changes)


@pytest.mark.parametrize(
    ("images", "asked", "blocks"),
    [(16, None, 16), (30, None, 30), (64, None, 32), (31, None, 32), (64, 28, 28), (16, 32, 32), (64, 30, 30)],
)
def test_blocks(images: int, asked: int | None, blocks: int) -> None:
    """A call that asks for as many blocks as the chip has cores asks like any other."""
    tiling = GradWeightQuestion(problem(images), chip=CHIP, blocks=asked).tiling()
    assert (tiling.block_dim, tiling.source) == (blocks, "stand-in")


@pytest.mark.parametrize("asked", [28, 30])
def test_blocks_of_strips(asked: int) -> None:
    """In strips, too, the grid is cut for the blocks that the call asks for, not for 32."""
    wide = problem(64, problem=replace(conv2d(64, 16, 16, 1, 1), w_in=4096, w_out=4096))
    tiling = GradWeightQuestion(wide, {"splitWo": 1024}, CHIP, blocks=asked).tiling()
    assert tiling.split_wo == 1024 and task_count(tiling, walked_input(wide, tiling)) <= asked


def test_more_images_than_cores_are_dealt_out_as_to_the_910a() -> None:
    """The number is data, marked as a guess; it is that of the largest chip of the architecture."""
    told = open_procedures()["dav-1001"]["grad_weight"]["tiled_for"]
    assert told["source"].startswith("guessed:") and told["value"] == load_chip("ascend910a").cores.aic
    with mock.patch.object(images_first, "tiled_for", lambda: 28):
        assert blocks_of(64, 30) == 28


@pytest.mark.parametrize("asked", [None, 20])
def test_an_image_each_has_all_of_dw(asked: int | None) -> None:
    """Told nothing, or told as many blocks as images."""
    inp = problem(20)
    tiling = GradWeightQuestion(inp, chip=CHIP, blocks=asked).tiling()
    assert (tiling.single_core_batch, tiling.single_core_m, tiling.single_core_n) == (1, 256, 9 * 256)
    assert tiling.single_core_k == inp.problem.h_out * inp.problem.w_out


def test_few_images_and_sums_in_order_use_what_cores_there_are() -> None:
    assert blocks_of(15, 30) == 30 and blocks_of(16, 30) == 16
    ordered = GradWeightQuestion(problem(16, deterministic=True), chip=CHIP).tiling()
    assert ordered.single_core_batch == 16  # nothing is added by several blocks


def test_blocks_of_measured_rows() -> None:
    """ResNet-50 of batch 16 and 64: 37 of 46 kernels of dW and all but one of dX have their blocks from sizes only."""
    rows = read_rows(ROOT / "configs" / "measurements" / "910_conv_backward.csv")
    right: dict[str, list[bool]] = {}
    for row in rows:
        if not (row.unlike or row.series):
            task, _ = LAUNCHES[row.kernel.op_type].task(row.kernel, CHIP, Device(CHIP, with_values=False))
            right.setdefault(row.kernel.op_type, []).append(task.block_dim == int(row.cells["block_dim"]))
    counts = {op_type: (sum(found), len(found)) for op_type, found in right.items()}
    assert counts == {"Conv2DBackpropFilter": (37, 46), "Conv2DBackpropInput": (9, 10)}
