"""Columns that are packed, in memory or on disk, are those that they were made of."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ascend_sim.engine import columns, engine
from ascend_sim.engine.columns import PIECE, ColumnFile, Packed, Written
from ascend_sim.engine.compiled import library, machine
from ascend_sim.engine.timeline import OF_ALL, OF_MOVES, TIMES, Timeline
from ascend_sim.engine.watch import watched
from ascend_sim.host import Lately
from tests.support.engine.packed_runs import COUNTS, assert_equal, packed_of, run

pytestmark = pytest.mark.fast

needs_c = pytest.mark.skipif(library.load() is None, reason="the compiled engine is not built")
LEAST, MOST = -(1 << 63), (1 << 63) - 1


def assert_kept(packed: int, expected: Timeline, **how: Any) -> None:
    """A run of which so many programs are packed, all of them on disk."""
    found = run(**how)
    assert len(packed_of(found)) == packed
    for one in packed_of(found):
        assert not len(one.bytes) and (one.places >= 0).all()
    assert_equal(found, expected)
    for one in packed_of(found):
        one.lately = Lately(0)
    assert_equal(found, expected)  # what is no longer held is read again


@needs_c
@pytest.mark.parametrize(("few", "room", "packed"), [(1, 1 << 30, 4), (75, 1 << 30, 2), (75, 10, 3), (75, 0, 4)])
def test_what_c_packs_lies_on_disk(few: int, room: int, packed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so do arrays of shorter programs for which there is no room."""
    expected = run(engine="simpy")
    monkeypatch.setattr(engine, "SHORT", room * len(TIMES) * 8)
    monkeypatch.setattr(machine, "FEW", few)
    assert_kept(packed, expected, engine="compiled", watch=True)


@pytest.mark.parametrize("of", ["simpy", pytest.param("compiled", marks=needs_c)])
@pytest.mark.parametrize(
    ("room", "packed"),
    [(sum(COUNTS), 0), (10 + 70, 2), (10 + 70 - 1, 3), (10, 3), (9, 4)],  # the shortest blocks end first
)
@pytest.mark.parametrize(("watch", "name"), [(False, "MOST"), (True, "SHORT")])
def test_columns_that_are_there_stay_while_there_is_room(
    room: int, packed: int, of: str, watch: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(engine="simpy")
    monkeypatch.setattr(engine, name, room * len(TIMES) * 8)
    assert_kept(packed, expected, engine=of, watch=watch)


class Full:
    """A file that takes so many writes; then the disk is full."""

    def __init__(self, writes: int) -> None:
        self._file: Any = tempfile.TemporaryFile()  # noqa: SIM115  # as the store does
        self._writes = writes

    def write(self, data: Any) -> int:
        self._writes -= 1
        if self._writes < 0:
            raise OSError(28, "No space left on device")
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def opens(monkeypatch: pytest.MonkeyPatch, opened: Callable[[], Any]) -> None:
    """Replace the file that the store opens."""
    monkeypatch.setattr(columns, "tempfile", SimpleNamespace(TemporaryFile=opened))


@pytest.mark.parametrize(("writes", "in_memory"), [(0, 4), (1, 3), (3, 1)])
def test_a_full_disk_leaves_them_in_memory(writes: int, in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run()
    monkeypatch.setattr(engine, "MOST", 0)
    opens(monkeypatch, lambda: Full(writes))
    found = run()
    assert sum(len(one.bytes) > 0 for one in packed_of(found)) == in_memory
    assert_equal(found, expected)


def test_where_no_file_can_be_made_they_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Any:
        raise FileNotFoundError(2, "No usable temporary directory found")

    expected = run()
    monkeypatch.setattr(engine, "MOST", 0)
    monkeypatch.setattr(engine, "SHORT", 0)
    monkeypatch.setattr(machine, "FEW", 1)
    opens(monkeypatch, none)
    for watch in (False, True):
        found = run(watch=watch)
        assert len(packed_of(found)) == 4 and all(one.file is None for one in packed_of(found))
        assert_equal(found, expected)


@needs_c
def test_where_the_disk_becomes_full_c_goes_on_in_memory() -> None:
    """In a process of its own, whose files may not grow beyond some pieces: of one program some are there and some here."""
    count = 9 * PIECE
    script = f"""
import resource, signal, sys
sys.path[:0] = {sys.path!r}
from tests.support.engine.packed_runs import assert_equal, packed_of, run
expected = run(({count},), engine="simpy")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
found = run(({count},), engine="compiled", watch=True)
(one,) = packed_of(found)
assert (one.places >= 0).any() and (one.places < 0).any(), one.places
assert_equal(found, expected)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(__file__).parent)
    assert not done.returncode, done.stderr


def test_only_some_runs_are_on_disk_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process has few descriptors."""
    gc.collect()
    monkeypatch.setattr(engine, "MOST", 0)
    monkeypatch.setattr(columns, "FILES", len(ColumnFile.open) + 2)
    kept = [run() for _ in range(3)]
    assert [all(len(one.bytes) == 0 for one in packed_of(timeline)) for timeline in kept] == [True, True, False]
    assert_equal(kept[0], kept[2])
    del kept[0]
    gc.collect()
    assert_kept(4, kept[1])


def test_several_threads_read_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run()
    monkeypatch.setattr(engine, "MOST", 0)
    found = run()
    for one in packed_of(found):
        one.lately = Lately(0)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(assert_equal, found, expected) for _ in range(16)]:
            done.result()


def test_processes_that_are_forked_read_what_is_on_disk() -> None:
    """They share the place at which the file stands."""
    script = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from tests.support.engine.packed_runs import assert_equal, packed_of, run
from ascend_sim.engine import engine
from ascend_sim.host import Lately
expected = run((4096, 8192))
engine.MOST = 0
found = run((4096, 8192))
for one in packed_of(found):
    assert one.file is not None
    one.lately = Lately(0)
children = []
for _ in range(4):
    children.append(os.fork())
    if not children[-1]:
        for _ in range(25):
            assert_equal(found, expected)
        os._exit(0)
assert not any(os.waitpid(child, 0)[1] for child in children)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(__file__).parent)
    assert not done.returncode, done.stderr


def test_packed_columns_go_into_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run()
    monkeypatch.setattr(engine, "MOST", 0)
    for one, other in zip(run().programs, expected.programs, strict=True):
        again = pickle.loads(pickle.dumps(one.columns))
        assert all(np.array_equal(again[name], getattr(other, name)) for name in TIMES)


@needs_c
def test_c_packs_as_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces of which the last is not full, and rows of several pipes that end out of order."""
    counts = (PIECE - 1, PIECE, 2 * PIECE + 5)
    plain = run(counts)
    monkeypatch.setattr(machine, "FEW", 1)
    for one, other in zip(run(counts, watch=True).programs, plain.programs, strict=True):
        assert isinstance(one.columns, Packed)
        expected = Packed.of({name: getattr(other, name) for name in TIMES})
        assert not len(one.columns.bytes) and one.columns.file is not None
        begin = one.columns.places.min()
        assert np.array_equal(one.columns.places - begin, -1 - expected.places)
        stored = one.columns.file.read(begin, len(expected.bytes))
        assert stored == expected.bytes.tobytes()
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
@pytest.mark.parametrize(("rows", "arrays"), [(1000, 1), (160, 5), (85, 7), (79, 7), (69, 7)])
def test_columns_of_several_programs_stand_in_one_array(rows: int, arrays: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "FEW", 1)
    monkeypatch.setattr(machine, "_AT_ONCE", rows * len(OF_ALL))
    found = run(engine="compiled")
    assert_equal(found, run(engine="simpy"))
    bases = set()
    for one in found.programs:
        for array in (one.columns.times, one.columns.moves):
            while array.base is not None:
                array = array.base
            bases.add(id(array))
    assert len(bases) == arrays


@needs_c
def test_columns_as_they_were_written() -> None:
    written = Written(np.arange(15).reshape(3, 5), np.array([[2, 1, 2, 3, 4, 5], [0, 6, 7, 8, 9, 10]]))
    assert list(written) == list(TIMES) and len(written) == len(TIMES)
    assert {name: written[name].tolist() for name in ("start", "cause", "l2_wait", "hbm_bytes")} == {
        "start": [0, 5, 10], "cause": [4, 9, 14], "l2_wait": [6, 0, 1], "hbm_bytes": [10, 0, 5],
    }  # fmt: skip
    with pytest.raises(KeyError):
        written["line"]
    again = pickle.loads(pickle.dumps(written))
    assert all(np.array_equal(again[name], written[name]) for name in TIMES)


@needs_c
def test_at_port_speed_transfers_move_nothing() -> None:
    (one,) = run((50,), engine="compiled", shared=False).programs
    assert isinstance(one.columns, Written) and not len(one.columns.moves)
    assert not any(getattr(one, name).any() for name in OF_MOVES)


@cache
def kept_run(counts: tuple[int, ...], of: str) -> Timeline:
    """Return a run that keeps all its rows."""
    return run(counts, engine=of, keep=True, watch=True)


@pytest.mark.parametrize("of", ["simpy", pytest.param("compiled", marks=needs_c)])
@pytest.mark.parametrize("rest", [2, -7, -1, 0, 1 << 40])
@pytest.mark.parametrize("counts", [COUNTS, (7,) * 100])
def test_a_run_of_more_instructions_than_it_may_keep_keeps_none(counts: tuple[int, ...], rest: int, of: str) -> None:
    """And is the same but for that: blocks that end before it is known too, of more blocks than there are cores."""
    most = sum(counts) + rest if rest <= 0 else rest
    found, whole = run(counts, engine=of, keep=most, watch=True), kept_run(counts, of)
    assert found.kept == (most >= sum(counts))
    assert len(found.programs) == (len(counts) if found.kept else 0)
    assert [(one.begin, one.finish) for one in found.tasks] == [(one.begin, one.finish) for one in whole.tasks]
    assert watched(found) == watched(whole)
    if found.kept:
        assert_equal(found, whole)
