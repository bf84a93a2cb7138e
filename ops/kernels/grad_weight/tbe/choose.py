"""When grad_weight runs as the library's older kernels do: which operators, with which tiling."""

from __future__ import annotations

from dataclasses import replace

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.vendor import procedure_for
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.cycles import cycle_costs
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import CacheTiling
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.search import cache_tiling, tiling_by_loads
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.tiles import fits

VOLUMETRIC = "Conv3DBackpropFilter"
BY_LOADS = "fewest_loads"


def choose_tbe(p: FilterProblem, op_type: str, chip: ChipSpec) -> CacheTiling | None:
    """The tiling of an older kernel; None where the architecture has no such procedure, or it finds nothing that fits."""
    procedure = procedure_for(chip, op_type)
    if procedure is None:
        return None
    try:
        tiling = tiling_by_loads(p) if procedure == BY_LOADS else cache_tiling(p, cycle_costs(chip.identity.arch))
    except TilingError:
        return None
    if not fits(p, tiling.tile):
        return None
    # The program takes a kernel plane at a time, where the library lets a tile reach into the next.
    planes = p.problem.k_d // tiling.cuts.planes
    crosses = planes > 1 and tiling.share.n // planes % (tiling.tile.n_bl1 * tiling.tile.n_l0) != 0
    return replace(tiling, source="stand-in") if crosses else tiling
