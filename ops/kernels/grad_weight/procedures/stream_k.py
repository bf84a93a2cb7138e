"""StreamK of deterministic grad_weight: cores that would idle in the last round share its tasks.

Derived from ops-nn Conv3DBackpropFilterV2 (arch22, template 4).
"""

from __future__ import annotations

from fractions import Fraction

from ascend_sim.ops.kernels.grad_weight.fields import STREAM_IMAGES, STREAM_NONE, STREAM_ROWS, GradWeightTiling
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.tiling_input import TilingInput


def stream_k(tiling: GradWeightTiling, tasks: int, inp: TilingInput) -> GradWeightTiling:
    """Set stream_k_type, core_stream_k and block_dim for `tasks` tasks on `inp.cores` cores.

    Only a tail of at most half the cores is shared. By images where this gives no fewer parts than rows do, and where
    no short last part is emptier than the rows' one; else by rows.
    """
    plain = tiling.but(stream_k_type=STREAM_NONE, core_stream_k=0)
    cores = tasks if inp.cores // 2 < tasks < inp.cores else inp.cores
    tail = tasks % cores
    if tail == 0 or tail > cores // 2:
        return plain.but(block_dim=cores)
    wanted = cores // tail
    images, images_last = _parts(inp.images, ceil_div(inp.images, wanted))
    rows, rows_last = _parts(inp.problem.h_out, rows_per_part(tiling, inp, wanted))
    by_images = images >= rows and (images_last == 0 or images_last >= rows_last)
    parts = images if by_images else rows
    if parts == 1:
        return plain.but(block_dim=tasks if tail == tasks else cores)
    return plain.but(
        stream_k_type=STREAM_IMAGES if by_images else STREAM_ROWS,
        core_stream_k=parts,
        block_dim=min(tasks * parts, inp.cores) if tail == tasks else cores,
    )


def rows_per_part(tiling: GradWeightTiling, inp: TilingInput, wanted: int) -> int:
    """gradOutput rows of one part of at most `wanted`; a part has no fewer pixels than a row or one base block."""
    problem = inp.problem
    most = ceil_div(problem.h_out * problem.w_out, max(problem.w_out, tiling.base_k))
    return ceil_div(problem.h_out, max(min(wanted, most), 1))


def _parts(total: int, size: int) -> tuple[int, Fraction]:
    """How many parts of `size` cover `total`, and how full a short last one is (0 when there is none)."""
    return ceil_div(total, size), Fraction(total % size, size)
