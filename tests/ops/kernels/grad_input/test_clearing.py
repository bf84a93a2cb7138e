"""Zeros in dx before the sums of the open kernel of dav-2201."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.cube import Fixpipe, FixpipeNd
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.gm import OFFSET_MASK
from ascend_sim.ops.kernels.grad_input.clearing import clear
from tests.support.ops.cube_runs import kernel_of
from tests.support.ops.volumes import Volume

STRIDED = Volume((1, 32, 2, 14, 14), 48, (1, 1, 1), (1, 2, 2), (0, 0, 0))


@pytest.mark.parametrize("blocks", [1, 7, 20])
@pytest.mark.parametrize("elements", [3 * 5 * 28 * 28 * 16, 3 * 27 * 8, 64 * 16 * 56 * 56])
def test_shares_clear_all_of_dx_once(blocks: int, elements: int) -> None:
    table = InstructionTable(load_chip("ascend910b3"))
    spans = []
    for block in range(blocks):
        k = KernelBuilder(table, block, "AIC", [0, 0, 2 * elements])
        clear(k, elements, 2, "float16", blocks)
        for view in k.finish():
            if isinstance(view.instruction, Fixpipe | FixpipeNd):
                spans.append((view.dst & OFFSET_MASK, 2 * view.instruction.n * view.instruction.m))
    spans.sort()
    assert [start for start, _ in spans] == [sum(length for _, length in spans[:i]) for i in range(len(spans))]
    assert sum(length for _, length in spans) == 2 * elements


@pytest.mark.parametrize(
    ("volume", "tiling"),
    [
        (STRIDED, {}),
        (STRIDED, {"baseM": 16, "singleCoreM": 140}),
        (Volume((2, 48, 5, 12, 10), 32, (1, 2, 2), (2, 3, 3), (0, 0, 0)), {"baseM": 16}),
        (Volume((1, 32, 2, 14, 14), 48, (1, 1, 1), (1, 2, 2), (0, 0, 0), np.float32), {"baseM": 16}),
    ],
    ids=str,
)
def test_pixels_without_a_contribution_are_zero(volume: Volume, tiling: dict[str, int]) -> None:
    result, expected = volume.run("grad_input", tiling, check=True)
    assert kernel_of(result, "grad_input")["tiling"]["initOutputFlag"] == 1
    assert result.report.findings == ()
    assert np.array_equal(result.outputs["grad_input"], expected)


def test_a_tile_that_sees_nothing_is_left_out() -> None:
    """Stride 2 leaves nothing for the last of 14 rows of dx; a tile of 16 pixels of another row loads up to three rows."""
    result, _ = STRIDED.run("grad_input", {"baseM": 16, "singleCoreM": 14})
    row = kernel_of(result, "grad_input")
    programs = [run.program for run in result.timeline.programs if result.tasks[run.task].name == "grad_input"]  # type: ignore[union-attr]
    sums = sum(view.instruction.name == "fixpipe" for program in programs for view in program)
    cleared = row["block_dim"]
    assert sums - cleared == 2 * 13 * -(-32 // row["tiling"]["singleCoreCin"])


def test_more_blocks_than_cores_are_refused() -> None:
    with pytest.raises(SimError, match="cube cores clear dx and meet at a barrier, so at most 20 blocks can run"):
        STRIDED.run("grad_input", {}, block_dim={"grad_input": 21})
