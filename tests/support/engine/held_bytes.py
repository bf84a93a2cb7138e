"""Bytes that buffers hold, counted byte by byte."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_sim.engine.timeline import ProgramRun
from tests.support.engine.overlaps import accesses

UNIT = 2


def brute_force(run: ProgramRun, buffer: str, moments: np.ndarray[Any, Any]) -> list[int]:
    """Bytes held from each moment on; strided accesses count with their hull, first byte to last."""
    touching: dict[int, list[tuple[int, int, int]]] = {}
    for space, _, _, covered, writes, _, start, retire in accesses(run, [0, 0]):
        if space == buffer:
            for unit in range(min(covered) // UNIT, max(covered) // UNIT + 1):
                touching.setdefault(unit, []).append((start, int(writes), retire))
    held = np.zeros(len(moments), np.int64)
    for history in touching.values():
        history.sort(key=lambda one: one[:2])
        places = [i for i, (_, writes, _) in enumerate(history) if writes]
        for n, place in enumerate(places):
            begin, _, end = history[place]
            following = places[n + 1] if n + 1 < len(places) else len(history)
            reads = [retire for _, _, retire in history[place + 1 : following]]
            until = history[following][0] if following < len(history) else end
            over = max(reads) if reads else max(until, begin)
            if following < len(history):
                over = min(over, history[following][0])
            held += UNIT * ((moments >= begin) & (moments < over))
    return held.tolist()
