"""When the library for dav-3510 lets vector cores turn the weights before the cubes read them (enableVecTrans)."""

from __future__ import annotations

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.pieces import UNCUT
from ascend_sim.ops.kernels.grad_input.procedures.arch35.problem import DataProblem
from ascend_sim.ops.problem.sizes import ceil_div

# Numbers of the vendor's procedure (ops-nn conv3d_backprop_input_v2, arch35: stated)
MOST_CHANNELS, WIDE_CHANNELS = 65535, 32  # of dx; fewer than the latter only where they are one fractal
COPIES, COPIES_8BIT = 2, 4  # of 16 channels of all taps that UB holds
LONG_BLOCK = 512  # pixels of a block from which weights that are loaded several times are not worth turning
LONG_BLOCK_SMALL_KERNEL, SMALL_KERNEL = 384, 3  # the same, 16-bit
LONG_BLOCK_32BIT = 256  # the same, fp32 that is not HF32
FEW_BLOCKS = 2  # blocks of weights a core that are turned at once
WIDE_TO_LONG = 5  # channels of a block, to its pixels, that read weights more than gradOutput


def turns_weights(p: DataProblem, tiling: GradInputTiling, *, hf32: bool = False) -> bool:
    """Whether the library turns the weights of a kernel that is not split, given its tiling; `hf32`: how fp32 is computed."""
    problem, size = p.inp.problem, p.itemsize
    copies = COPIES_8BIT if size == 1 else COPIES
    possible = (
        problem.groups == 1
        and p.is_planar
        and not p.packed
        and p.cut == UNCUT
        and p.all_taps > 1
        and (problem.c_in == FRACTAL or WIDE_CHANNELS <= problem.c_in <= MOST_CHANNELS)
        and problem.c_in > p.inp.taps
        and FRACTAL * p.all_taps * size * copies <= p.inp.buffers["UB"]
    )
    if not possible:
        return False
    long = LONG_BLOCK
    if size == 2 and max(problem.k_h, problem.k_w) <= SMALL_KERNEL:
        long = LONG_BLOCK_SMALL_KERNEL
    elif size == 4 and not hf32:
        long = LONG_BLOCK_32BIT
    deep = problem.k_d > 1 and problem.d_in > 1
    again = deep or p.k > tiling.step_kb * tiling.base_k
    if again and tiling.base_m >= long:
        return False
    return size != 2 or (deep and _worth_it_for_16_bits(p, tiling))


def _worth_it_for_16_bits(p: DataProblem, tiling: GradInputTiling) -> bool:
    """Whether tasks of the same channels are many enough, or blocks of weights few enough."""
    problem, cores = p.inp.problem, p.inp.cores
    depths = ceil_div(problem.d_in, tiling.single_core_din)
    readers = problem.n * depths * ceil_div(p.pixels, tiling.single_core_m)
    at_once = min(readers * ceil_div(p.n, tiling.single_core_cin), cores)
    few = problem.c_out * ceil_div(problem.c_in, FRACTAL) <= FEW_BLOCKS * cores
    wide = WIDE_TO_LONG * tiling.base_m <= tiling.base_n
    return readers >= at_once and (few or readers > at_once or wide)
