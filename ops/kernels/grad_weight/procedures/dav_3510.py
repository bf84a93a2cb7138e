"""The vendor's tiling of grad_weight on dav-3510: M and N over the cores, the last round shared by StreamK, deterministic.

The library's decision (`arch35`) as far as our kernel does it: strips of rows are walked in an order of our own, single taps
are blocks of their own ("stand-in"). Not written: the Winograd template (fp32 3x3).
"""

from __future__ import annotations

from dataclasses import replace

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.vendor import Procedure
from ascend_sim.ops.kernels.grad_weight.capacity import bl1_bound, check_grad_weight, check_grad_weight_problem
from ascend_sim.ops.kernels.grad_weight.fields import STREAM_NONE, GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.parts import walked_input
from ascend_sim.ops.kernels.grad_weight.procedures.arch35.blocks import LONGEST_SIDE, decided, longest_k
from ascend_sim.ops.kernels.grad_weight.procedures.arch35.problem import LONGEST_ROW, WeightProblem
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import stream_k, task_count
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.sizes import ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput

# Numbers of the vendor's procedure (ops-nn conv3d_backprop_filter_v2, arch35: stated)
WINOGRAD_TAPS = (3, 3)
UB_RESERVED = 256  # bytes: a vector register
SUM_BYTES = 4


def with_groups_merged(inp: TilingInput) -> TilingInput:
    """Return the problem with groups merged that fill fractals together, in NCDHW with 16- or 32-bit operands; else
    with no groups merged.

    They are merged if one base block has all of their dW and fits L1, and UB holds that dW twice, once as in L0C and
    once in the order of dW.
    """
    whole = replace(inp, merged=False)
    merged = replace(inp, merged=True, group_unit=FRACTAL)
    if inp.layout is not PLANAR or inp.itemsize == 1 or merged.group_extension == 1:
        return whole
    p = WeightProblem(merged)
    if max(p.m, p.n) > LONGEST_SIDE or not p.tile_fits(p.m, p.n):
        return whole
    base_k = longest_k(p.m, p.n, p, LONGEST_ROW)
    if not base_k or not p.fits(GradWeightTiling(p.m, base_k, p.n)):
        return whole
    ordered, per_block = p.n, BLOCK_BYTES // SUM_BYTES
    if inp.problem.k_d > 1 or inp.problem.c_in // inp.problem.groups * inp.taps % per_block:
        ordered = p.n // inp.taps * ceil_to(inp.taps, per_block)
    return merged if (p.n + ordered) * p.m * SUM_BYTES + UB_RESERVED <= inp.buffers["UB"] else whole


def covers_grad_weight_3510(inp: TilingInput) -> bool:
    """Return True if the StreamK template decides this problem: deterministic mode, 16- or 32-bit operands, no Winograd
    (2-D 3x3 with 32-bit operands, strides, dilations and groups 1).
    """
    problem = inp.problem
    plain = (problem.stride_h, problem.stride_w, problem.dilation_h, problem.dilation_w, problem.groups) == (1,) * 5
    square = (problem.k_h, problem.k_w) == WINOGRAD_TAPS
    winograd = inp.itemsize == 4 and square and plain and problem.d_in == problem.k_d == 1
    wide = inp.itemsize > 1  # the library has no 8-bit kernel for grad_weight
    return inp.deterministic and wide and not winograd


def vendor_grad_weight_3510(inp: TilingInput) -> GradWeightTiling:
    """Return the vendor's tiling; its source is "stand-in" where our kernel walks over strips or merges groups otherwise.

    Raises TilingError where the procedure does not apply or our kernel cannot follow its decision.
    """
    if not covers_grad_weight_3510(inp):
        raise TilingError(
            "grad_weight: the vendor's open procedure for dav-3510 needs deterministic mode, no 8-bit operands and no fp32 "
            "3x3 layer that Winograd takes"
        )
    check_grad_weight_problem(inp)
    tiling = decided(inp)
    if tiling.split_kernel:
        raise TilingError("grad_weight: the vendor takes the taps of this kernel one by one, ours in blocks of its own")
    if tiling.split_wo:
        tiling = _in_strips(tiling, walked_input(inp, tiling))
    check_grad_weight(tiling, inp)
    same = with_groups_merged(inp).group_extension == inp.group_extension
    return tiling if same else tiling.but(source="stand-in")


def _in_strips(tiling: GradWeightTiling, walked: TilingInput) -> GradWeightTiling:
    """Return the stand-in tiling with tasks and StreamK for `walked`, the map in which the strips stand below each other."""
    tiling = tiling.but(source="stand-in", single_core_k=walked.problem.h_out * walked.problem.w_out, stream_k_type=STREAM_NONE)
    tiling = stream_k(tiling, task_count(tiling, walked), walked).but(block_dim=walked.cores)
    return tiling.but(bl1_bound=bl1_bound(tiling, walked, clipped=True))


PROCEDURE = Procedure(covers_grad_weight_3510, lambda q: vendor_grad_weight_3510(q.inp))
