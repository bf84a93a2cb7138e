"""Bandwidth over time: by hand, and no byte lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascend_sim as asim
from ascend_sim.report.bandwidth import LEVELS, moved, rate, slices
from ascend_sim.report.figures import bandwidth_figure, hbm_bytes
from tests.support.report.calls import call

pytestmark = pytest.mark.fast


def test_two_transfers_by_hand() -> None:
    """100 bytes in cycles 0 to 10, 200 in 5 to 15; none behind."""
    begin, end, count = (np.array(one) for one in ([0, 5], [10, 15], [100, 200]))
    assert rate(begin, end, count, np.array([0.0, 5, 10, 15, 20])).tolist() == [10, 30, 20, 0]
    assert rate(begin[:0], end[:0], count[:0], np.array([0.0, 1])).tolist() == [0]


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(0, 90), st.integers(1, 10**6)), min_size=1, max_size=40))
def test_no_byte_is_lost(transfers: list[tuple[int, int, int]]) -> None:
    begin, length, count = (np.array(one) for one in zip(*transfers, strict=True))
    edges = np.linspace(0, 1000, 38)
    per_slice = rate(begin, begin + length, count, edges) * np.diff(edges)
    assert (per_slice >= -1e-3).all() and per_slice.sum() == pytest.approx(count.sum())


def test_the_bytes_are_those_of_the_kernel() -> None:
    result = call(channels=16, size=12)
    for task, kernel in enumerate(result.report.kernels):
        found = moved(result.recording, task)
        told = {path: count for path, count in kernel["counts"]["bytes"].items() if ":" not in path}
        assert found["GM to cores"][2].sum() == sum(n for path, n in told.items() if path.startswith("GM->"))
        assert found["cores to GM"][2].sum() == sum(n for path, n in told.items() if path.endswith("->GM"))
        assert found["HBM"][2].sum() == hbm_bytes(result.recording, task)
        assert found["L2"][2].sum() >= found["GM to cores"][2].sum()
        edges = slices(result.recording, task)
        span = result.timeline.tasks[task]
        assert (edges[0], edges[-1]) == (span.launch, span.finish)
        figure = bandwidth_figure(result.recording, task)
        assert {one.name for one in figure.data if one.name in LEVELS} == {name for name in LEVELS if len(found[name][0])}
        limit = next(one.y[0] for one in figure.data if one.name.startswith("HBM at most"))
        assert limit == pytest.approx(result.recording.chip.hbm_bytes_per_cycle() * 1.8)
        assert max([0, *(max(one.y) for one in figure.data if one.name == "HBM")]) <= limit * 1.001


@asim.kernel_function(core=("AIV", "AI_CORE"))
def read_twice(k: asim.Kernel, x: asim.Tensor, *, first: int, size: int, apart: int) -> None:
    for past in (True, False, True):
        k.data_copy("GM", "UB", 0, x.address + first, size, 3, apart, size, l2_bypass=past)
        k.pipe_barrier("MTE2")


@pytest.mark.parametrize("chip", ["ascend910b3", "ascend950pr_9589", "ascend310p3"])
@pytest.mark.parametrize(("first", "size", "apart"), [(0, 4096, 4096), (32, 1600, 2048), (480, 64, 96)])
def test_the_l2_moves_every_line_that_holds_a_byte_also_past_it(chip: str, first: int, size: int, apart: int) -> None:
    """The lines of the second read's tails bypass the cache on some chips, as all of the others do."""
    x = np.zeros(4096, np.float32)
    run = asim.launch(read_twice, 1, x, chip=chip, first=first, size=size, apart=apart, mode="timing")
    (base,) = {tensor.base for task in run.recording.tasks for tensor in task.tensors}
    line = run.recording.chip.memory.l2_line_bytes
    lines = {(base + first + row * apart + byte) // line for row in range(3) for byte in range(size)}
    assert moved(run.recording, 0)["L2"][2].tolist() == [len(lines) * line] * 3
