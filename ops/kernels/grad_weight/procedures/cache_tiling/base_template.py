"""The base template of Conv3DBackpropFilterV2 on the 910B, whose host tiling asks the older operators' and turns the answer
into its own fields. Source: ops-nn e5c3fa93, conv3d_backprop_filter_v2_base_tiling.cpp l.381-430, 572-625: stated.
"""

from __future__ import annotations

import math

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import CacheTiling
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem
from ascend_sim.ops.problem.sizes import ceil_div


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
