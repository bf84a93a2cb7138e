"""The vendor's tiling of grad_weight on dav-3510: M and N over the cores, the last round shared by StreamK, deterministic.

Follows ops-nn Conv3DBackpropFilterV2 (arch35, StreamK template). Derived from its host tiling; checked against its
unit-test tables. Not written: the Winograd template (fp32 3x3), when rows are split or kernels cut by tap (ours decide that).
"""

from __future__ import annotations

from collections.abc import Iterator

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.capacity import l0_base_k
from ascend_sim.ops.kernels.cube.procedures import Procedure
from ascend_sim.ops.kernels.grad_weight.capacity import (
    bl1_bound,
    check_grad_weight,
    check_grad_weight_problem,
    grad_weight_fits_l1,
    n_slice,
)
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_STREAM_K, STREAM_ROWS, GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import gemm, task_count, whole_rows
from ascend_sim.ops.kernels.grad_weight.procedures.stream_k import stream_k
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, floor_to
from ascend_sim.ops.problem.tiling_input import TilingInput

__all__ = ["covers_grad_weight_3510", "vendor_grad_weight_3510"]

# Numbers of the vendor's procedure (ops-nn conv3d_backprop_filter_v2, arch35: stated)
LONGEST_SIDE = 256  # of a base block
MOST_STEPS = 8  # base blocks of an operand in one L1 buffer
WINOGRAD_TAPS = (3, 3)
LONGEST_ROW = 512  # of gradOutput; the vendor splits longer ones (inferred from two tests)


def covers_grad_weight_3510(inp: TilingInput) -> bool:
    """Whether the StreamK template as written here decides this problem.

    Deterministic mode, 16- or 32-bit operands, no Winograd, no rows that are split, and no merged groups of 16 channels or
    more, which the library takes otherwise (two tests). That narrower ones are merged as on dav-2201 one test shows, of one
    channel a group: the tiling of others is a stand-in.
    """
    problem = inp.problem
    narrow = max(problem.c_in, problem.c_out) // problem.groups < FRACTAL
    plain = (problem.stride_h, problem.stride_w, problem.dilation_h, problem.dilation_w, problem.groups) == (1,) * 5
    square = (problem.k_h, problem.k_w) == WINOGRAD_TAPS
    winograd = inp.itemsize == 4 and square and plain and problem.d_in == problem.k_d == 1
    merged_alike = inp.group_extension == 1 or narrow
    wide = inp.itemsize > 1  # the library has no 8-bit kernel for grad_weight
    return inp.deterministic and wide and not winograd and merged_alike and problem.w_out <= LONGEST_ROW


def vendor_grad_weight_3510(inp: TilingInput) -> GradWeightTiling:
    """The vendor's tiling; "stand-in" where groups are merged as only assumed.

    Raises TilingError where the procedure does not apply or its result does not fit.
    """
    if not covers_grad_weight_3510(inp):
        raise TilingError(
            "grad_weight: the vendor's open procedure for dav-3510 needs deterministic mode, no 8-bit operands, rows of at "
            f"most {LONGEST_ROW} pixels, no fp32 3x3 layer that Winograd takes and no merged groups of 16 channels or more"
        )
    check_grad_weight_problem(inp)
    m, k, n = gemm(inp, split_kd=True)
    lanes = inp.real_groups * inp.problem.k_d
    m_parts, n_parts = _parts(m, n, lanes, inp)
    base_m, base_n = _even(m, m_parts), _even(n, n_parts)
    tiling = GradWeightTiling(
        base_m,
        0,
        base_n,  # base_k follows from the pixels of a part; the smallest part is a row
        iterate_order=int(m > n),
        template=SPLIT_STREAM_K,
        split_kd=True,
        block_dim=inp.cores,
        single_core_m=base_m,
        single_core_n=ceil_to(base_n, n_slice(inp)),
        single_core_k=k,
        single_core_batch=inp.images,
        cl0_buffers=2 if base_m * base_n * ACCUMULATOR_BYTES * 2 <= inp.buffers["L0C"] else 1,
    )
    tiling = stream_k(tiling, task_count(tiling, inp), inp)
    pixels = _pixels(tiling, inp)
    base_k = min(l0_base_k(tiling, inp), ceil_to(pixels, FRACTAL))
    tiling = tiling.but(base_k=whole_rows(base_k, inp), block_dim=inp.cores)
    fits = (t for t in _steps(tiling, ceil_div(pixels, tiling.base_k)) if grad_weight_fits_l1(t, inp))
    tiling = next(fits, None) or tiling
    # Rows above and below the image are counted only while there is room for them.
    tiling = tiling.but(bl1_bound=bl1_bound(tiling, inp, clipped=not grad_weight_fits_l1(tiling, inp)))
    check_grad_weight(tiling, inp)
    depthwise = inp.problem.c_in == inp.problem.c_out == inp.problem.groups
    return tiling if inp.group_extension == 1 or depthwise else tiling.but(source="stand-in")


def _parts(m: int, n: int, lanes: int, inp: TilingInput) -> tuple[int, int]:
    """How often M and N are cut: evenly, into sides of at most 256, and where that makes fewer tasks than cores, more
    often along M, or else along N, until the tasks divide the cores."""
    slice_ = inp.taps * FRACTAL
    longest_n = floor_to(LONGEST_SIDE, slice_) if slice_ <= LONGEST_SIDE else LONGEST_SIDE
    m_parts, n_parts = ceil_div(m, LONGEST_SIDE), ceil_div(n, longest_n)
    if lanes * m_parts * n_parts >= inp.cores or inp.cores % (lanes * m_parts * n_parts) == 0:
        return m_parts, n_parts
    for finer in range(m_parts, m // FRACTAL + 1):
        if inp.cores % (lanes * finer * n_parts) == 0 and ceil_div(m, _even(m, finer)) == finer:
            return finer, n_parts
    for finer in range(n_parts, n // slice_ + 1):
        if inp.cores % (lanes * m_parts * finer) == 0 and ceil_div(n, _even(n, finer)) == finer:
            return m_parts, finer
    return m_parts, n_parts


def _even(side: int, parts: int) -> int:
    return ceil_to(ceil_div(side, parts), FRACTAL)


def _pixels(tiling: GradWeightTiling, inp: TilingInput) -> int:
    """gradOutput pixels of one image that a core reduces at a time."""
    rows = inp.problem.h_out
    if tiling.stream_k_type == STREAM_ROWS:
        rows = ceil_div(rows, tiling.core_stream_k)
    return rows * inp.problem.w_out


def _steps(tiling: GradWeightTiling, iterations: int) -> Iterator[GradWeightTiling]:
    """Double buffers with steps 8, 7, ... 1, then single ones; no more steps than K has."""
    for buffers in (2, 1):
        for step in range(MOST_STEPS, 0, -1):
            steps = min(step, iterations)
            yield tiling.but(step_ka=steps, step_kb=steps, al1_buffers=buffers, bl1_buffers=buffers)


PROCEDURE = Procedure(covers_grad_weight_3510, lambda inp, _: vendor_grad_weight_3510(inp))
