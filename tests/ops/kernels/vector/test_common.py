"""Splitting of work, and the barriers between dependent vector instructions on a chip whose vector results come late."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.task import Task
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.vector.cast import cast_work
from ascend_sim.ops.kernels.vector.common import Loop, TaskWords, share, vector_cores, work_task
from ascend_sim.ops.kernels.vector.reduce_sum import reduce_sum_work
from ascend_sim.ops.kernels.vector.trans_data import BlockLayout
from ascend_sim.ops.kernels.vector.trans_data_feature import FeatureShape, feature_work
from tests.support.ops.vector_runs import chip, execute, nc1hwc0


@given(st.integers(0, 500), st.integers(1, 60))
def test_shares_cover_everything_evenly(total: int, parts: int) -> None:
    shares = [share(total, parts, index) for index in range(parts)]
    assert [i for start, count in shares for i in range(start, start + count)] == list(range(total))
    counts = [count for _, count in shares]
    assert max(counts) - min(counts) <= 1 and counts == sorted(counts, reverse=True)


def late_vector_results() -> ChipSpec:
    base = chip()
    return base.model_copy(update={"vector": base.vector.model_copy(update={"latency": 3000})})


def cast_twice(on: ChipSpec, source: Allocation, target: Allocation, disarm: Collection[str]) -> Task:
    work = cast_work(on, 1000, "float16", "bfloat16", "Cast")
    return work_task(on, TaskWords("Cast", "Cast", disarm), work, [source, target])


def sum_rows(on: ChipSpec, source: Allocation, target: Allocation, disarm: Collection[str]) -> Task:
    work = reduce_sum_work(on, (40, 10, 1000), "float16", "ReduceSum")
    return work_task(on, TaskWords("ReduceSum", "ReduceSum", disarm), work, [source, target])


def sum_columns(on: ChipSpec, source: Allocation, target: Allocation, disarm: Collection[str]) -> Task:
    work = reduce_sum_work(on, (5, 100, 1), "float32", "ReduceSum")
    return work_task(on, TaskWords("ReduceSum", "ReduceSum", disarm), work, [source, target])


def clear_gaps(on: ChipSpec, source: Allocation, target: Allocation, disarm: Collection[str]) -> Task:
    work = feature_work(on, FeatureShape(1, 3, 1, 100), BlockLayout.of(4, 16), True)
    return work_task(on, TaskWords("TransData", "TransData_map", disarm), work, [source, target])


X16 = (np.arange(400_000) % 7 - 3).astype(np.float16)
X32 = (np.arange(500) % 7).astype(np.float32)
MAP = np.arange(1, 301, dtype=np.uint32).reshape(1, 3, 1, 100)
CASES = [
    (cast_twice, X16[:1000], (X16[:1000].astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)),
    (sum_rows, X16, X16.reshape(40, 10, 1000).sum(axis=(0, 2), dtype=np.float64).astype(np.float16)),
    (sum_columns, X32, X32.reshape(5, 100).sum(axis=0)),
    (clear_gaps, MAP, nc1hwc0(MAP, 16)),
]


@pytest.mark.parametrize(("make", "source", "expected"), CASES)
def test_barriers_hold_back_what_depends_on_a_late_result(
    make: object, source: np.ndarray, expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = late_vector_results()
    got, findings, _ = execute(make, source, expected.nbytes, "full", on)  # type: ignore[arg-type]
    assert findings == []
    np.testing.assert_array_equal(got.view(expected.dtype), expected.ravel())
    monkeypatch.setattr(KernelBuilder, "pipe_barrier", lambda self, pipe: None)
    with ThreadPoolExecutor(1) as elsewhere:  # a thread writes a kernel of a shape once
        _, findings, _ = elsewhere.submit(execute, make, source, expected.nbytes, "full", on).result()  # type: ignore[arg-type]
    assert findings


def test_on_a_coupled_chip_vector_kernels_begin_on_its_ai_cores() -> None:
    coupled = load_chip("ascend310p3")  # 8 AI Cores and 7 vector-only cores
    work = Loop(1, lambda block: [], lambda k, pieces: None)
    task = work_task(coupled, TaskWords("Cast", "Cast_x"), work, [])
    assert (task.core_kind, task.build(0)[0].core_kind) == ("AI_CORE", "AI_CORE")
    assert vector_cores(coupled) == 15
    assert vector_cores(load_chip("ascend910a")) == 32
    assert vector_cores(load_chip("ascend910b3")) == 40
