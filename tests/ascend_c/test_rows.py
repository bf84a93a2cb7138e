"""From a recording to rows: buffers that a check knows, and flags of queues."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascend_sim as asim
from ascend_sim.ascend_c.recorder import GM_SHIFT
from ascend_sim.ascend_c.rows import ShapeSteps
from ascend_sim.ascend_c.words import Word
from ascend_sim.engine.compiled import library
from ascend_sim.memory.gm import SLOT_SHIFT
from tests.support.ascend_c.kernels import IN, OUT, made, needs_compiler, vector_kernel

pytestmark = needs_compiler
QUEUE = """TPipe p; TQue<QuePosition::VECIN, 2> in; TBuf<TPosition::VECCALC> buffer;
p.InitBuffer(in, 2, 100); p.InitBuffer(buffer, 64); {more}
LocalTensor<float> t = in.AllocTensor<float>(); DataCopy(t, xg, 8); in.EnQue(t); t = in.DeQue<float>(); in.FreeTensor(t);
"""


def test_buffers_are_noted_with_their_lines(tmp_path: Path) -> None:
    kernel = made(tmp_path, vector_kernel(QUEUE.format(more=""), tensors="x"))
    notes = asim.launch(kernel, 1, np.ones(64, np.float32)).programs[0].notes
    assert notes is not None
    assert [(one.name, one.start, one.size) for one in notes.allocated] == [
        ("VECIN buffer 0", 0, 128),
        ("VECIN buffer 1", 128, 128),
        ("VECCALC buffer 2", 256, 64),
    ]
    assert {one.line for one in notes.allocated} == {(str(tmp_path / "kernel.cpp"), 5)}
    assert set(notes.queues.values()) == {"of queues MTE2->V 0", "of queues V->MTE2 0"}


def test_buffers_that_are_handed_out_twice_are_not(tmp_path: Path) -> None:
    body = QUEUE.format(more="p.Reset(); p.InitBuffer(in, 2, 64);")
    notes = asim.launch(made(tmp_path, vector_kernel(body, tensors="x")), 1, np.ones(64, np.float32)).programs[0].notes
    assert notes is not None and not notes.allocated


def test_an_access_behind_a_buffer_is_found(tmp_path: Path) -> None:
    body = QUEUE.format(more="").replace("DataCopy(t, xg, 8)", "DataCopy(t, xg, 40)")
    report = asim.check_kernel(made(tmp_path, vector_kernel(body, tensors="x")), 1, np.ones(64, np.float32))
    assert not report.passed and "behind VECIN buffer 0" in report.render()


def test_what_queues_and_the_pipe_do_by_themselves_is_no_finding(tmp_path: Path) -> None:
    report = asim.check_kernel(made(tmp_path, vector_kernel(QUEUE.format(more=""), tensors="x")), 1, np.ones(64, np.float32))
    assert not [one for one in report.findings if "redundant" in one.kind], report.render()


COMPILED = pytest.mark.skipif(library.beside() is None, reason="no compiled engine")
STEPS = ShapeSteps()
STEPS.add(
    [[(7, 0, 0, 0)], [(1, 0, 32, 0), (2, 64, 0, 0)], []], [Word(one, {}) for one in ("vadd", "copy_gm_to_ubuf", "set_ctrl_")]
)
"""A word of one instruction, one of two whose source lies in GM, and one without."""


@COMPILED
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 1), st.integers(0, 1 << 30)), min_size=1))
def test_rows_of_words_are_the_same_in_c_and_in_numpy(words: list[tuple[int, int, int, int]]) -> None:
    recorded = np.array(
        [(shape, line, at, at + 64 if shape != 1 else (slot + 1 << GM_SHIFT) + at, 3) for shape, line, slot, at in words],
        np.int64,
    )
    numbers = np.array([9, 8, 7, 6], np.int32)
    rows, source = STEPS.rows(recorded)
    moved = STEPS.in_gm[recorded[source, 0]]
    pointers = rows[:, 1:4]
    there = ((pointers >> GM_SHIFT) - 1 << SLOT_SHIFT) + (pointers & (1 << GM_SHIFT) - 1)
    rows[:, 1:4] = np.where(moved, there, pointers)
    found = STEPS.rows_in_c(recorded, 2, numbers)
    assert found is not None
    assert np.array_equal(found[0], rows) and np.array_equal(found[1], numbers[recorded[source, 1]])


def test_a_barrier_before_a_call_with_barriers_of_its_own_is_not_redundant(tmp_path: Path) -> None:
    body = f"""{IN} LocalTensor<uint8_t> m = b.ReinterpretCast<uint8_t>();
CompareScalar(m, a, 0.0f, CMPMODE::GT, 64);
PipeBarrier<PIPE_V>();
Select(d, m, a, 1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);
{OUT}"""
    kernel = made(tmp_path, vector_kernel(body, tensors="x z"))
    found = asim.check_kernel(kernel, 1, np.ones(64, np.float32), asim.empty(64, "float32"))
    assert not found.findings, found.render()


def test_a_barrier_behind_a_call_with_flags_of_its_own_is_not_redundant(tmp_path: Path) -> None:
    """One behind a call without them is."""
    body = f"""{IN} ReduceSum(b, a, b, 64);
PipeBarrier<PIPE_V>();
Duplicate(d, b.GetValue(0), 64);
PipeBarrier<PIPE_V>();
Adds(d, d, 1.0f, 64);
PipeBarrier<PIPE_V>();
PipeBarrier<PIPE_V>();
Adds(d, d, 1.0f, 64);
{OUT}"""
    kernel = made(tmp_path, vector_kernel(body, tensors="x z"))
    (found,) = asim.check_kernel(kernel, 1, np.ones(64, np.float32), asim.empty(64, "float32")).findings
    assert found.kind == "redundant barrier" and found.places[0].line[1] in (9, 10)


@COMPILED
@pytest.mark.parametrize(("slot", "tensors"), [(-1, 1), (1, 1), (2, 2)])
def test_a_pointer_into_no_tensor_is_left_to_numpy(slot: int, tensors: int) -> None:
    recorded = np.array([(1, 0, 0, slot + 1 << GM_SHIFT, 0)], np.int64)
    assert STEPS.rows_in_c(recorded, tensors, np.zeros(1, np.int32)) is None


@pytest.mark.parametrize(
    ("ended", "left"),
    [("", 1), ("SetAtomicNone();", 0), ("DisableDmaAtomic();", 0), ("TPipe other;", 0), ("SetAtomicMax<float>();", 1)],
)
def test_an_atomic_mode_that_outlives_the_kernel_is_a_remark(tmp_path: Path, ended: str, left: int) -> None:
    body = f"{IN} Adds(d, a, 1.0f, 64);\nSetAtomicAdd<float>(); {OUT} {ended}"
    kernel = made(tmp_path, vector_kernel(body, tensors="x z"))
    report = asim.check_kernel(kernel, 2, np.ones(64, np.float32), np.zeros(64, np.float32))
    found = [one for one in report.remarks if "atomic mode" in one]
    assert report.passed and len(found) == left
    assert not found or "kernel.cpp:5: " in found[0]


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_a_tail_of_no_elements_is_left_out(tmp_path: Path, engine: str) -> None:
    body = f"""{IN} Adds(d, a, 1.0f, 64); Adds(d[n], a, 1.0f, n);
Muls(d, a, 2.0f, (uint64_t)64, n, {{1, 1, 8, 8}});
{OUT} DataCopy(zg[64], d, n); DataCopyPad(zg, a, DataCopyExtParams(1, n, 0, 0, 0));"""
    kernel = made(tmp_path, vector_kernel(body, tensors="x z", numbers="uint32_t n"))
    x = np.arange(64, dtype=np.float32)
    run = asim.launch(kernel, 1, x, asim.empty(64, "float32"), n=0, engine=engine, check=True)
    assert np.array_equal(run.outputs["z"], x + 1) and not run.findings


@pytest.mark.parametrize("in_c", [True, False])
def test_a_flag_that_is_set_twice_is_refused_at_its_second_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_c: bool
) -> None:
    if not in_c:
        monkeypatch.setattr(library, "beside", lambda: None)
    body = """SetFlag<HardEvent::MTE2_V>(0);
SetFlag<HardEvent::MTE2_V>(0);
WaitFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);
"""
    with pytest.raises(asim.SimError, match=r"kernel.cpp:5: .*set twice"):
        asim.launch(made(tmp_path, vector_kernel(body, tensors="x")), 1, np.ones(64, np.float32))
