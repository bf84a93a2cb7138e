"""ReduceSum: exact where the sums are exact, within the bound of fp32 addition elsewhere, in both modes."""

from __future__ import annotations

from collections.abc import Collection

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.task import Task
from ascend_sim.errors import SimError
from ascend_sim.isa.sync import Scalar
from ascend_sim.isa.vector.conversion import VectorCast
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.vector.common import TaskWords, work_task
from ascend_sim.ops.kernels.vector.reduce_sum import reduce_sum_work
from tests.support.ops.vector_runs import both_modes, chip, useless_waits
from tests.support.sampling import part_of_cases, sampled

TYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float32": np.dtype(np.float32)}
LARGE = [(3, 2, 20_000), (1, 1, 40_001), (70, 3, 37), (5, 90, 300), (33, 50, 1), (2, 3000, 1), (3000, 5, 1), (1, 700, 2)]


class ReduceSumLaunch:
    def __init__(self, shape: tuple[int, int, int], dtype: str) -> None:
        self.shape, self.dtype = shape, dtype

    def __call__(self, on: ChipSpec, source: Allocation, target: Allocation, disarm: Collection[str]) -> Task:
        work = reduce_sum_work(on, self.shape, self.dtype, "ReduceSum")
        return work_task(on, TaskWords("ReduceSum", "ReduceSum", disarm), work, [source, target])


def check(shape: tuple[int, int, int], dtype: str, seed: int = 0) -> None:
    """Small integers: every partial sum is exact in fp32, so only the last rounding is left, and it must happen once."""
    x = np.random.default_rng(seed).integers(-8, 9, shape).astype(TYPES[dtype])
    expected = x.astype(np.int64).sum(axis=(0, 2)).astype(np.float32).astype(TYPES[dtype])
    got = both_modes(ReduceSumLaunch(shape, dtype), x, expected.nbytes).view(TYPES[dtype])
    np.testing.assert_array_equal(got.astype(np.float32), expected.astype(np.float32))


@sampled(8, 30)
@given(st.tuples(st.integers(1, 9), st.integers(1, 90), st.integers(1, 60)), st.sampled_from(sorted(TYPES)), st.integers(0, 9))
def test_exact_sums(shape: tuple[int, int, int], dtype: str, seed: int) -> None:
    check(shape, dtype, seed)


@part_of_cases(4)
@pytest.mark.fast
@pytest.mark.parametrize("shape", LARGE)
@pytest.mark.parametrize("dtype", sorted(TYPES))
def test_more_than_one_tile(shape: tuple[int, int, int], dtype: str) -> None:
    check(shape, dtype)


def test_sums_of_many_channels_with_few_images_have_room_of_their_own() -> None:
    """Two images of a channel take a whole block: more than a number for each row of a tile."""
    check((5, 20_000, 4), "float16")


@part_of_cases(4)
@pytest.mark.parametrize("shape", LARGE)
@pytest.mark.parametrize("dtype", sorted(TYPES))
def test_sums_are_fp32(shape: tuple[int, int, int], dtype: str) -> None:
    """Against float64: rounding of a fp32 sum in any order, 2 sqrt(K) 2^-24 rms-wise, and half an ULP of the result."""
    x = np.random.default_rng(1).standard_normal(shape).astype(TYPES[dtype])
    wide = x.astype(np.float64)
    exact, squares = wide.sum(axis=(0, 2)), (wide**2).sum(axis=(0, 2))
    got = both_modes(ReduceSumLaunch(shape, dtype), x, shape[1] * x.itemsize).view(TYPES[dtype]).astype(np.float64)
    terms = shape[0] * shape[2]
    step = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}[dtype]
    bound = step * np.abs(exact) + 4 * 2.0**-24 * np.sqrt(terms) * (np.abs(exact) + np.sqrt(squares)) + 2.0**-25
    assert (np.abs(got - exact) <= bound).all()


@pytest.mark.fast
def test_fp16_sums_do_not_overflow_on_the_way() -> None:
    x = np.full((2, 1, 64), 60000, np.float16)
    x[1] = -60000
    got = both_modes(ReduceSumLaunch((2, 1, 64), "float16"), x, 2).view(np.float16)
    assert got[0] == 0


@part_of_cases(3)
@pytest.mark.parametrize(
    ("shape", "dtype"), [((400, 40, 300), "float16"), ((400, 40, 300), "float32"), ((9000, 320, 1), "float32")]
)
def test_waits_of_the_input_matter(shape: tuple[int, int, int], dtype: str) -> None:
    x = np.random.default_rng(0).integers(-8, 9, shape).astype(TYPES[dtype])
    known = x.astype(np.int64).sum(axis=(0, 2)).astype(np.float32).astype(TYPES[dtype]).view(np.uint8)
    assert useless_waits(ReduceSumLaunch(shape, dtype), x, known.nbytes, known) == []


def test_waits_of_the_output_matter() -> None:
    # More groups of channels in a block than the two output buffers.
    shape = (1, 160, 10_000)
    x = np.random.default_rng(0).integers(-8, 9, shape).astype(np.float32)
    known = x.sum(axis=(0, 2), dtype=np.float64).astype(np.float32).view(np.uint8)
    assert useless_waits(ReduceSumLaunch(shape, "float32"), x, known.nbytes, known) == []


@pytest.mark.parametrize(
    ("shape", "blocks"),
    [
        ((32, 64, 3025), 32), ((32, 192, 729), 48), ((32, 256, 169), 43), ((32, 384, 169), 48),
        ((32, 1000, 1), 42), ((32, 4096, 1), 47),
    ],
)  # fmt: skip
def test_published_block_counts(shape: tuple[int, int, int], blocks: int) -> None:
    """AlexNet on a 910B2 (Ascend/msinsight test data)."""
    assert reduce_sum_work(load_chip("ascend910b2"), shape, "float32", "ReduceSum").blocks == blocks


@pytest.mark.parametrize(("shape", "repeats"), [((1, 1, 6400), 100), ((2, 1, 100), 2 * 2)])
def test_every_repeat_of_a_row_reduction_is_issued(shape: tuple[int, int, int], repeats: int) -> None:
    """A repeat takes 64 fp32 elements of one row; the scalar unit issues each, for as long as it issues an instruction."""
    space = Allocation(0, 10**6, "x", None)
    on = chip()
    (program,) = ReduceSumLaunch(shape, "float32")(on, space, space, ()).build(0)
    issued = [row.instruction.cycles for row in program if isinstance(row.instruction, Scalar)]
    assert issued == [repeats * on.scalar.issue_cycles["AIV"]]


def test_a_sum_is_not_narrowed_where_it_stands() -> None:
    """The 16-bit result and the fp32 total that it is cast from share no bytes of UB, and nothing else is narrowed."""
    space = Allocation(0, 10**6, "x", None)
    (program,) = ReduceSumLaunch((3, 2, 20_000), "float16")(chip(), space, space, ()).build(0)
    (row,) = (row for row in program if isinstance(row.instruction, VectorCast) and row.instruction.target == "float16")
    assert abs(row.dst - row.src0) >= 2 * 4


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(SimError, match="it sums float16, bfloat16, float32"):
        reduce_sum_work(chip(), (1, 1, 1), "int32", "ReduceSum")
