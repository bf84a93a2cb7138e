"""L0C to L1 through the Fixpipe, as columns of fractals, for a further product."""

from __future__ import annotations

from dataclasses import replace

from ascend_sim.chip import ChipSpec
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import LOCAL, Cost, GmAccess, cycles_of
from ascend_sim.isa.cube import Fixpipe, fixpipe_rates
from ascend_sim.isa.moves import Place
from ascend_sim.memory.regions import Region


@frozen
class FixpipeToL1(Fixpipe):
    """Store of a tile of L0C to L1, in the layout and with the arithmetic of `Fixpipe`; L1 takes no `atomic_add`.

    Numbers become 1 or 2 bytes wide (asc-devkit, Fixpipe L0C to L1). It moves at the lower of the rates of the Fixpipe for that
    width and of the path (assumed).
    """

    name = "fixpipe_to_l1"

    @property
    def kind(self) -> int:  # type: ignore[override]
        return LOCAL

    def pipe(self, chip: ChipSpec) -> str:
        return chip.path("L0C", "L1").pipe

    def cost(self, chip: ChipSpec) -> Cost:
        path, unit = chip.path("L0C", "L1"), fixpipe_rates(chip)
        moved = sum(region.total for region in self.writes())
        work = cycles_of(moved, min(unit.rate(self.itemsize, False), path.bytes_per_cycle))
        return Cost(unit.head + path.head, unit.head + path.head, work, unit.latency + path.latency)

    def gm_access(self, chip: ChipSpec) -> GmAccess | None:
        return None

    def writes(self) -> tuple[Region, ...]:
        return tuple(replace(region, space="L1") for region in super().writes())

    def _put(self) -> Place:
        return replace(super()._put(), space="L1")

    def path(self) -> str:
        return "L0C->L1"
