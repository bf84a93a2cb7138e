"""Groups that the forward convolution of dav-3510 multiplies together: the vector cores set their weights between zeros.

The library merges as many groups as fill whole blocks of channels, where the weights of one such group fit UB twice; else it
takes group by group. Its vector cores load them to UB between zeros, turn them and write them to the cube's L1 (ops-nn,
conv2d_v2_base_tiling.cpp, conv3d_v2_base_tiling.cpp and conv_opt_group_impl.h of arch35: stated). Here all vector cores bring
them to FRACTAL_Z in the workspace before the cubes start, as for a split grad_input (`grad_input.exchange`): ours.
"""

from __future__ import annotations

from dataclasses import replace

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import Program
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.vector.common import share
from ascend_sim.ops.kernels.vector.trans_data_filter import to_fractal_z
from ascend_sim.ops.layouts.blocked import FractalZ
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.sizes import ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput

WEIGHT, WORKSPACE = 1, 3
"""GM slots of the kernel's tensors."""
_ALL_VECTORS, _WEIGHTS = 0, 1
"""Cross-core flags: vector cores have turned their weights; so cubes may read them."""
RESERVED, COPIES = 256, 2  # bytes of UB that are kept free; copies of the weights in UB (stated)
LEAST_BYTES = 2  # of an item: 8-bit weights are not turned here (ours)


def with_groups_merged(inp: TilingInput, chip: ChipSpec) -> TilingInput:
    """The forward problem as its kernel takes it: groups merged where the library merges them."""
    merged, p = replace(inp, merged=True), inp.problem
    weights = ceil_to(merged.cin_g, inp.c0) * p.k_d * inp.taps * ceil_to(merged.cout_g, FRACTAL) * inp.itemsize
    fits = COPIES * weights <= chip.buffers["UB"] - RESERVED
    return replace(inp, merged=inp.layout is PLANAR and inp.itemsize >= LEAST_BYTES and fits)


def is_merged(inp: TilingInput) -> bool:
    """Whether a real group of a plain layout is several groups, so that vector cores make its weights."""
    return inp.layout is PLANAR and inp.group_extension > 1


def workspace_bytes(inp: TilingInput) -> int:
    """Bytes of the fourth tensor where groups are merged, else 0."""
    return FractalZ.of(inp, inp.itemsize).total_bytes(inp.real_groups) if is_merged(inp) else 0


def await_weights(k: KernelBuilder) -> None:
    """The cube's side, before the first load of weights."""
    k.cross_core_wait(_WEIGHTS, 2, "MTE2")


def merge_program(k: KernelBuilder, call: CubeCall, blocks: int) -> Program:
    """What a vector core does in a launch of `blocks` blocks: its share of the filters."""
    inp, per_block = call.inp, call.chip.cores.aiv_per_aic
    mine = share(inp.real_groups * inp.cout_padded, blocks * per_block, k.block * per_block + k.sub_block)
    to_fractal_z(k, inp, *mine, (WEIGHT, WORKSPACE))
    k.cross_core_set(_ALL_VECTORS, 0, "MTE3")
    k.cross_core_wait(_ALL_VECTORS, 0, "MTE3")
    k.cross_core_set(_WEIGHTS, 2, "MTE3")
    return k.finish()
