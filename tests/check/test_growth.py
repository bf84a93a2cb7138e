"""A check of twice as many rows does twice the work: lines of Python and elements of numpy, counted and not timed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim import check
from ascend_sim.check import order
from tests.support.places import TOOLS
from tests.support.sampling import part_of_cases

MOST = 2.2
ROOM = str(Path(check.__file__).parent)
SIZES = {
    "queue": 400, "stamped": 400, "vector": 150, "queues": 300, "flags": 300, "barriers": 300, "scalar_waits": 300,
    "buffers": 700,
    "overlaps": 2000, "overlaps_long": 1000, "overlaps_in_gm": 1500, "overlaps_nested": 500, "cores": 40,
    "meetings_of_more_cores": 12, "meetings_more_often": 30, "cube": 256, "cube_of_more_cores": 12, "mix": 60,
    "mix_of_more_cores": 6, "wrong: race": 400, "wrong: unwaited": 400, "wrong: uneven": 400, "wrong: grows": 400,
    "wrong: extra wait": 400, "wrong: outside": 400, "wrong: unwritten": 400, "wrong: misaligned": 800,
    "wrong: refused": 300, "wrong: not all meet": 20,
}  # fmt: skip
"""The smaller of two sizes of each kernel of the benchmark: where what is done once is small beside the rest."""


def benchmark() -> ModuleType:
    sys.path.append(str(TOOLS / "bench"))
    spec = importlib.util.spec_from_file_location("growing_mistakes", TOOLS / "bench" / "growing_mistakes.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BENCHMARK = benchmark()


def elements(found: Any) -> int:
    """How many elements there are in arrays, and in lists of them."""
    if isinstance(found, tuple | list):
        return sum(map(elements, found))
    return found.size if isinstance(found, np.ndarray) else 0


class Counted:
    """Stands for numpy or one of its functions: counts the elements of what is called with and of what comes out."""

    def __init__(self, stands_for: Any, count: list[int]) -> None:
        self._stands_for, self._count = stands_for, count

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._stands_for, name)
        return Counted(found, self._count) if callable(found) and not isinstance(found, type) else found

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        result = self._stands_for(*arguments, **options)
        some = self._stands_for.__name__ in ("searchsorted", "at")  # of the first argument they look at few
        self._count[0] += elements(arguments[some:]) + elements(result)
        return result


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count the lines of Python that the check runs, and the elements that it has numpy go over."""
    work = [0]

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        work[0] += event == "line"
        return local

    def of_check(frame: FrameType, event: str, argument: Any) -> Any:
        return local if frame.f_code.co_filename.startswith(ROOM) else None

    with monkeypatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("ascend_sim.check.") and hasattr(module, "np"):
                patch.setattr(module, "np", Counted(np, work))
        before = sys.gettrace()
        sys.settrace(of_check)
        try:
            yield work
        finally:
            sys.settrace(before)


def work_of(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> int:
    sized = BENCHMARK.CASES[name][1](size)
    with counting(monkeypatch) as work:
        asim.check_kernel(sized.kernel, sized.blocks, *sized.tensors, **sized.fields)
    return work[0]


@part_of_cases(4)
@pytest.mark.parametrize("name", SIZES)
def test_twice_the_rows_are_twice_the_work(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work_of(name, 8, monkeypatch)  # what is worked out once for all checks
    once, twice = (work_of(name, size, monkeypatch) for size in (SIZES[name], 2 * SIZES[name]))
    assert twice < MOST * once


def test_every_kernel_of_the_benchmark_is_counted() -> None:
    """All but one of which more than the told races are looked at, and one whose races are cut off."""
    assert set(BENCHMARK.CASES) - set(SIZES) == {"wrong: same rows", "wrong: pieces race"}


_SQUARE = """
def in_python(waits):
    for one in waits:
        for other in waits:
            pass


def in_numpy(waits):
    np.repeat(waits, len(waits)).max(initial=0)
"""


@pytest.mark.parametrize("how", ["in_python", "in_numpy"])
def test_work_that_grows_with_the_square_is_seen(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted step of the check that goes over all pairs of waits."""
    exec(compile(_SQUARE, f"{ROOM}/planted.py", "exec"), made := vars(order).copy())
    after = order.TaskOrder.after

    def slow(self: order.TaskOrder, sets: Any, waits: Any) -> Any:
        made["np"] = order.np  # type: ignore[attr-defined]  # the one that counts
        made[how](waits)
        return after(self, sets, waits)

    monkeypatch.setattr(order.TaskOrder, "after", slow)
    assert work_of("queue", 800, monkeypatch) > MOST * work_of("queue", 400, monkeypatch)
