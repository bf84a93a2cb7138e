"""Costs of the scalar unit: issuing, and its own loads and stores (chip file, scalar)."""

from __future__ import annotations

from ascend_sim.chip.section import Section
from ascend_sim.chip.sections import Bytes, CoreKind, Cycles, Flag
from ascend_sim.frozen import frozen


@frozen(kw_only=True)
class ScalarCosts(Section):
    """Cycles of the scalar unit: for issuing one instruction (by kind of core), and for its own loads and stores.

    It reads and writes GM through a data cache of lines; if `cleans_data_cache`, the kernel can have them written back.
    """

    issue_cycles: dict[CoreKind, Cycles]
    ub_cycles: Cycles
    gm_line_cycles: Cycles
    gm_cached_cycles: Cycles
    data_cache_line_bytes: Bytes
    cleans_data_cache: Flag
    clean_line_cycles: Cycles
    clean_all_cycles: Cycles

    @property
    def gm_cycles(self) -> tuple[int, int]:
        """Return the cycles of a GM load or store: (one that fetches its line, one whose line is cached)."""
        return self.gm_line_cycles, self.gm_cached_cycles

    @property
    def clean_cycles(self) -> tuple[int, int]:
        """Return the cycles of writing back (one line, the whole cache)."""
        return self.clean_line_cycles, self.clean_all_cycles
