"""Ladder of the forward convolution's tilings: strips for a long one-row signal, whole rows of x in L1, then strips of
columns; first with two L1 buffers, then with one.

All of it is ours: the vendor's Conv2D and Conv3D tilings are not documented here. Signals (one row) go in strips where
a tile is a part of the row, as the library loads columns of them (its Conv2D has a flag for that: stated).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.ops.kernels.conv_forward.tiling import BUFFERS, ConvForwardTiling, in_strips, may_fit, of_rows
from ascend_sim.ops.kernels.cube.capacity import check_load3d
from ascend_sim.ops.kernels.cube.ladder import INFERRED, OURS, LadderAnswer, Refusal, Rung, answered, climb, widest_that_fits
from ascend_sim.ops.problem.tiling_input import TilingInput

ForwardRung = Rung[TilingInput, ConvForwardTiling]


def answer_conv_forward(inp: TilingInput) -> LadderAnswer[ConvForwardTiling]:
    """Return the ladder's answer for a problem: a tiling in whole rows of x (`of_rows`), else in strips; for a long one-row
    signal in strips first. L1 has one buffer where two fit no tile, or where one saves loads of small tiles (`of_rows`).

    Raises TilingError, with the numbers, where no tile fits or load3d cannot hold a field.
    """
    check_load3d(inp, {"pad up": inp.problem.pad_up, "pad left": inp.problem.pad_left})
    return answered(climb(LADDER, inp))


def _columns(inp: TilingInput, buffers: int) -> ConvForwardTiling | Refusal:
    """Return the tiling of a one-row problem in strips (`_strips`); a refusal if no strips fit, or one tile has the whole
    row. Raises TilingError if whole rows have no tiling.
    """
    rows = of_rows(inp, buffers)
    if inp.problem.w_out <= rows.base_m:
        return Refusal(f"a tile of {rows.base_m} pixels already holds the whole row of {inp.problem.w_out}")
    return _strips(inp, buffers)


def _strips(inp: TilingInput, buffers: int) -> ConvForwardTiling | Refusal:
    """Return the tiling of the widest strips that fit, cut to the width of their tile if that is less; or the last refusal."""
    fits, cut = partial(may_fit, inp, buffers), partial(in_strips, inp, buffers)
    p = inp.problem
    spare = max(inp.load3d.pad - p.pad_right, 0) // p.stride_w
    return widest_that_fits(p.w_out, fits, cut, spare)


def _rungs(buffers: int, words: str) -> Iterator[ForwardRung]:
    """Yield the rungs with `buffers` buffers of each operand in L1; `words` is added to their names."""
    yield Rung(f"columns of a long row{words}", INFERRED, lambda inp: inp.problem.one_row, partial(_columns, buffers=buffers))
    yield Rung(f"own whole rows{words}", OURS, lambda inp: True, partial(of_rows, buffers=buffers))
    yield Rung(f"strips{words}", OURS, lambda inp: inp.problem.w_out > FRACTAL, partial(_strips, buffers=buffers))


LADDER = (*_rungs(BUFFERS, ""), *_rungs(1, ", one buffer"))
