"""The deterministic kernel of dav-2201 and dX beside it: any tiling gives torch's values, and what they load and clear."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import ascend_sim
from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError, TilingError
from ascend_sim.isa.transfer import DataCopy
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import Span
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.gm import OFFSET_MASK
from ascend_sim.ops.kernels.grad_weight.arch22 import clear, copied_blocks, copied_rows
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.window import input_rows
from tests.support.ops.conv_problems import CallAttributes
from tests.support.ops.cube_runs import FIELDS, ONLY, SETTINGS, kernel_of, whole_numbers
from tests.support.ops.tiling_problems import conv2d, problems
from tests.support.ops.volumes import Volume

VOLUMES = (
    Volume((2, 32, 3, 9, 7), 48, (3, 3, 3)),
    Volume((1, 48, 2, 12, 10), 32, (1, 3, 3), (1, 2, 2), (0, 1, 1)),
    Volume((1, 16, 4, 7, 7), 80, (2, 1, 1), padding=(0, 0, 0)),
    Volume((1, 64, 1, 7, 9), 16, (1, 5, 3), padding=(0, 2, 1)),
    Volume((2, 48, 5, 12, 10), 32, (1, 2, 2), (2, 3, 3), (0, 0, 0)),
)


def test_zeros_that_reach_over_both_operands_are_no_fault() -> None:
    """One row of gradOutput takes less of L1 than this core's share of dW; both begin there."""
    tensors = [np.ones(shape, ml_dtypes.bfloat16) for shape in ((1, 32, 2), (1, 6, 4), (32, 3, 2))]
    attributes = None, (2,), (0,), (1,), False, (0,), 2, (False, True, False)
    how = {"chip": "ascend910b3", "mode": "timing", "deterministic": True, "check": True, "cube_math_type": 1}
    assert ascend_sim.convolution_backward(*tensors, *attributes, **how).report.findings == ()  # type: ignore[arg-type]


@pytest.mark.parametrize("gradient", ["grad_input", "grad_weight"])
@SETTINGS
@given(data=st.data(), volume=st.sampled_from(VOLUMES))
def test_any_tiling_gives_the_values_of_torch(gradient: str, data: st.DataObject, volume: Volume) -> None:
    chosen = data.draw(st.lists(st.sampled_from(sorted(FIELDS[gradient])), max_size=6, unique=True))
    tiling = {name: data.draw(FIELDS[gradient][name], name) for name in chosen}
    try:
        result, expected = volume.run(gradient, tiling, deterministic=True)
    except SimError as error:  # more blocks than cores that meet at a barrier are no tiling's fault
        assert isinstance(error, TilingError) or "at most 20 blocks can run" in str(error)
        event("refused")
        return
    event("runs")
    assert result.report.findings == ()
    assert np.array_equal(result.outputs[gradient], expected)


def test_strips_are_loaded_for_each_tile() -> None:
    """L1 cannot keep the pixels of one strip for the next tile when another strip came between."""
    result, expected = VOLUMES[0].run("grad_weight", {"splitWo": 2, "baseN": 16, "streamKType": 0}, deterministic=True)
    assert result.report.findings == ()
    assert np.array_equal(result.outputs["grad_weight"], expected)


def test_more_blocks_than_cores_are_refused() -> None:
    """All cores meet behind the clearing of dW."""
    with pytest.raises(SimError, match="cube cores clear dW and meet at a barrier, so at most 20 blocks can run"):
        VOLUMES[0].run("grad_weight", {"streamKType": 0}, deterministic=True, block_dim={"grad_weight": 21})


@pytest.mark.parametrize("blocks", [1, 7, 20])
def test_shares_clear_all_of_dw_once(blocks: int) -> None:
    size = 48 * 32 * 27 * 4
    table = InstructionTable(load_chip("ascend910b3"))
    spans = []
    for block in range(blocks):
        k = KernelBuilder(table, block, "AIC", [0, 0, size])
        clear(k, size, blocks)
        for view in k.finish():
            if isinstance(view.instruction, DataCopy):
                spans.append((view.dst & OFFSET_MASK, view.instruction.row_bytes))
    spans.sort()
    assert [start for start, _ in spans] == [sum(length for _, length in spans[:i]) for i in range(len(spans))]
    assert sum(length for _, length in spans) == size


def test_a_share_beyond_l1_is_written_in_pieces() -> None:
    chip = load_chip("ascend910b3")
    size = 3 * chip.buffers["L1"]
    k = KernelBuilder(InstructionTable(chip), 0, "AIC", [0, 0, size])
    clear(k, size, 1)
    copies = [view.instruction for view in k.finish() if isinstance(view.instruction, DataCopy)]
    assert [copy.row_bytes for copy in copies] == [chip.buffers["L1"]] * 3


@given(problems(largest=12), st.data())
def test_rows_are_those_that_are_seen_and_nothing_beside_the_map(problem: ConvProblem, data: st.DataObject) -> None:
    p, pixels = problem, problem.h_out * problem.w_out
    span = data.draw(st.integers(1, pixels))
    start = data.draw(st.integers(0, (pixels - 1) // span)) * span
    seen = input_rows(p, start, min(start + span, pixels))
    if seen.rows <= 0:
        return
    copied = copied_rows(p, Span(start, min(span, pixels - start)), 0, p.h_out)
    assert (copied.first, copied.pad_top) == (seen.first, seen.pad_top)
    assert seen.rows <= copied.rows <= p.h_in - copied.first


def test_rows_of_a_layer() -> None:
    """28 x 28 under 3 x 3, 512 pixels from the first and 272 behind them: 21 rows and 11 (rows of ops-nn)."""
    p = conv2d(1, 64, 64, 28, 3, pad=1)
    assert copied_rows(p, Span(0, 512), 0, 28) == (0, 21, 1)
    assert copied_rows(p, Span(512, 272), 0, 28) == (17, 11, 0)


@pytest.mark.parametrize(
    ("blocks", "taps", "loaded"), [(9, 9, 1), (8, 1, 8), (7, 9, 2), (3, 9, 1), (18, 9, 2), (14, 9, 3), (13, 9, 3)]
)
def test_channel_blocks_behind_columns(blocks: int, taps: int, loaded: int) -> None:
    """Runs of 7 of 9 may touch two slices wherever they begin, of 3 of 9 one, of 9 one."""
    assert copied_blocks(blocks, taps) == loaded


def test_planes_beside_the_map_are_left_out() -> None:
    """The three kernel planes reach 2, 3 and 2 of the 3 output planes; each of these is added."""
    result, _ = Volume((1, 16, 3, 8, 8), 16, (3, 3, 3)).run("grad_weight", {"streamKType": 0}, deterministic=True)
    row = kernel_of(result, "grad_weight")
    assert row["op_type"] == "Conv3DBackpropFilterV2"
    names = [view.instruction.name for run in result.timeline.programs for view in run.program]  # type: ignore[union-attr]
    assert names.count("fixpipe") == 7


def test_a_last_fractal_of_fp32_of_which_l1_holds_the_first_half() -> None:
    """Four channels of gradOutput are one block of eight: its fractal has no second half to load."""
    problem = CallAttributes(3, 32, 4, (10, 9), kernel=(5, 2), stride=(4, 2), pads=(3, 3, 1, 1), dilation=(2, 3), groups=4)
    tensors = whole_numbers(problem, "float32")
    result = problem.run(tensors, ONLY["grad_weight"], deterministic=True)
    assert kernel_of(result, "grad_weight")["op_type"] == "Conv3DBackpropFilterV2"
    assert result.report.findings == ()
    expected = problem.run(tensors, ONLY["grad_weight"], deterministic=False).outputs["grad_weight"]
    assert np.array_equal(result.outputs["grad_weight"], expected)
