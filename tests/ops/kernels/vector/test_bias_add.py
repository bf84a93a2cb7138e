"""BiasAdd: one fp32 addition and one rounding for each element, in both modes, on every architecture."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.task import Task
from ascend_sim.errors import SimError
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.vector.bias_add import bias_add_work
from ascend_sim.ops.kernels.vector.common import TaskWords, work_task
from tests.support.ops.vector_runs import both_modes, execute, useless_waits
from tests.support.sampling import part_of_cases

TYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float32": np.dtype(np.float32)}
LARGE = [(2, 20, 9000), (1, 3, 40_001), (70, 9, 37), (3, 700, 1), (1, 1, 1), (5, 16, 1024)]


class BiasAddLaunch:
    """The launch; map and bias lie one behind the other in the source."""

    def __init__(self, shape: tuple[int, int, int], dtype: str) -> None:
        self.shape, self.dtype = shape, dtype
        self.start = -(-int(np.prod(shape)) * TYPES[dtype].itemsize // 512) * 512

    def __call__(self, on: ChipSpec, source: Allocation, target: Allocation, disarm: Collection[str]) -> Task:
        ends = (0, self.start, source.size)
        data = [None if source.memory is None else source.memory[a:] for a in ends[:2]]
        parts = [
            Allocation(source.base + a, b - a, name, part)
            for (a, b), name, part in zip(pairwise(ends), ("map", "bias"), data, strict=True)
        ]
        work = bias_add_work(on, *self.shape, self.dtype, "BiasAdd")
        return work_task(on, TaskWords("BiasAdd", "BiasAdd", disarm), work, [*parts, target])

    def memory(self, x: np.ndarray, bias: np.ndarray) -> np.ndarray:
        found = np.zeros(self.start + bias.nbytes, np.uint8)
        found[: x.nbytes] = x.reshape(-1).view(np.uint8)
        found[self.start :] = bias.view(np.uint8)
        return found


def operands(shape: tuple[int, int, int], dtype: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A map, a bias, and their sum by numpy."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape).astype(TYPES[dtype])
    bias = (64 * rng.standard_normal(shape[1])).astype(TYPES[dtype])
    return x, bias, (x.astype(np.float32) + bias.astype(np.float32)[:, None]).astype(TYPES[dtype])


def check(shape: tuple[int, int, int], dtype: str, seed: int = 0) -> None:
    x, bias, expected = operands(shape, dtype, seed)
    make = BiasAddLaunch(shape, dtype)
    got = both_modes(make, make.memory(x, bias), expected.nbytes)
    assert got.tobytes() == expected.tobytes()


@settings(max_examples=30, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 5), st.integers(1, 40), st.integers(1, 200)),
    dtype=st.sampled_from(sorted(TYPES)),
    seed=st.integers(0, 99),
)
def test_every_element_has_its_bias(shape: tuple[int, int, int], dtype: str, seed: int) -> None:
    check(shape, dtype, seed)


@part_of_cases(4)
@pytest.mark.parametrize("dtype", sorted(TYPES))
@pytest.mark.parametrize("shape", LARGE)
def test_large_maps(shape: tuple[int, int, int], dtype: str) -> None:
    check(shape, dtype)


@pytest.mark.parametrize("name", ["ascend910a", "ascend310p3", "ascend950pr_9589"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_other_architectures(name: str, dtype: str) -> None:
    shape = (3, 20, 50)
    x, bias, expected = operands(shape, dtype)
    make = BiasAddLaunch(shape, dtype)
    for mode in ("full", "functional"):
        got, findings, _ = execute(make, make.memory(x, bias), expected.nbytes, mode, load_chip(name))
        assert findings == [] and got.tobytes() == expected.tobytes(), mode


@part_of_cases(0, "float32")
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_every_wait_matters(dtype: str) -> None:
    """Disarming a flag changes the result or is found by the hazard check, with many images of a group or many groups.

    Each of the two shapes makes some waits redundant: whoever has waited for a tile has waited for what came before it.
    """
    useless = []
    for shape in ((480, 8, 64), (1, 8 * 48 * 3, 64)):
        x, bias, expected = operands(shape, dtype)
        make, known = BiasAddLaunch(shape, dtype), expected.reshape(-1).view(np.uint8)
        useless.append(set(useless_waits(make, make.memory(x, bias), known.nbytes, known)))
    assert useless[0] & useless[1] == set()


def test_what_it_does_not_add() -> None:
    with pytest.raises(SimError, match="dtype is float8_e4m3fn; it adds float16, bfloat16, float32"):
        bias_add_work(load_chip("ascend950pr_9589"), 1, 1, 1, "float8_e4m3fn", "BiasAdd")
    with pytest.raises(SimError, match="n is 0"):
        bias_add_work(load_chip("ascend910b3"), 0, 1, 1, "float16", "BiasAdd")
