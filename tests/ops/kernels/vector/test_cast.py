"""Cast: values, blocks and waits."""

from __future__ import annotations

from collections.abc import Collection

import ml_dtypes
import numpy as np
import pytest

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.task import Task
from ascend_sim.errors import SimError
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.vector.cast import cast_work
from ascend_sim.ops.kernels.vector.common import TaskWords, work_task
from tests.support.ops.vector_runs import both_modes, chip, useless_waits
from tests.support.sampling import part_of_cases

TYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float32": np.dtype(np.float32)}


PAIRS = [(a, b) for a in TYPES for b in TYPES if a != b]


class CastLaunch:
    def __init__(self, count: int, before: str, after: str) -> None:
        self.arguments = count, before, after

    def __call__(self, on: ChipSpec, source: Allocation, target: Allocation, disarm: Collection[str]) -> Task:
        work = cast_work(on, *self.arguments, "Cast")
        return work_task(on, TaskWords("Cast", "Cast", disarm), work, [source, target])


def numbers(count: int, dtype: str) -> np.ndarray:
    """Every bit pattern of a 16-bit format in turn; for fp32 patterns that fill the range of the 16-bit formats and beyond."""
    if dtype != "float32":
        return np.resize(np.arange(1 << 16, dtype=np.uint16), count).view(TYPES[dtype])
    rng = np.random.default_rng(count)
    values = rng.standard_normal(count) * np.exp2(rng.integers(-40, 40, count))
    return values.astype(np.float32)


@part_of_cases(4)
@pytest.mark.fast
@pytest.mark.parametrize(("before", "after"), PAIRS)
@pytest.mark.parametrize("count", [1, 17, 70_001, 700_001])
def test_cast_rounds_once(before: str, after: str, count: int) -> None:
    x = numbers(count, before)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(np.float32).astype(TYPES[after])  # ml_dtypes and numpy round to nearest even
    got = both_modes(CastLaunch(count, before, after), x, expected.nbytes).view(TYPES[after])
    real = ~np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), ~real)
    np.testing.assert_array_equal(got[real].view(np.uint8), expected[real].view(np.uint8))


@part_of_cases(0, "float32-float16")
@pytest.mark.parametrize(("before", "after"), [("float32", "float16"), ("float16", "bfloat16")])
def test_every_wait_of_cast_matters(before: str, after: str) -> None:
    count = 16384 * 40 * 4
    x = np.random.default_rng(0).standard_normal(count).astype(TYPES[before])
    known = x.astype(np.float32).astype(TYPES[after]).view(np.uint8)
    assert useless_waits(CastLaunch(count, before, after), x, known.nbytes, known) == []


@pytest.mark.fast
@pytest.mark.parametrize(("count", "blocks"), [(32, 1), (160, 1), (16384, 1), (16385, 2), (10**7, 40)])
def test_cast_blocks(count: int, blocks: int) -> None:
    assert cast_work(chip(), count, "float32", "float16", "Cast").blocks == blocks


@pytest.mark.parametrize("pair", [("float16", "float16"), ("float32", "int8")])
def test_cast_refuses(pair: tuple[str, str]) -> None:
    with pytest.raises(SimError, match="it converts from"):
        cast_work(chip(), 4, *pair, "Cast")
