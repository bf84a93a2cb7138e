"""The base template of Conv3DBackpropFilterV2 on the 910B, whose host tiling asks the older operators' and turns the answer
into its own fields. Source: ops-nn e5c3fa93, conv3d_backprop_filter_v2_base_tiling.cpp l.381-430, 572-625: stated.

What our kernel makes of it is template 0: a tile of dW stays in L0C over all images and rows of a task.
"""

from __future__ import annotations

import math

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_weight.capacity import bl1_bound, check_grad_weight
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_GRID, GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.cycles import cycle_costs
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import CacheTiling
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.held import fits
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem, filter_problem
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.search import cache_tiling
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import splits_kd, task_count
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.tiling_input import TilingInput

DIMS = ("batchDim", "groupDim", "dkDim", "mDim", "kDim", "nDim")
"""The template's cuts over cores."""


def vendor_base_template(inp: TilingInput, chip: ChipSpec, dtype: str) -> GradWeightTiling:
    """The V2 kernel's tiling where its open template does not decide; TilingError where the procedure finds none."""
    p = filter_problem(inp, dtype, volumetric=True)
    decided = cache_tiling(p, cycle_costs(chip.identity.arch))
    if not fits(p, decided.tile):
        raise TilingError("grad_weight: the base template's tiling does not fit into L1")
    fields = base_template(p, decided)
    whole_rows = fields["singleCoreHo"] * inp.problem.w_out
    tiling = GradWeightTiling(
        **{
            ours: fields[vendor]
            for ours, vendor in GradWeightTiling.VENDOR.items()
            if vendor in fields and "_core_" not in ours
        },
        single_core_m=fields["singleCoreCout"],
        single_core_n=fields["singleCoreCin"] * inp.taps,
        single_core_k=min(whole_rows, inp.problem.h_out * inp.problem.w_out),
        single_core_batch=fields["singleCoreBatch"],
        template=SPLIT_GRID,
        split_kd=splits_kd(inp),
        source=decided.source,
    )
    tasks = task_count(tiling, inp)
    if tasks != math.prod(fields[name] for name in DIMS):  # the library gives a core several groups or kernel planes
        tiling = tiling.but(source="stand-in")
    tiling = tiling.but(block_dim=min(tasks, inp.cores), bl1_bound=bl1_bound(tiling, inp, clipped=True))
    check_grad_weight(tiling, inp)
    return tiling


def base_template(p: FilterProblem, decided: CacheTiling) -> dict[str, int]:
    """The V2 kernel's fields by the vendor's names. Unlike the older kernels it cuts K in whole rows of gradOutput."""
    problem, cuts, tile = p.problem, decided.cuts, decided.tile
    base_k, step_ka, step_kb = tile.k_l0 * p.k0, tile.k_al1 // tile.k_l0, tile.k_bl1 // tile.k_l0
    images = ceil_div(problem.n, cuts.batch) * (problem.d_out // cuts.depth)
    rows = ceil_div(problem.h_out, cuts.k)
    steps = ceil_div(rows * problem.w_out, base_k)
    al1_buffers = 1 if step_ka >= steps else tile.db_al1
    bl1_buffers = 1 if step_kb >= steps else tile.db_bl1
    blocks_m = ceil_div(p.m, cuts.m)
    n_parts, plane_parts, columns = cuts.n * cuts.planes, 1, p.cin_tensor * problem.k_d
    if p.groups > 1 or problem.dilation_d > 1:  # kernel planes are cut by themselves
        plane_parts, columns = math.gcd(n_parts, problem.k_d), p.cin_tensor
        n_parts //= plane_parts
    blocks_n = ceil_div(columns, n_parts)
    return {
        "batchDim": ceil_div(problem.n * problem.d_out, images),
        "groupDim": cuts.group,
        "dkDim": plane_parts,
        "mDim": ceil_div(p.m, blocks_m),
        "kDim": ceil_div(problem.h_out, rows),
        "nDim": ceil_div(columns, blocks_n),
        "singleCoreBatch": images,
        "singleCoreHo": rows,
        "singleCoreCout": blocks_m * FRACTAL,
        "singleCoreCin": blocks_n * p.k0,
        "baseM": tile.m_l0 * FRACTAL,
        "baseK": base_k,
        "baseN": tile.n_l0 * FRACTAL,
        "stepM": tile.m_al1,
        "stepN": 1 if ceil_div(steps, step_kb) > bl1_buffers else tile.n_bl1,
        "stepKa": step_ka,
        "stepKb": step_kb,
        "al1Pbuffer": al1_buffers,
        "bl1Pbuffer": bl1_buffers,
        "cl0Pbuffer": tile.db_l0c,
    }
