"""The vector methods of the builder: values against numpy through the rows that they write, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascend_sim as asim
from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.memory import Memory, ValueModel
from ascend_sim.isa.vector.arithmetic import immediate
from ascend_sim.isa.vector.named import named
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.local import LocalMemory
from tests.support.sampling import sampled

CHIP = load_chip("ascend910b3")
DTYPES = {
    "float16": np.float16, "float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "int32": np.int32, "int16": np.int16,
    "uint16": np.uint16, "uint32": np.uint32, "uint8": np.uint8,
}  # fmt: skip


class VectorBench:
    """A builder for one vector core and the memory that its rows work on, one after the other."""

    def __init__(self, chip: Any = CHIP) -> None:
        kind = "AI_CORE" if chip.cores.coupled else "AIV"
        self.k = KernelBuilder(InstructionTable(chip), 0, kind, [])
        self.memory = Memory(LocalMemory({"UB": chip.buffers["UB"]}), [], ValueModel.of(chip))

    def view(self, tensor: LocalTensor) -> np.ndarray[Any, Any]:
        held = np.dtype(DTYPES[tensor.dtype])
        strides = (tensor.row_stride, held.itemsize) if len(tensor.shape) == 2 else None
        return self.memory.array("UB", tensor.address, tensor.shape, held, strides)

    def holding(self, values: Any, dtype: str) -> LocalTensor:
        array = np.asarray(values).astype(DTYPES[dtype])
        tensor = self.k.local_tensor(array.shape, dtype, "a tensor")
        self.view(tensor)[...] = array
        return tensor

    def run(self) -> int:
        """Returns the number of instructions."""
        program = self.k.finish()
        with np.errstate(all="ignore"):
            for row in program:
                pending = row.instruction.read(self.memory, row.dst, row.src0, row.src1)
                row.instruction.commit(self.memory, row.dst, pending)
        return len(program)


RNG = np.random.default_rng(4)
A, B = RNG.uniform(0.5, 4, (6, 24)).astype(np.float32), RNG.uniform(-4, 4, (6, 24)).astype(np.float32)
HELD = RNG.uniform(-4, 4, (6, 24)).astype(np.float32)
"""Numbers that the target holds before an instruction."""

TWO: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
    "mul_add": lambda x, y: x * y + HELD, "fused_mul_add": lambda x, y: x * HELD + y,
    "fused_mul_add_relu": lambda x, y: np.maximum(x * HELD + y, 0), "add_relu": lambda x, y: np.maximum(x + y, 0),
    "sub_relu": lambda x, y: np.maximum(x - y, 0),
}  # fmt: skip
ONE: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs, "exp": np.exp, "ln": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x, "relu": lambda x: np.maximum(x, 0),
}  # fmt: skip
SCALAR: dict[str, Callable[[Any], Any]] = {
    "adds": lambda x: x + 1.5, "muls": lambda x: x * 1.5, "maxs": lambda x: np.maximum(x, 1.5),
    "mins": lambda x: np.minimum(x, 1.5), "leaky_relu": lambda x: np.where(x > 0, x, 1.5 * x), "axpy": lambda x: HELD + 1.5 * x,
}  # fmt: skip


@pytest.mark.parametrize("name", [*TWO, *ONE, *SCALAR])
def test_arithmetic(name: str) -> None:
    v = VectorBench()
    a, b = v.holding(A, "float32"), v.holding(B, "float32")
    dst = v.holding(HELD, "float32")
    if name in TWO:
        getattr(v.k, name)(dst, b, a)
        wanted = TWO[name](B.astype(np.float64), A)
    elif name in ONE:
        getattr(v.k, name)(dst, a)
        wanted = ONE[name](A.astype(np.float64))
    else:
        getattr(v.k, name)(dst, b, 1.5)
        wanted = SCALAR[name](B.astype(np.float64))
    assert v.run() == 1
    np.testing.assert_allclose(v.view(dst), wanted, rtol=2**-22, atol=2**-22)


def test_bits() -> None:
    v = VectorBench()
    left, right = v.holding([0b1100, -1, 7], "int16"), v.holding([0b1010, 5, 8], "int16")
    results = [v.k.local_tensor(3, "int16", "result") for _ in range(3)]
    v.k.bitwise_and(results[0], left, right)
    v.k.bitwise_or(results[1], left, right)
    v.k.bitwise_not(results[2], left)
    v.run()
    assert [v.view(result).tolist() for result in results] == [[8, 5, 0], [14, -1, 15], [-13, 0, -8]]


def test_reductions_and_broadcasts() -> None:
    v = VectorBench()
    a = v.holding(A, "float32")
    sums, most, least = (v.k.local_tensor(6, "float32", "result") for _ in range(3))
    wide = v.k.local_tensor((6, 24), "float32", "wide")
    tall = v.k.local_tensor((6, 24), "float32", "tall")
    blocks = v.k.local_tensor(18, "float32", "blocks")
    v.k.reduce_sum(sums, a)
    v.k.reduce_max(most, a)
    v.k.reduce_min(least, a)
    v.k.broadcast_column(wide, most)
    v.k.broadcast_row(tall, a[3])
    v.k.block_reduce_max(blocks, a)
    v.run()
    np.testing.assert_allclose(v.view(sums), A.sum(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(v.view(most), A.max(axis=1))
    np.testing.assert_array_equal(v.view(least), A.min(axis=1))
    np.testing.assert_array_equal(v.view(wide), np.repeat(A.max(axis=1)[:, None], 24, axis=1))
    np.testing.assert_array_equal(v.view(tall), np.tile(A[3], (6, 1)))
    np.testing.assert_array_equal(v.view(blocks), A.reshape(18, 8).max(axis=1))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_sums_of_neighbours(dtype: str) -> None:
    v = VectorBench()
    a, sums = v.holding(A, dtype), v.k.local_tensor((6, 12), dtype, "sums")
    packed, halves = v.holding(A.ravel(), dtype), v.k.local_tensor(72, dtype, "halves")
    v.k.vector("pair_reduce_sum", halves, packed)
    if a.packed and sums.packed:
        v.k.vector("pair_reduce_sum", sums, a)
    else:
        with pytest.raises(SimError, match="gaps between the rows"):
            v.k.vector("pair_reduce_sum", sums, a)
    v.run()
    pairs = A.astype(DTYPES[dtype]).astype(np.float64).reshape(72, 2).sum(axis=1)
    np.testing.assert_array_equal(v.view(halves), pairs.astype(DTYPES[dtype]))


def test_movement_selection_and_casts() -> None:
    v = VectorBench()
    values = RNG.permutation(128).astype(np.float32) - 64
    x, y = v.holding(values, "float32"), v.holding(-values, "float32")
    bits = v.k.local_tensor(16, "uint8", "bits")
    larger, positive, taken = (v.k.local_tensor(128, "float32", "result") for _ in range(3))
    offsets = v.holding(4 * np.arange(128)[::-1], "uint32")
    half, whole = v.k.local_tensor(128, "float16", "half"), v.k.local_tensor(128, "int32", "whole")
    turned = v.k.local_tensor((16, 8), "float32", "turned")
    v.k.compare(bits, "gt", x, y)
    v.k.select(larger, bits, x, y)
    v.k.compare(bits, "ge", x, 0.0)
    v.k.select(positive, bits, x, -1.0)
    v.k.gather(taken, x, offsets)
    v.k.cast(half, x)
    v.k.cast(whole, x, "floor")
    v.k.transpose(turned, x.reshape(8, 16))
    v.run()
    np.testing.assert_array_equal(v.view(larger), np.maximum(values, -values))
    np.testing.assert_array_equal(v.view(positive), np.where(values >= 0, values, -1))
    np.testing.assert_array_equal(v.view(taken), values[::-1])
    np.testing.assert_array_equal(v.view(half), values.astype(np.float16))
    np.testing.assert_array_equal(v.view(whole), values.astype(np.int32))
    np.testing.assert_array_equal(v.view(turned), values.reshape(8, 16).T)


@sampled(20, 80)
@given(data=st.data())
def test_pieces_are_numpys_pieces(data: st.DataObject) -> None:
    """Element-wise work on pieces of larger tensors, a row for all rows, and a mask: the same as numpy's views."""
    dtype = data.draw(st.sampled_from(["float16", "float32"]))
    block, period = 32 // np.dtype(dtype).itemsize, 256 // np.dtype(dtype).itemsize
    rows, columns = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 80))
    v = VectorBench()
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    whole = [v.holding(rng.standard_normal((12, 7 * block + 80)), dtype) for _ in range(3)]
    pieces = []
    for tensor in whole:
        step, left = data.draw(st.integers(1, 2)), block * data.draw(st.integers(0, 7))
        pieces.append(tensor[::step][:rows, left : left + columns])
    dst, left, right = pieces
    if data.draw(st.booleans()):
        right = right[0]
    bits = data.draw(st.none() | st.integers(1, (1 << period) - 1))
    before = v.view(dst).copy()
    wanted = np.add(v.view(left), v.view(right))
    if bits is not None:
        chosen = np.array([bits >> (i % period) & 1 for i in range(columns)], bool)
        wanted = np.where(chosen, wanted, before)
    beyond = v.view(whole[0]).copy()
    v.k.add(dst, left, right, mask=bits)
    assert v.run() == 1
    np.testing.assert_array_equal(v.view(dst), wanted)
    v.view(dst)[...] = before
    np.testing.assert_array_equal(v.view(whole[0]), beyond)


def test_tensors_without_gaps_are_one_long_row() -> None:
    v = VectorBench()
    packed, padded = v.k.local_tensor((4, 16), "float32", "x"), v.k.local_tensor((4, 20), "float32", "y")
    assert (packed.row_stride, padded.row_stride) == (64, 96)
    v.k.abs(packed, packed)
    v.k.abs(padded, padded)
    one, several = v.k.table.instructions
    assert (one.count, one.rows) == (64, 1) and (several.count, several.rows) == (20, 4)  # type: ignore[attr-defined]


def softmax(k: KernelBuilder, x: LocalTensor, rows: int) -> None:
    column = k.local_tensor(rows, "float32", "of each row")
    wide = k.local_tensor(x.shape, "float32", "for each element")
    k.reduce_max(column, x)
    k.broadcast_column(wide, column)
    k.sub(x, x, wide)
    k.exp(x, x)
    k.reduce_sum(column, x)
    k.broadcast_column(wide, column)
    k.div(x, x, wide)


@pytest.mark.parametrize("name", ["ascend910b3", "ascend310p3", "ascend950pr_9589"])
def test_a_row_softmax(name: str) -> None:
    v = VectorBench(load_chip(name))
    x = v.holding(B * 5, "float32")
    softmax(v.k, x, 6)
    assert v.run() == 7
    shifted = np.exp((B * 5).astype(np.float64) - (B * 5).max(axis=1, keepdims=True))
    np.testing.assert_allclose(v.view(x), shifted / shifted.sum(axis=1, keepdims=True), rtol=1e-5)


# -- what is refused ---------------------------------------------------------------------------------------------------


def t(shape: Any, dtype: str = "float32", address: int = 0, row_stride: int = 0) -> LocalTensor:
    return LocalTensor(address, (shape,) if isinstance(shape, int) else shape, dtype, row_stride)


REFUSALS: list[tuple[Callable[[KernelBuilder], object], str]] = [
    (lambda k: k.add(t(8), t(8), t(8, "float16")), "add: operands must have one format"),
    (lambda k: k.add(t((2, 8)), t((2, 8)), t((3, 8))), "add: a source must have the shape of dst, or of one of its rows"),
    (lambda k: k.exp(t(8), t(9)), "exp: a source must have the shape of dst"),
    (lambda k: k.exp(t((2, 8), row_stride=40), t((2, 8))), "rows 40 bytes apart; they must lie a multiple of 32 bytes apart"),
    (lambda k: k.reduce_max(t(3), t((2, 8))), "reduce_max: dst must have an element for each of 2 rows"),
    (lambda k: k.reduce_sum(t(2), t((2, 9))), "reduce_sum: rows 36 bytes apart; they must lie a multiple of 32 bytes apart"),
    (lambda k: k.block_reduce_sum(t(2), t(24)), "block_reduce_sum: dst must have an element for each of 3 blocks"),
    (lambda k: k.block_reduce_sum(t(4), t((2, 8), row_stride=64)), "there are gaps between the rows of"),
    (lambda k: k.broadcast_row(t((4, 8)), t(9)), "broadcast_row: src must be one row of 8 elements"),
    (lambda k: k.broadcast_column(t((4, 8)), t(5)), "broadcast_column: src must be 4 elements without gaps"),
    (lambda k: k.gather(t(8), t(8), t(8, "int32")), "gather: offsets must be 8 uint32 elements"),
    (lambda k: k.transpose(t((4, 8)), t((4, 8))), "transpose: dst must be 8 x 4"),
    (lambda k: k.compare(t(7, "uint8"), "lt", t(64), t(64)), "compare: the mask must be uint8 with at least 8 elements for 64"),
    (lambda k: k.compare(t(8, "uint8"), "lt", t(64), t(65)), "compare: left and right must have the same shape"),
    (lambda k: k.compare(t(8, "uint8"), "lt", t(65), 0.0), "compare: the mask must be uint8 with at least 9"),
    (lambda k: k.select(t(64), t(8, "uint8"), t(64), t(63)), "select: on_false must have the shape of dst"),
    (lambda k: k.select(t(64), t(8, "int16"), t(64), 0.0), "select: the mask must be uint8"),
    (lambda k: k.add(t(8), t(8), t(8), mask=1 << 64), "mask 0x10000000000000000 does not select from a repeat of 64 elements"),
    (lambda k: k.add(t(8, "bfloat16"), t(8, "bfloat16"), t(8, "bfloat16")), "ascend910b3 (dav-2201) has no add of bfloat16"),
    (lambda k: k.cast(t(8, "bfloat16"), t(8, "float16")), "does not cast float16 to bfloat16"),
    (lambda k: k.adds(t(8, "int32"), t(8, "int32"), 0.5), "scalar 0.5 does not fit int32"),
    (lambda k: k.vector("pair_reduce", t(8), t(16)), "vector: no instruction 'pair_reduce'; there are " + ", ".join(named())),
    (lambda k: k.vector("pair_reduce_sum", t(8)), "vector: pair_reduce_sum takes 1 operands besides dst, not 0"),
    (lambda k: k.vector("pair_reduce_sum", t(8), 1.0), "pair_reduce_sum: 1.0 stands where a tensor in UB is taken"),
    (lambda k: k.vector("pair_reduce_sum", t(8), t(16, "float16")), "pair_reduce_sum: operands must have one format"),
    (lambda k: k.vector("pair_reduce_sum", t(8), t(15)), "pair_reduce_sum: src must have twice the elements of dst"),
    (lambda k: k.local_tensor((1000, 1000), "float32", "x"), "x needs 4000000 bytes of UB"),
]  # fmt: skip


@pytest.mark.parametrize(("write", "line"), REFUSALS, ids=[line for _, line in REFUSALS])
def test_refused_at_once(write: Callable[[KernelBuilder], object], line: str) -> None:
    with pytest.raises(SimError) as refusal:
        write(VectorBench().k)
    assert line in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "write",
    [
        lambda k, at: k.add(t(64, address=at), t(64), t(64)),
        lambda k, at: k.add(t(64), t(64, address=at), t(64)),
        lambda k, at: k.add(t(64), t(64), t(64, address=at)),
        lambda k, at: k.exp(t(64), t(64, address=at)),
        lambda k, at: k.cast(t(64, "float16", address=at), t(64)),
        lambda k, at: k.duplicate(t(64, address=at), 1.0),
        lambda k, at: k.copy(t(64), t(64, address=at)),
        lambda k, at: k.reduce_max(t(64), t((64, 8), address=at)),
        lambda k, at: k.block_reduce_max(t(8), t(64, address=at)),
        lambda k, at: k.broadcast_column(t((2, 32), address=at), t(2)),
        lambda k, at: k.gather(t(64), t(64), t(64, "uint32", address=at)),
        lambda k, at: k.transpose(t((8, 8), address=at), t((8, 8))),
        lambda k, at: k.compare(t(32, "uint8", address=at), "lt", t(256), 0.0),
        lambda k, at: k.compare(t(32, "uint8"), "lt", t(64, address=at), 0.0),
    ],
)  # fmt: skip
def test_addresses_that_are_not_of_a_block_or_not_in_the_buffer(write: Callable[[KernelBuilder, int], object]) -> None:
    size = CHIP.buffers["UB"]
    for at, line in ((8, "must start at a multiple of 32"), (size - 8 * 32 + 240, f"of {size}"), (-32, "covers bytes -32 to")):
        k = VectorBench().k
        with pytest.raises(SimError) as refusal:
            write(k, at)
            k.finish()
        assert line in str(refusal.value)


def test_a_select_that_reads_beyond_the_buffer_or_between_blocks() -> None:
    size = CHIP.buffers["UB"]
    k = VectorBench().k
    k.select(t(64), t(8, "uint8"), t(64), t(64, address=size - 128))
    with pytest.raises(SimError, match=f"covers bytes 0 to {size + 128} of {size}"):
        k.finish()
    with pytest.raises(SimError, match="the mask or the second tensor does not start at a multiple of 32 bytes"):
        VectorBench().k.select(t(64), t(8, "uint8", 8), t(64), t(64))


@pytest.mark.parametrize("name", ["cast", "compare", "select", "broadcast_row", "gather", "vector"])
def test_what_is_no_tensor_is_told_as_such(name: str) -> None:
    k, other = VectorBench().k, 3
    write: dict[str, Callable[[Any], object]] = {
        "cast": lambda what: k.cast(t(64, "float16"), what),
        "compare": lambda what: k.compare(what, "lt", t(64), 1.0),
        "select": lambda what: k.select(t(64), what, t(64), 1.0),
        "broadcast_row": lambda what: k.broadcast_row(t((2, 64)), what),
        "gather": lambda what: k.gather(t(64), t(64), what),
        "vector": lambda what: k.vector("pair_reduce_sum", what, t(64)),
    }
    with pytest.raises(SimError, match="3 is not a tensor; a vector instruction works on tensors in UB"):
        write[name](other)


@pytest.mark.parametrize("scalar", [None, "one", 1j, [1.0]])
def test_a_scalar_operand_is_a_number(scalar: Any) -> None:
    """None is no second tensor at address 0 either."""
    k = VectorBench().k
    for write in (
        lambda: k.compare(t(8, "uint8"), "lt", t(64, address=1024), scalar),
        lambda: k.select(t(64), t(8, "uint8", 1024), t(64, address=2048), scalar),
        lambda: k.adds(t(64), t(64), scalar),
        lambda: k.duplicate(t(64), scalar),
    ):
        with pytest.raises(SimError, match=r"the scalar is .*; a number is allowed"):
            write()


def test_integers_beyond_64_bits_are_the_nearest_number_of_the_format() -> None:
    bench = VectorBench()
    for number, expected in ((2**70, 2.0**70), (-(2**2000), -np.inf)):
        bench.k.duplicate(t(8, "bfloat16"), number)
        bench.k.muls(t(8, address=64), t(8, address=64), number)
        assert immediate("float32", number, "muls") == expected
    with pytest.raises(SimError, match="does not fit int32"):
        bench.k.adds(t(8, "int32"), t(8, "int32"), 2**70)


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
@pytest.mark.parametrize("mode", ["full", "functional"])
def test_zeros_of_both_signs_are_two_instructions(engine, mode):
    @asim.kernel_function(core=("AI_CORE", "AIV"))
    def zeros(k, z, *, first, second):
        out = k.ub_queue("z", (4, 64), z.dtype, "V", "MTE3")
        with out.write() as tile:
            k.duplicate(tile[0], first)
            k.duplicate(tile[1], second)
            k.duplicate(tile[2], 1.0)
            k.muls(tile[3], tile[2], first)
            k.muls(tile[2], tile[2], second)
        with out.read() as tile:
            k.ub_to_gm(z, tile)

    for first, second in ((0.0, -0.0), (-0.0, 0.0), (np.float32(-0.0), 0.0), (-0.0, -0.0), (0, 0.0)):
        run = asim.launch(zeros, 1, asim.empty((4, 64), "float32"), first=first, second=second, engine=engine, mode=mode)
        signs = np.signbit(run.outputs["z"])
        assert signs.all(1).tolist() == [np.signbit(first), np.signbit(second), np.signbit(second), np.signbit(first)]
        assert signs.any(1).tolist() == signs.all(1).tolist()
