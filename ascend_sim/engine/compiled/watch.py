"""Totals and hazards that C collected while programs ran. The Python twin is `ColumnWatch` in `engine/watch.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_sim.engine.compiled import library as c
from ascend_sim.engine.hazards import HAZARD, LIMIT, NO_HAZARDS, Hazards
from ascend_sim.engine.totals import TOTALS, ProgramTotals
from ascend_sim.kernel.stamp import address_of


class Reader:
    """Copies from C the totals and hazards of finished programs; its buffers are reused."""

    def __init__(self) -> None:
        self._numbers, self._hazards = np.zeros(1, TOTALS), np.zeros(LIMIT, HAZARD)
        self._places = address_of(self._numbers), address_of(self._hazards)

    def read(self, function: Any, *arguments: Any) -> ProgramTotals:
        """Return the totals of one program, copied by `function`, a function of the C library that takes `arguments`."""
        count = function(*arguments, *self._places)
        numbers = self._numbers.copy()
        if not count:
            return ProgramTotals(numbers, NO_HAZARDS)
        return ProgramTotals(numbers, Hazards(self._hazards[:count].copy(), int(numbers["hazards"][0])))


def read_gm(gm: Any, tasks: int) -> dict[int, Hazards]:
    """Return {index of the later access's task: hazards in GM} after the last program of a run of `tasks` tasks.

    Raises MemoryError if C ran out of memory.
    """
    lib, found = c.load(), {}
    count = c.c_int64()
    failed = lib.gm_end(gm) < 0
    for task in range(tasks):
        records = np.zeros(LIMIT, HAZARD)
        total = lib.gm_read(gm, task, records.ctypes.data, c.byref(count))
        failed = failed or total < 0
        if total:
            found[task] = Hazards(records[: count.value].copy(), total)
    if failed:
        raise MemoryError("the compiled engine found no memory")
    return found
