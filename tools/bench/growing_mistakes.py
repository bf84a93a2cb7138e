"""Kernels with planted mistakes whose checks `check_growth.py` measures, each at any size; some of them cannot run.

Their names begin with "wrong". `CASES` has those of `growing_kernels.py` before them.
"""

from __future__ import annotations

from growing_kernels import CASES, N, Sized, case, given, out

import ascend_sim as asim

__all__ = ["CASES"]


@asim.kernel_function(core="AIV")
def mistaken(k, x, y, *, what=""):
    """A queue of two places by hand, with one mistake in every turn."""
    places = [k.local_tensor(N, "float32", f"place {i}") for i in range(2)]
    full = [k.flag("MTE2", "MTE3", f"full {i}") for i in range(2)]
    free = [k.flag("MTE3", "MTE2", f"free {i}") for i in range(2)]
    turns = len(y) - 1
    for i in range(turns):
        place = places[i % 2]
        if i >= 2 and what != "race":
            k.wait_flag(free[i % 2])
        k.gm_to_ub(place, x[i % len(x)])
        k.set_flag(full[i % 2])
        if what != "unwaited":
            k.wait_flag(full[i % 2])
        if what == "uneven" and i < 2:
            k.set_flag(full[i % 2])
        if what == "extra wait":
            k.wait_flag(full[i % 2])
        if what == "outside":
            k.data_copy("UB", "GM", y.address + y.nbytes + 256 * i, place.address, 256)
        if what == "unwritten":
            k.data_copy("UB", "GM", y[i].address, 65536 + 256 * (i % 256), 256)
        if what == "misaligned":
            k.data_copy("GM", "UB", 65536 + 4 * (i % 256), x[0].address, 256)
        k.ub_to_gm(y[i], place)
        if (i < turns - 2 or what == "uneven") and what != "race":
            k.set_flag(free[i % 2])
        if what == "grows":
            k.set_flag(full[i % 2])


for _what in ("race", "unwaited", "uneven", "grows", "extra wait", "outside", "unwritten", "misaligned"):

    @case(3000, f"wrong: {_what}")
    def _wrong(size: int, what: str = _what) -> Sized:
        return Sized(mistaken, 1, (given(4, N), out(size, N)), {"what": what})


@asim.kernel_function(core="AIV")
def refused(k, x, y):
    """Each turn asks for what the builder refuses, in other numbers."""
    held = k.local_tensor(N, "float32", "held")
    for i in range(len(y)):
        k.gm_to_ub(held, x[i % len(x)])
        k.pipe_barrier("ALL")
        k.data_copy("UB", "L0A", 0, 0, 32 + 32 * i)
        k.ub_to_gm(y[i], held)
        k.pipe_barrier("ALL")


@case(1000, "wrong: refused")
def _refused(size: int) -> Sized:
    return Sized(refused, 1, (given(4, N), out(size, N)))


@asim.kernel_function(core="AIV")
def same_rows(k, x, y, *, turns=20):
    """All cores write the same rows."""
    held = k.ub_queue("row", N, "float32", "MTE2", "MTE3", 2)
    for i in range(turns):
        k.gm_to_ub(held, x[k.block])
        k.ub_to_gm(y[i], held)


@case(50, "wrong: same rows")
def _same_rows(size: int) -> Sized:
    return Sized(same_rows, size, (given(size, N), out(20, N)))


@asim.kernel_function(core="AIV", all_cores=True)
def not_all_meet(k, x, y, *, turns=20):
    """One core never comes to the meeting."""
    held = k.ub_queue("row", N, "float32", "MTE2", "MTE3", 1)
    for i in range(turns):
        k.gm_to_ub(held, x[k.block])
        if k.block:
            k.cross_core_set(0, 0, "MTE3")
        k.cross_core_wait(0, 0, "MTE3")
        k.ub_to_gm(y[k.block, i], held)


@case(40, "wrong: not all meet")
def _not_all_meet(size: int) -> Sized:
    return Sized(not_all_meet, size, (given(size, N), out(size, 40, N)), {"turns": 40})


@asim.kernel_function(core="AIV")
def pieces_race(k, y, *, size=0):
    """Overlapping pieces of many lengths; no flag orders their stores."""
    held = k.local_tensor(40 * 1024, "float32", "held")
    k.duplicate(held, 0.0)
    k.pipe_barrier("ALL")
    for i in range(size):
        k.ub_to_gm(y[: 8 + 8 * (i % 5000)], held[: 8 + 8 * (i % 5000)])


@case(1000, "wrong: pieces race")
def _pieces_race(size: int) -> Sized:
    return Sized(pieces_race, 1, (out(40 * 1024),), {"size": size})
