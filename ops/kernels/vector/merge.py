"""Weights of merged groups on dav-3510: the vector cores write them with zeros between groups, so that a cube kernel
multiplies groups together. The vector cores of a split grad_input turn its weights likewise (`grad_input.exchange`).

The library's vector cores load the weights of a merged group to UB between zeros, transpose them and write them to the
cube's L1 (ops-nn, conv_opt_group_impl.h of arch35: stated). Here all vector cores bring them to FRACTAL_Z in the
workspace before the cubes start: ours. The cube kernels decide which groups are merged (`with_groups_merged`).
"""

from __future__ import annotations

from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import Program
from ascend_sim.ops.kernels.vector.common import share
from ascend_sim.ops.kernels.vector.trans_data_filter import to_fractal_z
from ascend_sim.ops.layouts.blocked import FractalZ
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.tiling_input import TilingInput

WEIGHT, WORKSPACE = 1, 3
"""GM slots of the kernels' tensors."""
_ALL_VECTORS, _WEIGHTS = 0, 1
"""Cross-core flags: vector cores have turned their weights; so cubes may read them."""


def is_merged(inp: TilingInput) -> bool:
    """Return True if the layout is NCDHW and several groups are merged into one, so that vector cores prepare their weights."""
    return inp.layout is PLANAR and inp.group_extension > 1


def merged_bytes(inp: TilingInput) -> int:
    """Return the bytes of workspace for the weights of merged groups; 0 where groups are not merged."""
    return FractalZ.of(inp, inp.itemsize).total_bytes(inp.real_groups) if is_merged(inp) else 0


def await_weights(k: KernelBuilder) -> None:
    """Append the cube's wait, before its first load of weights, until the vector cores have written them (`turn_weights`)."""
    k.cross_core_wait(_WEIGHTS, 2, "MTE2")


def turn_weights(k: KernelBuilder, inp: TilingInput, blocks: int, per_block: int) -> None:
    """Append a vector core's conversion of its share of the filters to FRACTAL_Z in the workspace, then, after all vector
    cores, the flag for the cubes. The launch has `blocks` blocks of `per_block` vector cores.
    """
    mine = share(inp.real_groups * inp.cout_padded, blocks * per_block, k.block * per_block + k.sub_block)
    to_fractal_z(k, inp, *mine, (WEIGHT, WORKSPACE))
    k.cross_core_set(_ALL_VECTORS, 0, "MTE3")
    k.cross_core_wait(_ALL_VECTORS, 0, "MTE3")
    k.cross_core_set(_WEIGHTS, 2, "MTE3")


def merge_program(k: KernelBuilder, inp: TilingInput, blocks: int, per_block: int, scalar_cycles: int = 0) -> Program:
    """Return the program of a vector core: `turn_weights`, then `scalar_cycles` of the scalar unit beside the cubes."""
    turn_weights(k, inp, blocks, per_block)
    if scalar_cycles:
        k.scalar(scalar_cycles)
    return k.finish()
