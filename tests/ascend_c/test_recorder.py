"""The process that records: started once, apart for each block, and replaced where it is lost."""

from __future__ import annotations

import gc
import multiprocessing
import os
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ascend_sim.ascend_c import recorder as recorder_module
from ascend_sim.ascend_c.recorder import FLOAT, GM_SHIFT, INTEGER, POINTER, STRUCT, ProgramRecorder, RecordedCore, describe
from ascend_sim.ascend_c.stream import CRASHED, FINE, REFUSED
from ascend_sim.errors import SimError
from tests.support.ascend_c.kernels import BUFFERS, made, needs_compiler, vector_kernel

pytestmark = needs_compiler
COUNT = vector_kernel("for (int64_t i = 0; i < n; i++) PipeBarrier<PIPE_V>();", tensors="x", numbers="int64_t n")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("count"), COUNT)._recorder(()).library


@pytest.fixture
def recorder(library: Path) -> Iterator[ProgramRecorder]:
    yield ProgramRecorder(library)
    gc.collect()


def turns(recorder: ProgramRecorder, count: int) -> int:
    """How many words the kernel records."""
    found = recorder.begin(RecordedCore(0, 1, BUFFERS), [1 << GM_SHIFT, count]).finish()
    assert found.how == FINE
    return len(found.rows)


def test_one_process_records_many_programs(recorder: ProgramRecorder) -> None:
    assert [turns(recorder, count) for count in (3, 0, 100_000)] == [3, 0, 100_000]
    first = recorder._process
    assert turns(recorder, 5) == 5 and recorder._process is first


def test_a_process_may_start_before_its_first_program(recorder: ProgramRecorder) -> None:
    recorder.start()
    first = recorder._process
    assert first is not None and turns(recorder, 5) == 5 and recorder._process is first


def test_threads_take_turns(recorder: ProgramRecorder) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda count: turns(recorder, count), range(40))) == list(range(40))


def test_a_process_that_was_lost_is_started_again(recorder: ProgramRecorder) -> None:
    turns(recorder, 1)
    assert recorder._process is not None
    recorder._process.kill()
    recorder._process.wait()
    assert turns(recorder, 2) == 2


def test_a_process_that_ends_in_the_middle_is_told(recorder: ProgramRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    turns(recorder, 1)
    process = recorder._process
    assert process is not None
    process.kill()
    monkeypatch.setattr(process, "poll", lambda: None)
    with pytest.raises(SimError, match="ended unexpectedly"):
        turns(recorder, 1)
    assert turns(recorder, 2) == 2


def test_the_process_ends_with_its_recorder(library: Path) -> None:
    recorder = ProgramRecorder(library)
    turns(recorder, 1)
    process = recorder._process
    assert process is not None
    del recorder
    gc.collect()
    assert process.returncode is not None


def _in_a_fork(recorder: ProgramRecorder, answer: multiprocessing.SimpleQueue[int]) -> None:
    inherited, control = recorder._process, recorder._control
    answer.put(turns(recorder, 7))
    assert inherited is not None and recorder._process is not None
    answer.put(recorder._process.pid)
    recorder_module._end(inherited, control, os.getppid())


def test_a_fork_records_with_a_process_of_its_own(recorder: ProgramRecorder) -> None:
    turns(recorder, 1)
    process = recorder._process
    context = multiprocessing.get_context("fork")
    answer: multiprocessing.SimpleQueue[int] = context.SimpleQueue()
    child = context.Process(target=_in_a_fork, args=(recorder, answer))
    child.start()
    assert answer.get() == 7
    assert process is not None and answer.get() != process.pid
    child.join()
    assert process.poll() is None and turns(recorder, 2) == 2 and recorder._process is process


def test_what_is_allocated_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "MEMORY", 1 << 30)
    text = vector_kernel("PipeBarrier<PIPE_V>(); *(volatile char *)malloc(2ll << 30) = 1;", tensors="x")
    found = made(tmp_path, text)._recorder(()).begin(RecordedCore(0, 1, BUFFERS), [1 << GM_SHIFT]).finish()
    assert found.how == CRASHED


def test_parameters_are_described(tmp_path: Path) -> None:
    text = "struct S { int a[3]; };\n" + vector_kernel("", tensors="x", numbers="int8_t n, bool flag, half h, double real, S s")
    kinds = [(POINTER, 8), (INTEGER, 1), (INTEGER, 1), (FLOAT, 2), (FLOAT, 8), (STRUCT, 12)]
    assert describe(made(tmp_path, text)._recorder(()).library) == (kinds, ())


def test_a_library_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    (tmp_path / "kernel.so").write_text("no library")
    with pytest.raises(SimError, match=r"the compiled kernel cannot be loaded: "):
        describe(tmp_path / "kernel.so")


def test_arguments_of_every_kind_arrive(tmp_path: Path) -> None:
    text = "struct S { int64_t a; char b; };\n" + vector_kernel(
        'asim::refuse(asim::Site::here(), "%lld %g %lld %d %d", (long long)n, f, (long long)s.a, s.b, *(char *)p);',
        tensors="",
        numbers="int64_t n, double f, S s, void *p",
    )
    recorder = made(tmp_path, text)._recorder(())
    for number in (-1, 1 << 62, (1 << 64) - 1):
        found = recorder.begin(RecordedCore(0, 1, BUFFERS), [number, -2.5, struct.pack("<qb7x", -7, 9), b"\x05"]).finish()
        signed = number - (1 << 64) if number >= 1 << 63 else number
        assert (found.how, found.text) == (REFUSED, f"{signed} -2.5 -7 9 5")
