"""Columns that are packed, in memory or on disk, are those that they were made of."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pytest
from machine import CHIP, program, task_of

from ascend_sim.engine import columns
from ascend_sim.engine.columns import PIECE, Packed
from ascend_sim.engine.compiled import library, machine
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.timeline import TIMES, Timeline
from ascend_sim.host import Lately
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import gm_operand

pytestmark = pytest.mark.fast

COUNTS = (70, 10, 90, 80)
"""Rows of the blocks."""
needs_c = pytest.mark.skipif(library.load() is None, reason="the compiled engine is not built")
LEAST, MOST = -(1 << 63), (1 << 63) - 1


def run(counts: tuple[int, ...] = COUNTS, **how: Any) -> Timeline:
    """Blocks of so many copies, some of which wait for each other."""

    def write(k: KernelBuilder) -> None:
        for i in range(counts[k.block]):
            if i % 7:
                k.data_copy("GM", "UB", 0, gm_operand(0, 64 * (i % 99) * (k.block + 1)), 64)
            else:
                k.scalar(i % 300)

    device = Device(CHIP, with_values=False)
    tensor = device.allocate(1 << 16, "t")
    made = [[program(CHIP, "AIV", write, [1 << 16], block=block)] for block in range(len(counts))]
    return Engine(device, engine=how.pop("engine", None)).run([task_of(made, [tensor])], **how)


def pack_all(monkeypatch: pytest.MonkeyPatch, few: int = 1) -> None:
    for module in (columns, machine):
        monkeypatch.setattr(module, "FEW", few)


def mapped(array: Any) -> bool:
    """Whether an array lies in a file."""
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


def assert_equal(found: Timeline, expected: Timeline) -> None:
    for one, other in zip(found.programs, expected.programs, strict=True):
        assert (one.begin, one.finish, one.core) == (other.begin, other.finish, other.core)
        assert np.array_equal(one.program.rows, other.program.rows)
        for name in TIMES:
            assert np.array_equal(getattr(one, name), getattr(other, name)), name


def assert_kept(packed: int, on_disk: int, expected: Timeline, **how: Any) -> None:
    """A run of which so many programs are packed, some of them on disk."""
    found = run(**how)
    columns = [one.columns for one in found.programs if isinstance(one.columns, Packed)]
    assert len(columns) == packed
    assert sum(mapped(one.bytes) for one in columns) == on_disk
    assert_equal(found, expected)
    assert_equal(found, expected)  # what is no longer held is read again


@needs_c
@pytest.mark.parametrize(("most", "few", "on_disk"), [(1 << 30, 1, 0), (2000, 1, 2), (0, 50, 3), (0, 1, 4)])
def test_what_does_not_fit_lies_on_disk(most: int, few: int, on_disk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(engine="simpy")
    monkeypatch.setattr(columns, "MOST", most)
    pack_all(monkeypatch, few)
    assert_kept(sum(count >= few for count in COUNTS), on_disk, expected, engine="compiled", watch=True)


@pytest.mark.parametrize("engine", ["simpy", pytest.param("compiled", marks=needs_c)])
@pytest.mark.parametrize(
    ("room", "packed", "on_disk"),
    [(sum(COUNTS), 0, 0), (10 + 70, 2, 2), (10 + 70 - 1, 3, 0), (10, 3, 3), (0, 4, 4)],  # the shortest blocks end first
)
def test_columns_that_are_there_stay_while_there_is_room(
    room: int, packed: int, on_disk: int, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(engine="simpy")
    monkeypatch.setattr(columns, "MOST", room * len(TIMES) * 8)
    pack_all(monkeypatch)
    assert_kept(packed, on_disk, expected, engine=engine)


def test_a_full_disk_leaves_them_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(tempfile.SpooledTemporaryFile[bytes]):
        def write(self, data: Any) -> int:
            raise OSError(28, "No space left on device")

    expected = run()
    monkeypatch.setattr(columns, "MOST", 0)
    pack_all(monkeypatch)
    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    assert_equal(run(), expected)


@needs_c
def test_c_packs_as_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces of which the last is not full, and rows of several pipes that end out of order."""
    counts = (PIECE - 1, PIECE, 2 * PIECE + 5)
    plain = run(counts)
    pack_all(monkeypatch)
    for one, other in zip(run(counts, watch=True).programs, plain.programs, strict=True):
        assert isinstance(one.columns, Packed)
        expected = Packed.of({name: getattr(other, name) for name in TIMES})
        assert np.array_equal(one.columns.places, expected.places)
        assert np.array_equal(one.columns.bytes, expected.bytes)
    assert_equal(run(counts, watch=True), plain)


@pytest.mark.parametrize("count", [1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE])
def test_any_numbers_come_back(count: int) -> None:
    rng = np.random.default_rng(count)
    spans = [(0, 1), (7, 263), (-5, 252), (0, 1 << 16), (-1, 1 << 16), (0, 1 << 32), (9, (1 << 32) + 9), (LEAST, MOST)]
    for high, low in zip([*spans, *spans], [*spans[3:], *spans, *spans[:3]], strict=False):
        given = {name: rng.integers(*(high if i % 2 else low), count) for i, name in enumerate(TIMES)}
        given["cause"][[0, -1]] = (LEAST, MOST) if count > 1 else MOST
        packed = Packed.of(given)
        for name in TIMES:
            assert np.array_equal(packed[name], given[name]), name


def test_times_of_a_run_take_a_fraction() -> None:
    (one,) = run((3 * PIECE,)).programs
    assert len(Packed.of({name: getattr(one, name) for name in TIMES}).bytes) < len(one.program) * len(TIMES) * 8 / 3


def test_of_what_is_read_the_last_is_held() -> None:
    made: list[str] = []

    def read(name: str, count: int = 10) -> None:
        def make() -> Any:
            made.append(name)
            return np.zeros(count, np.int64)

        assert len(lately.get(name, make)) == count

    lately = Lately(160)
    for name in ("a", "b", "a", "c", "a", "b"):
        read(name)
    assert made == ["a", "b", "c", "b"]
    read("more than all", 100)
    read("more than all", 100)
    read("a")
    assert made[4:] == ["more than all", "a"]


@needs_c
@pytest.mark.parametrize(("rows", "arrays"), [(1000, 1), (160, 3), (85, 3), (79, 4), (69, 4)])
def test_columns_of_several_programs_stand_in_one_array(
    rows: int, arrays: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack_all(monkeypatch)
    monkeypatch.setattr(machine, "_AT_ONCE", rows * len(TIMES))
    found = run(engine="compiled")
    assert_equal(found, run(engine="simpy"))
    bases = set()
    for one in found.programs:
        array = one.start
        while array.base is not None:
            array = array.base
        bases.add(id(array))
    assert len(bases) == arrays
