"""Element-wise vector instructions against Python's own numbers, one element at a time, and against torch."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.memory import Memory, ValueModel
from ascend_sim.isa.vector import BINARY, UNARY, WITH_SCALAR, Mask, VectorBinary, VectorMulAdd, VectorScalar, VectorUnary
from ascend_sim.memory.local import LocalMemory
from ascend_sim.numerics import reference
from tests.support.isa.workbench import CHIP, Workbench
from tests.support.sampling import sampled

FLOATS: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
INTEGERS: dict[str, Any] = {"int16": np.int16, "uint16": np.uint16, "int32": np.int32, "uint32": np.uint32}
TYPES = {**FLOATS, **INTEGERS}


def rounded(value: Fraction | float, dtype: str) -> float:
    """An exact number in a float format, by the scalar truth of the number formats."""
    if isinstance(value, Fraction):  # the double nearest to it that remembers inexactness in its last bit
        nearest = float(value)
        if math.isfinite(nearest) and Fraction(nearest) != value:
            (bits,) = struct.unpack("<q", struct.pack("<d", nearest))
            bits = (bits - (abs(Fraction(nearest)) > abs(value))) | 1
            (nearest,) = struct.unpack("<d", struct.pack("<q", bits))
        value = nearest
    return reference.round_value(value, dtype, "rint")


def wrapped(value: int, dtype: str) -> int:
    """An integer as the last bits of it are read in a format."""
    bits = 8 * np.dtype(INTEGERS[dtype]).itemsize
    value %= 1 << bits
    return value - (1 << bits) if dtype[0] == "i" and value >> (bits - 1) else value


EXACT = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "max": max, "min": min, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
    "adds": lambda a, b: a + b, "muls": lambda a, b: a * b, "maxs": max, "mins": min, "abs": abs, "not": lambda a: ~a,
    "relu": lambda a: max(a, 0 * a),
    "shift_left": lambda a, b: a << b, "shift_right": lambda a, b: a >> b,
    "shift_right_round": lambda a, b: a + (1 << b >> 1) >> b,
}  # fmt: skip


def some(dtype: str, count: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    if dtype in INTEGERS:
        limits = np.iinfo(INTEGERS[dtype])
        return rng.integers(limits.min, limits.max, count, INTEGERS[dtype], endpoint=True)
    values = rng.standard_normal(count) * np.exp2(rng.integers(-6, 6, count))
    return np.where(values == 0, 1, values).astype(FLOATS[dtype])


def exactly(operation: str, dtype: str, *operands: Any) -> Any:
    if operation.endswith("_relu"):  # of the result, an integer's after it has wrapped around
        return max(exactly(operation.removesuffix("_relu"), dtype, *operands), 0)
    if dtype in INTEGERS:
        return wrapped(EXACT[operation](*map(int, operands)), dtype)
    return rounded(EXACT[operation](*(Fraction(float(x)) for x in operands)), dtype)


def formats(operation: str) -> list[str]:
    """All formats that some chip has the operation for."""
    chips = map(load_chip, ("ascend910b3", "ascend950pr_9589"))
    found = (chip.vector.ops[operation].cycles_per_repeat for chip in chips if operation in chip.vector.ops)
    return sorted({dtype for dtypes in found for dtype in dtypes})


BINARY_CASES = [(operation, dtype) for operation in BINARY for dtype in formats(operation)]


@pytest.mark.parametrize(("operation", "dtype"), BINARY_CASES)
def test_two_sources_are_exact_and_round_once(operation: str, dtype: str) -> None:
    rng = np.random.default_rng(sorted(BINARY).index(operation))
    left, right = some(dtype, 200, rng), some(dtype, 200, rng)
    bench = Workbench()
    bench.put("UB", 0, left)
    bench.put("UB", 1024, right)
    bench.do(VectorBinary(operation, dtype, 200), 2048, 0, 1024)
    wanted = [exactly(operation, dtype, a, b) for a, b in zip(left, right, strict=True)]
    assert bench.get("UB", 2048, TYPES[dtype], 200).astype(np.float64).tolist() == wanted


SHIFTS = ("shift_left", "shift_right", "shift_right_round")
SCALARS = ("adds", "muls", "maxs", "mins", *SHIFTS)
SCALAR_CASES = [(operation, dtype) for operation in SCALARS for dtype in formats(operation)]


@pytest.mark.parametrize(("operation", "dtype"), SCALAR_CASES)
def test_a_scalar_is_a_number_of_the_format(operation: str, dtype: str) -> None:
    values = some(dtype, 200, np.random.default_rng(5))
    scalar = 3 if dtype in INTEGERS else 1.1
    held = TYPES[dtype](scalar)
    bench = Workbench()
    bench.put("UB", 0, values)
    bench.do(VectorScalar(operation, dtype, 200, scalar=scalar), 2048, 0)
    assert bench.get("UB", 2048, TYPES[dtype], 200).astype(np.float64).tolist() == [
        exactly(operation, dtype, x, held) for x in values
    ]


@pytest.mark.parametrize(("operation", "dtype"), [(o, d) for o in ("abs", "relu", "not") for d in formats(o)])
def test_one_source_exactly(operation: str, dtype: str) -> None:
    values = some(dtype, 200, np.random.default_rng(6))
    if dtype in INTEGERS:
        values[0] = np.iinfo(values.dtype).min
    bench = Workbench()
    bench.put("UB", 0, values)
    bench.do(VectorUnary(operation, dtype, 200), 2048, 0)
    wanted = [exactly(operation, dtype, x) for x in values]
    assert bench.get("UB", 2048, TYPES[dtype], 200).astype(np.float64).tolist() == wanted


FUNCTIONS = {
    "exp": math.exp, "ln": math.log, "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x), "reciprocal": lambda x: 1 / x,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("operation", FUNCTIONS)
def test_functions_are_rounded_to_the_format_once(operation: str, dtype: str) -> None:
    """Against the C library's doubles, rounded by the scalar truth of the formats."""
    values = np.abs(some(dtype, 200, np.random.default_rng(7)))
    values = np.where(values > 8, values / 64, values).astype(FLOATS[dtype])
    bench = Workbench()
    bench.put("UB", 0, values)
    bench.do(VectorUnary(operation, dtype, 200), 2048, 0)
    wanted = [rounded(FUNCTIONS[operation](float(x)), dtype) for x in values]
    assert bench.get("UB", 2048, FLOATS[dtype], 200).astype(np.float64).tolist() == wanted


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_axpy_and_leaky_relu_round_product_and_sum(dtype: str) -> None:
    rng = np.random.default_rng(8)
    values, total = some(dtype, 100, rng), some(dtype, 100, rng)
    factor = FLOATS[dtype](0.3)
    bench = Workbench()
    bench.put("UB", 0, values)
    bench.put("UB", 2048, total)
    bench.do(VectorScalar("axpy", dtype, 100, scalar=0.3), 2048, 0)
    bench.do(VectorScalar("leaky_relu", dtype, 100, scalar=0.3), 4096, 0)
    products = [rounded(Fraction(float(x)) * Fraction(float(factor)), dtype) for x in values]
    sums = [rounded(Fraction(p) + Fraction(float(t)), dtype) for p, t in zip(products, total, strict=True)]
    assert bench.get("UB", 2048, FLOATS[dtype], 100).astype(np.float64).tolist() == sums
    leaky = [p if x < 0 else float(x) for p, x in zip(products, values, strict=True)]
    assert bench.get("UB", 4096, FLOATS[dtype], 100).astype(np.float64).tolist() == leaky


def test_the_same_as_torch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(9)
    left, right = (rng.standard_normal(300).astype(np.float32) for _ in range(2))
    a, b = torch.from_numpy(left), torch.from_numpy(right)
    names = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "max": "maximum", "min": "minimum"}
    for dtype, kind in (("float32", torch.float32), ("float16", torch.float16), ("bfloat16", torch.bfloat16)):
        bench = Workbench()
        bench.put("UB", 0, left.astype(FLOATS[dtype]))
        bench.put("UB", 2048, right.astype(FLOATS[dtype]))
        for operation, name in names.items():
            bench.do(VectorBinary(operation, dtype, 300), 4096, 0, 2048)
            wanted = getattr(torch, name)(a.to(kind), b.to(kind)).float().numpy()
            np.testing.assert_array_equal(bench.get("UB", 4096, FLOATS[dtype], 300).astype(np.float32), wanted)


def test_overflow_and_nan() -> None:
    bench = Workbench()
    bench.put("UB", 0, np.float16([65504, -65504, np.nan, 0, -1]))
    bench.put("UB", 32, np.float16([65504, -65504, 1, 0, 0]))
    bench.do(VectorBinary("add", "float16", 5), 64, 0, 32)
    np.testing.assert_array_equal(bench.get("UB", 64, np.float16, 5), np.float16([np.inf, -np.inf, np.nan, 0, -1]))
    bench.do(VectorBinary("max", "float16", 5), 64, 0, 32)
    np.testing.assert_array_equal(bench.get("UB", 64, np.float16, 5), np.float16([65504, -65504, np.nan, 0, 0]))
    bench.do(VectorBinary("min", "float16", 5), 64, 0, 32)
    np.testing.assert_array_equal(bench.get("UB", 64, np.float16, 5), np.float16([65504, -65504, np.nan, 0, -1]))
    bench.do(VectorUnary("relu", "float16", 5), 64, 0)
    np.testing.assert_array_equal(bench.get("UB", 64, np.float16, 5), np.float16([65504, 0, np.nan, 0, 0]))
    bench.do(VectorUnary("reciprocal", "float16", 5), 64, 0)
    np.testing.assert_array_equal(bench.get("UB", 64, np.float16, 4)[2:], np.float16([np.nan, np.inf]))
    bench.do(VectorUnary("ln", "float16", 5), 64, 0)
    np.testing.assert_array_equal(bench.get("UB", 64, np.float16, 5)[2:], np.float16([np.nan, -np.inf, np.nan]))


def test_what_saturates_stays_finite() -> None:
    """The 910 has no inf: overflow is the largest number, NaN is 0."""
    chip = load_chip("ascend910a")
    memory = Memory(LocalMemory({"UB": 256}), [], ValueModel.of(chip))
    memory.array("UB", 0, (3,), np.float16)[...] = [60000, -60000, 0]
    with np.errstate(all="ignore"):
        assert VectorBinary("add", "float16", 3).read(memory, 64, 0, 0).tolist() == [65504, -65504, 0]
        assert VectorUnary("exp", "float16", 3).read(memory, 64, 0, 0).tolist() == [65504, 0, 1]
        assert VectorUnary("reciprocal", "float16", 3).read(memory, 64, 0, 0).tolist()[2] == 65504


# -- rows, strides, masks ----------------------------------------------------------------------------------------------


@sampled(40, 150)
@given(data=st.data())
def test_rows_strides_and_masks(data: st.DataObject) -> None:
    """Element by element: what the mask selects is the sum of the elements in its place, all else stays as it was."""
    dtype = data.draw(st.sampled_from(["float16", "float32", "int32"]))
    held = np.dtype(TYPES[dtype])
    count, rows = data.draw(st.integers(1, 200)), data.draw(st.integers(1, 5))
    row_bytes = count * held.itemsize
    gap = st.integers(0, 3)
    dst_stride = row_bytes + held.itemsize * data.draw(gap)
    strides = [data.draw(st.sampled_from([0, row_bytes + held.itemsize * data.draw(gap)])) for _ in range(2)]
    period = 256 // held.itemsize
    bits = data.draw(st.none() | st.integers(1, (1 << period) - 1))
    bench = Workbench(data.draw(st.integers(0, 9)))
    bench.put("UB", 0, some(dtype, 4096 // held.itemsize, np.random.default_rng(1)))
    places = {"dst": 4096, "src0": 0, "src1": 64}
    before = bench.memory.buffers["UB"].copy().view(held)
    mask = None if bits is None else Mask(bits, period)
    instruction = VectorBinary("max", dtype, count, rows, dst_stride, strides[0], mask, (), strides[1])
    wanted = before.copy()
    for row in range(rows):
        for i in range(count):
            if bits is None or bits >> (i % period) & 1:
                a, b = ((places[f"src{n}"] + row * strides[n]) // held.itemsize + i for n in (0, 1))
                wanted[(4096 + row * dst_stride) // held.itemsize + i] = max(before[a], before[b])
    bench.do(instruction, 4096, 0, 64)
    np.testing.assert_array_equal(
        bench.memory.buffers["UB"].view(held).view(f"u{held.itemsize}"), wanted.view(f"u{held.itemsize}")
    )
    covered = {
        region.offset + plane * region.plane_stride + row * region.row_stride + byte
        for region in instruction.writes()
        for plane in range(region.planes)
        for row in range(region.rows)
        for byte in range(region.row_bytes)
    }
    changed = set(np.flatnonzero(wanted.view(np.uint8) != before.view(np.uint8)) - 4096)
    assert changed <= covered
    assert len(covered) == held.itemsize * rows * sum(bits is None or bits >> (i % period) & 1 for i in range(count))


# -- refusals and costs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chip", "instruction", "line"),
    [
        ("ascend910b3", VectorBinary("add", "bfloat16", 8),
         "vector_binary: ascend910b3 (dav-2201) has no add of bfloat16; it has "),
        ("ascend910b3", VectorUnary("exp", "int32", 8), "has no exp of int32; it has float16, float32 ("),
        ("ascend910b3", VectorBinary("and", "int32", 8), "has no and of int32; it has int16, uint16 ("),
        ("ascend950pr_9589", VectorUnary("exp", "bfloat16", 8), "has no exp of bfloat16; it has float16, float32 ("),
        ("ascend910a", VectorScalar("maxs", "float16", 8), "vector_scalar: ascend910a (dav-1001) has no maxs; it has add, "),
        ("ascend910a", VectorScalar("adds", "int32", 8), "has no adds of int32; it has float16, float32 ("),
        ("ascend310p3", VectorUnary("relu", "bfloat16", 8), "has no relu of bfloat16; it has float16, float32, int32 ("),
    ],
)  # fmt: skip
def test_what_a_chip_lacks_is_told_with_its_source(chip: str, instruction: Any, line: str) -> None:
    with pytest.raises(SimError) as refusal:
        instruction.pipe(load_chip(chip))
    assert line in str(refusal.value)
    assert "asc-devkit" in str(refusal.value) and "chip file, vector.ops" in str(refusal.value)


@pytest.mark.parametrize("make", [VectorUnary, VectorBinary, VectorScalar])
def test_an_operation_that_there_is_not(make: Any) -> None:
    with pytest.raises(SimError, match="no vector operation 'tanh' here; there are "):
        make("tanh", "float32", 8)


def test_rows_that_would_lie_over_each_other() -> None:
    with pytest.raises(SimError, match="rows of 64 float32 elements would be written 32 bytes apart"):
        VectorUnary("abs", "float32", 64, 2, 32, 256).pipe(CHIP)


@pytest.mark.parametrize("scalar", [0.5, 1 << 31, -(1 << 31) - 1])
def test_a_scalar_that_an_integer_format_lacks(scalar: float) -> None:
    with pytest.raises(SimError, match=r"scalar .* does not fit int32; allowed are whole numbers from -2147483648 to "):
        VectorScalar("adds", "int32", 8, scalar=scalar).pipe(CHIP)


def test_costs_on_paper() -> None:
    """A head of 23 (22.5), exp's is 31; a repeat is 256 bytes; rows that lie apart take an instruction a column of repeats."""
    cost = VectorUnary("exp", "float32", 128).cost(CHIP)
    assert (cost.head_first, cost.work) == (31, 2 * 2)
    assert VectorUnary("rsqrt", "float16", 256).cost(CHIP).work == 2
    assert VectorScalar("adds", "float32", 100).cost(CHIP).work == 2 + 16  # a broken repeat, count mode
    assert VectorUnary("abs", "float32", 40, 10, 512, 512).cost(CHIP).work == 10  # ten repeats of one instruction
    assert VectorUnary("abs", "float32", 128, 10, 1024, 1024).cost(CHIP).work == 20 + 23  # two columns of repeats
    assert VectorUnary("abs", "float32", 640, 2, 4096, 4096).cost(CHIP).work == 20 + 23  # two rows of ten
    assert VectorUnary("abs", "float32", 8, 300, 64, 64).cost(CHIP).work == 300 + 23  # more than 255 repeats
    masked = VectorUnary("abs", "float32", 128, mask=Mask(1, 64))
    assert masked.cost(CHIP).work == 2  # the whole repeat, however few elements take part
    c950 = load_chip("ascend950pr_9589")
    assert VectorUnary("abs", "float32", 64, 10, 512, 512).cost(c950).work == 10 * (1 + 5)  # one loop over the rows


def test_every_operation_of_the_tables_has_a_cost_somewhere() -> None:
    of_one = {"add_relu", "sub_relu", *SHIFTS}
    for operation in (*UNARY, *BINARY, *WITH_SCALAR):
        assert operation in load_chip("ascend910b3").vector.ops
        assert (operation in load_chip("ascend950pr_9589").vector.ops) != (operation in of_one)


MUL_ADDS = {
    "mul_add": lambda x, y, stands: x * y + stands,
    "fused_mul_add": lambda x, y, stands: x * stands + y,
    "fused_mul_add_relu": lambda x, y, stands: max(x * stands + y, 0),
}


@pytest.mark.parametrize("operation", MUL_ADDS)
def test_products_and_what_stands_in_dst(operation: str) -> None:
    """Small whole numbers, so that no rounding shows."""
    rng = np.random.default_rng(3)
    x, y, stands = (rng.integers(-9, 10, 70).astype(np.float16) for _ in range(3))
    bench = Workbench()
    for at, values in ((0, x), (512, y), (1024, stands)):
        bench.put("UB", at, values)
    bench.do(VectorMulAdd(operation, "float16", 70), 1024, 0, 512)
    wanted = [MUL_ADDS[operation](*map(int, one)) for one in zip(x, y, stands, strict=True)]
    assert bench.get("UB", 1024, np.float16, 70).astype(int).tolist() == wanted


def test_a_product_without_a_rule_is_refused() -> None:
    with pytest.raises(SimError, match="no vector operation 'add' here; there are mul_add, fused_mul_add"):
        VectorMulAdd("add", "float16", 8)


@pytest.mark.parametrize("mask", [None, Mask(0b1011, 64)])
@pytest.mark.parametrize("apart", [0, 256])
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "max", "min", "add_relu", "sub_relu"])
def test_a_running_result_is_that_of_one_repeat_after_the_other(operation: str, apart: int, mask: Mask | None) -> None:
    """src1 lies at dst with a stride of 0: each row is an instruction of its own here."""
    count = 3 if mask is None else 64
    whole = VectorBinary(operation, "float32", count, 5, apart, 256, mask, (), 0)
    assert whole.pipe(CHIP) == "V"
    one = VectorBinary(operation, "float32", count, 1, 0, 0, mask)
    rng = np.random.default_rng(5)
    start, x = rng.standard_normal((5, 64)).astype(np.float32), rng.standard_normal((5, 64)).astype(np.float32)
    found = []
    for at_once in (True, False):
        memory = Memory(LocalMemory({"UB": 16384}), [], ValueModel.of(CHIP))
        memory.array("UB", 0, (5, 64), "float32")[...] = start
        memory.array("UB", 8192, (5, 64), "float32")[...] = x
        if at_once:
            whole.commit(memory, 0, whole.read(memory, 0, 8192, 0))
        else:
            for row in range(5):
                one.commit(memory, apart * row, one.read(memory, apart * row, 8192 + 256 * row, 0))
        found.append(memory.array("UB", 0, (5, 64), "float32").copy())
    np.testing.assert_array_equal(*found)


def test_rows_in_one_place_are_those_of_a_running_result_alone() -> None:
    for operation, dtype, stride in (("div", "float32", 0), ("add", "int16", 0), ("add", "float32", 256)):
        with pytest.raises(SimError, match="0 bytes apart, over each other"):
            VectorBinary(operation, dtype, 64, 4, 0, 256, None, (), stride).pipe(CHIP)
