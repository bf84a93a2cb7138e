"""How full a buffer is, against the tenure of every two bytes of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascend_sim
from ascend_sim.engine import occupancy as module
from ascend_sim.engine.compiled import library
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.occupancy import Occupancy, by_c, by_numpy, occupancy
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.held_bytes import brute_force
from tests.support.engine.machine import CHIP, changed, program, quiet, run_one, task_of
from tests.support.engine.overlaps import SIZES, Action, actions, vector_writer
from tests.support.engine.random_programs import Variant, variants
from tests.support.sampling import sampled

pytestmark = pytest.mark.usefixtures("each_engine")
needs_c = pytest.mark.skipif(library.load() is None, reason="the compiled engine was not built")
BUFFERS = ("L1", "L0A", "L0B", "L0C", "UB", "BT", "FB")


@sampled(25, 100)
@given(variants(), actions)
def test_against_every_piece_of_the_buffer(variant: Variant, todo: list[Action]) -> None:
    device = Device(variant.chip, with_values=False)
    tensors = [device.allocate(size, "t") for size in SIZES]
    task = task_of([[program(variant.chip, "AIV", vector_writer(todo), SIZES)]], tensors)
    (run,) = Engine(device).run([task]).programs
    every = np.arange(0, run.finish + 2)
    exact = brute_force(run, "UB", every)
    for compute in (by_numpy, by_c) if library.load() else (by_numpy,):
        curve = Occupancy(*compute(run, "UB"))
        assert (np.diff(curve.time) > 0).all()
        assert curve.held.tolist() == brute_force(run, "UB", curve.time)
        assert not len(curve.held) or curve.held[-1] == 0
        assert curve.peak == max(exact)
        assert abs(curve.mean(0, run.finish) - np.mean(exact[: run.finish] or [0])) < 1e-6


def test_one_buffer_on_paper() -> None:
    """256 bytes from the start of the load to the retirement of the store."""
    chip = changed(quiet(CHIP), memory={"hbm_latency": 0})

    def write(k: Any) -> None:
        k.data_copy("GM", "UB", 0, gm_operand(0, 0), 256)
        k.pipe_barrier("ALL")
        k.data_copy("UB", "GM", gm_operand(1, 0), 0, 256)

    run = run_one(chip, "AIV", write, SIZES)
    curve = occupancy(run, "UB")
    assert curve.time.tolist() == [run.start[0], run.retire[2]]
    assert curve.held.tolist() == [256, 0]
    assert curve.mean(int(run.start[0]), int(run.retire[2])) == 256
    length = int(run.retire[2] - run.start[0])
    assert curve.mean(int(run.start[0]) - length, int(run.retire[2])) == 128
    assert len(occupancy(run, "L1").time) == 0


def assert_both_equal(run: ProgramRun, buffer: str) -> int:
    """The number of moments of the curve, of which C and numpy find every one."""
    for in_c, in_numpy in zip(by_c(run, buffer), by_numpy(run, buffer), strict=True):
        assert in_c.dtype == in_numpy.dtype == np.int64
        assert in_c.tolist() == in_numpy.tolist()
    return len(in_c)


@needs_c
@sampled(40, 150)
@given(st.integers(0, 2**32), st.integers(1, 120))
def test_c_and_numpy_find_the_same_for_any_times(seed: int, rows: int) -> None:
    """Times that no engine makes: ties, rows of a pipe out of order, reads that outlast the next writes."""
    rng = np.random.default_rng(seed)

    def write(k: Any) -> None:
        k.vector_duplicate(0, "float16", 256)
        for a, b, n in rng.integers(0, 40, (rows, 3)).tolist():
            if a % 2:
                k.data_copy("GM", "UB", a * 32, gm_operand(0, 0), 32 * (1 + n % 9))
            elif b % 3:
                k.vector_binary("add", *(place % 6 * 224 for place in (a // 2, b, n)), "float16", 16 * (1 + n % 7))
            else:
                k.data_copy("UB", "GM", gm_operand(1, 0), b * 32, 32 * (1 + n))

    run = run_one(CHIP, "AIV", write, SIZES)
    start = rng.integers(0, 1 + rows // rng.integers(1, 5), len(run.program))
    times = {"start": start, "retire": start + rng.integers(0, 1 + rows // 2, len(start))}
    run = dataclasses.replace(run, columns={**run.columns, **times})
    assert assert_both_equal(run, "UB")


@needs_c
@pytest.mark.parametrize("chip", ["ascend910b3", "ascend910a", "ascend310p3", "ascend950pr_9599"])
def test_c_and_numpy_find_the_same_on_kernels(chip: str) -> None:
    shapes = (2, 24, 9, 9), (2, 20, 9, 9), (24, 20, 3, 3)
    specs = [ascend_sim.TensorSpec(shape, "float16") for shape in shapes]
    arguments = (None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, (True, True, True))
    result = ascend_sim.convolution_backward(*specs, *arguments, chip=chip, mode="timing")
    runs = result.timeline.programs
    moments = {buffer: sum(assert_both_equal(run, buffer) for run in runs) for buffer in BUFFERS}
    assert all(moments[buffer] for buffer in ("L1", "L0A", "L0B", "L0C", "UB"))


@needs_c
def test_c_is_used_where_it_was_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it numpy serves; the caller sees no difference."""
    run = run_one(CHIP, "AIV", vector_writer([("in", 0, 0, 0, 1)]), SIZES)
    used = []
    for name in ("by_c", "by_numpy"):
        compute = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, name=name, compute=compute: used.append(name) or compute(*a))
    with_c = occupancy(run, "UB")
    monkeypatch.setattr(library, "beside", lambda: None)
    without = occupancy(run, "UB")
    assert used == ["by_c", "by_numpy"]
    assert (with_c.time.tolist(), with_c.held.tolist()) == (without.time.tolist(), without.held.tolist())
