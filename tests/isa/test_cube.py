"""Mmad and Fixpipe against plain loops: whole numbers exactly, other numbers within the rounding of fp32."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.chip import chip_names, load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.bias import LoadBias
from ascend_sim.isa.cube import Fixpipe, FixpipeNd, Mmad
from ascend_sim.isa.memory import ValueModel
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import gm_operand
from tests.support.isa.refusals import refusal
from tests.support.isa.workbench import CHIP, Workbench
from tests.support.sampling import sampled

DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "hf32": np.float32}
HF32 = CHIP.cube.hf32_mantissa_bits


@pytest.mark.parametrize("arch", ["dav-1001", "dav-2002", "dav-2201", "dav-3510"])
def test_whole_fractals_run_at_the_peak(arch: str) -> None:
    """Sides, K and rate of a fractal are read from the same file for the cycles and for the peak; also of a made-up cube."""
    chip = next(chip for chip in map(load_chip, chip_names()) if chip.identity.arch == arch)
    wide = chip.model_copy(update={"cube": chip.cube.model_copy(update={"m0": 32, "n0": 64})})
    for spec in (chip, wide):
        for dtype in spec.cube.rates:
            m, k, n = 2 * spec.cube.m0, 3 * spec.cube.rates[dtype].k0, spec.cube.n0
            cycles = Mmad(m, k, n, dtype, False).work_cycles(spec)
            assert cycles * spec.cube.macs_per_cycle(dtype) == m * k * n


def up(value: int, unit: int) -> int:
    return (value + unit - 1) // unit


def store(bench: Workbench, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], c: np.ndarray[Any, Any] | None) -> None:
    """a [m, k] as [M1][K1][16][C0], b [k, n] as [K1][N1][16 n][C0], c [m, n] as [N1][M1*16][16]; the rest is garbage."""
    (m, k), n = a.shape, b.shape[1]
    c0 = 32 // a.itemsize
    left = np.full(up(m, 16) * up(k, c0) * 16 * c0, 77, a.dtype)
    right = np.full(up(k, c0) * up(n, 16) * 16 * c0, 99, a.dtype)
    for i in range(m):
        for x in range(k):
            left[((i // 16) * up(k, c0) + x // c0) * 16 * c0 + i % 16 * c0 + x % c0] = a[i, x]
    for x in range(k):
        for j in range(n):
            right[((x // c0) * up(n, 16) + j // 16) * 16 * c0 + j % 16 * c0 + x % c0] = b[x, j]
    bench.put("L0A", 512, left)
    bench.put("L0B", 1024, right)
    if c is not None:
        rows = up(m, 16) * 16
        tile = np.zeros(up(n, 16) * rows * 16, c.dtype)
        for i in range(m):
            for j in range(n):
                tile[(j // 16) * rows * 16 + i * 16 + j % 16] = c[i, j]
        bench.put("L0C", 1024, tile)


def result(bench: Workbench, m: int, n: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    rows = up(m, 16) * 16
    tile = bench.get("L0C", 1024, dtype, up(n, 16) * rows * 16)
    return np.array([[tile[(j // 16) * rows * 16 + i * 16 + j % 16] for j in range(n)] for i in range(m)])


def rounded(value: float, bits: int) -> float:
    """A float with `bits` of mantissa behind the point, ties to even, by exact arithmetic."""
    if value == 0:
        return value
    exact = Fraction(value)
    exponent = int(np.floor(np.log2(abs(value))))
    unit = Fraction(2) ** (exponent - bits)
    return float(round(exact / unit) * unit)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_products_of_the_950_take_l0a_by_columns(dtype: str) -> None:
    """Fractals of L0A as [K1][M1], written here by hand."""
    rng, item = np.random.default_rng(0), np.dtype(DTYPES[dtype])
    c0 = 32 // item.itemsize
    a, b = rng.integers(-9, 10, (48, 2 * c0)), rng.integers(-9, 10, (2 * c0, 32))
    bench = Workbench()
    bench.memory.model = ValueModel.of(load_chip("ascend950pr_9589"))
    store(bench, a.astype(item), b.astype(item), None)
    bench.put("L0A", 512, a.reshape(3, 16, 2, c0).transpose(2, 0, 1, 3).astype(item))
    product = Mmad(48, 2 * c0, 32, dtype, False)
    left, _ = product.operands(bench.memory, 512, 1024)
    np.testing.assert_array_equal(left.reshape(48, 2 * c0).astype(np.int64), a)
    bench.do(product, 1024, 512, 1024)
    np.testing.assert_array_equal(result(bench, 48, 32), (a @ b).astype(np.float32))


@sampled(20, 80)
@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.sampled_from(sorted(DTYPES)), st.booleans(),
    st.integers(0, 1000),
)  # fmt: skip
def test_whole_numbers_exactly(m: int, k: int, n: int, dtype: str, accumulate: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, c = (rng.integers(-9, 10, shape).astype(np.int64) for shape in ((m, k), (k, n), (m, n)))
    bench = Workbench(seed)
    store(bench, a.astype(DTYPES[dtype]), b.astype(DTYPES[dtype]), c.astype(np.float32) if accumulate else None)
    bench.do(Mmad(m, k, n, dtype, accumulate, HF32 or 0), 1024, 512, 1024)
    wanted = [
        [sum(int(a[i, x]) * int(b[x, j]) for x in range(k)) + (int(c[i, j]) if accumulate else 0) for j in range(n)]
        for i in range(m)
    ]
    np.testing.assert_array_equal(result(bench, m, n), np.array(wanted, np.float32))


@sampled(20, 80)
@given(
    st.integers(1, 70), st.integers(1, 40), st.sampled_from(sorted(DTYPES)), st.booleans(), st.integers(0, 1000),
)  # fmt: skip
def test_one_plain_row_exactly(k: int, n: int, dtype: str, accumulate: bool, seed: int) -> None:
    """L0A holds k elements one behind the other; each 16 columns are the first 64 bytes of a fractal, the rest stays."""
    rng = np.random.default_rng(seed)
    a, b, c = (rng.integers(-9, 10, shape).astype(np.int64) for shape in ((1, k), (k, n), (n,)))
    bench = Workbench(seed)
    store(bench, np.zeros((1, k), DTYPES[dtype]), b.astype(DTYPES[dtype]), None)
    bench.put("L0A", 512, a.astype(DTYPES[dtype]))
    fractals = up(n, 16)
    tile = rng.integers(-99, 99, (fractals, 16, 16)).astype(np.float32)
    for j in range(n):
        tile[j // 16, 0, j % 16] = c[j]
    bench.put("L0C", 1024, tile)
    bench.do(Mmad(1, k, n, dtype, accumulate, HF32 or 0, gemv=True), 1024, 512, 1024)
    found = bench.get("L0C", 1024, np.float32, tile.size).reshape(tile.shape)
    wanted = [sum(int(a[0, x]) * int(b[x, j]) for x in range(k)) + int(c[j]) * accumulate for j in range(n)]
    np.testing.assert_array_equal(found[:, 0].ravel()[:n], np.array(wanted, np.float32))
    np.testing.assert_array_equal(found[:, 1:], tile[:, 1:])


@sampled(30, 120)
@given(
    st.integers(2, 40), st.integers(1, 90), st.integers(1, 40), st.sampled_from(["", "goes on", "bias"]),
    st.integers(0, 1000), st.sampled_from(["blas", "chunk", "exact_group"]),
)  # fmt: skip
def test_products_of_int8_are_exact_in_int32(m: int, k: int, n: int, begins: str, seed: int, model: str) -> None:
    """Against Python's integers, near the ends of int8 and of int32, whichever way floats would be added."""
    rng = np.random.default_rng(seed)
    a, b = (rng.choice([-128, -127, -1, 0, 1, 5, 126, 127], shape) for shape in ((m, k), (k, n)))
    c = rng.integers(-(2**30), 2**30, (m, n))
    bench = Workbench(seed)
    bench.memory.model = ValueModel.of(CHIP, model)
    store(bench, a.astype(np.int8), b.astype(np.int8), c.astype(np.int32))
    bench.put("L1", 64, c[0].astype(np.int32))
    bench.do(LoadBias(n, "int32"), 192, 64)
    bench.do(Mmad(m, k, n, "int8", begins == "goes on", bias=192 if begins == "bias" else -1), 1024, 512, 1024)
    start = {"": np.zeros((m, n), np.int64), "goes on": c, "bias": np.broadcast_to(c[0], (m, n))}[begins]
    wanted = [[sum(int(a[i, x]) * int(b[x, j]) for x in range(k)) + int(start[i, j]) for j in range(n)] for i in range(m)]
    assert result(bench, m, n, np.int32).tolist() == wanted


def test_a_sum_of_int8_that_leaves_int32_wraps_around() -> None:
    """Assumed: no source says so."""
    bench = Workbench()
    store(bench, np.full((2, 1), 127, np.int8), np.full((1, 1), 127, np.int8), np.full((2, 1), 2**31 - 1, np.int32))
    bench.do(Mmad(2, 1, 1, "int8", True), 1024, 512, 1024)
    assert result(bench, 2, 1, np.int32).tolist() == [[2**31 - 1 + 127 * 127 - 2**32]] * 2


@sampled(20, 80)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.sampled_from(sorted(DTYPES)), st.integers(0, 1000))
def test_a_sum_that_begins_with_the_bias_of_its_column(m: int, k: int, n: int, dtype: str, seed: int) -> None:
    """Whole numbers exactly, whatever L0C held; the bias came as float16 or as float32."""
    rng = np.random.default_rng(seed)
    a, b, start = (rng.integers(-9, 10, shape).astype(np.int64) for shape in ((m, k), (k, n), (n,)))
    bench = Workbench(seed)
    store(bench, a.astype(DTYPES[dtype]), b.astype(DTYPES[dtype]), None)
    comes_as = ("float16", "float32")[seed % 2]
    bench.put("L1", 64, start.astype(comes_as))
    bench.do(LoadBias(n, comes_as), 192, 64)
    bench.do(Mmad(m, k, n, dtype, False, HF32 or 0, bias=192), 1024, 512, 1024)
    wanted = [[sum(int(a[i, x]) * int(b[x, j]) for x in range(k)) + int(start[j]) for j in range(n)] for i in range(m)]
    np.testing.assert_array_equal(result(bench, m, n), np.array(wanted, np.float32))


@pytest.mark.parametrize("accumulate", ["blas", "chunk", "exact_group"])
def test_a_bias_is_what_the_first_addition_goes_on_from(accumulate: str) -> None:
    """2**24 and 1: a float32 sum that begins with the large one loses the others one by one, whatever adds them."""
    bench = Workbench()
    bench.memory.model = ValueModel.of(CHIP, accumulate)
    store(bench, np.ones((1, 1), np.float16), np.ones((1, 3), np.float16), None)
    bench.put("BT", 0, np.array([2.0**24, 5, -1], np.float32))
    bench.do(Mmad(2, 1, 3, "float16", False, bias=0), 1024, 512, 1024)
    assert result(bench, 1, 3).tolist() == [[2.0**24, 6, 0]]


def test_a_bias_that_no_word_says_is_refused() -> None:
    def product(**how: Any) -> Callable[[KernelBuilder], object]:
        return lambda k: k.mmad(0, 0, 0, 16, 16, 16, "float16", **({"accumulate": False, "bias": 0} | how))

    assert "bias = 32 is not a multiple of 64 bytes" in refusal("ascend910b3", product(bias=32))
    assert "covers bytes 1024 to 1088 of BT, which has 1024" in refusal("ascend910b3", product(bias=1024))
    assert "accumulate with bias" in refusal("ascend910b3", product(accumulate=True))
    assert "bias = -5; an address in BT is allowed, and -1 for none" in refusal("ascend910b3", product(bias=-5))
    for chip in ("ascend910a", "ascend310p3"):
        assert "L1->BT" in refusal(chip, product())


def test_a_bias_is_shown_where_there_is_one() -> None:
    assert "bias" not in Mmad(16, 16, 16, "float16", False).parameters()
    assert Mmad(16, 16, 16, "float16", False, bias=0).parameters()["bias"] == 0


@pytest.mark.parametrize(("dtype", "bits", "has"), [("hf32", 0, 11), ("hf32", 10, 11), ("float32", 11, 0), ("float16", 11, 0)])
def test_hf32_keeps_the_bits_of_the_chip(dtype: str, bits: int, has: int) -> None:
    with pytest.raises(SimError, match=rf"hf32_bits = {bits} of {dtype}; ascend910b3 \(dav-2201\) has {has} "):
        Mmad(16, 16, 16, dtype, False, bits).pipe(CHIP)
    assert Mmad(16, 16, 16, "hf32", False, 11).pipe(CHIP) == "M"


def test_one_plain_row_takes_the_time_of_a_fractal_of_rows() -> None:
    """Assumed: no source has cycles of the GEMV mode."""
    one, many = (Mmad(m, 64, 48, "float16", False, gemv=m == 1) for m in (1, 16))
    assert one.cost(CHIP) == many.cost(CHIP) and one.pace(CHIP) == many.pace(CHIP)


@pytest.mark.parametrize(
    ("dtype", "bits"), [*((dtype, 0) for dtype in sorted(DTYPES) if dtype != "hf32"), ("hf32", 10), ("hf32", 11)]
)
def test_other_numbers_within_fp32(dtype: str, bits: int) -> None:
    """Operands keep exactly the digits of their format, products are summed in fp32."""
    rng = np.random.default_rng(5)
    m, k, n = 17, 70, 20
    if dtype in ("float32", "hf32"):
        k = 30
    a, b = rng.standard_normal((m, k)).astype(DTYPES[dtype]), rng.standard_normal((k, n)).astype(DTYPES[dtype])
    bench = Workbench()
    store(bench, a, b, None)
    bench.do(Mmad(m, k, n, dtype, False, bits), 1024, 512, 1024)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    if dtype == "hf32":
        wide_a, wide_b = (np.vectorize(lambda v: rounded(v, bits))(x) for x in (wide_a, wide_b))
        assert np.abs(wide_a - a).max() > 2**-14
    exact = wide_a @ wide_b
    bound = 4 * 2.0**-24 * np.sqrt(k) * (np.abs(exact) + np.sqrt(wide_a**2 @ wide_b**2))
    assert (np.abs(result(bench, m, n) - exact) <= bound).all()


def test_work_on_paper() -> None:
    """ceil(m/16) ceil(n/16) ceil(k/k0) fractals of k0 / k_per_cycle cycles each (asc-devkit, Cube page)."""
    shapes = {"float16": 2 * 3 * 4, "bfloat16": 2 * 3 * 4, "hf32": 2 * 3 * 8, "float32": 2 * 3 * 8 * 2}
    for dtype, cycles in shapes.items():
        assert Mmad(17, 64, 48, dtype, False).cost(CHIP).work == cycles


def test_the_head_and_latency_of_fixpipe_stand_beside_those_of_its_path() -> None:
    unit, path = CHIP.fixpipe, CHIP.path("L0C", "GM")
    assert unit is not None
    known = CHIP.model_copy(update={
        "fixpipe": unit.model_copy(update={"head": 3, "latency": 5}),
        "paths": {**CHIP.paths, "L0C->GM": path.model_copy(update={"head": 10, "latency": 70})},
    })  # fmt: skip
    cost = Fixpipe(16, 16, 16, "float32", 16, 1024).cost(known)
    assert (cost.head_first, cost.head_stream, cost.latency) == (13, 13, 75)


@sampled(20, 80)
@given(
    st.integers(1, 30), st.integers(1, 50), st.integers(0, 2), st.sampled_from(["float16", "bfloat16", "float32"]),
    st.booleans(), st.booleans(), st.integers(0, 100),
)  # fmt: skip
def test_fixpipe(m: int, n: int, more: int, dtype: str, split: bool, atomic: bool, seed: int) -> None:
    """[n / c0][m][c0] with one rounding; the last block whole; with `atomic_add` on top of what is there."""
    c0 = 8 if split and dtype == "float32" else 16
    rows = (up(m, 16) + more) * 16
    out = np.dtype({"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}[dtype])
    rng = np.random.default_rng(seed)
    bench = Workbench(seed)
    tile = (rng.standard_normal(up(n, 16) * rows * 16) * 100).astype(np.float32)
    bench.memory.buffers["L0C"] = np.zeros(2 * 1024 + tile.nbytes, np.uint8)
    bench.put("L0C", 1024, tile)
    pitch = m * c0 * out.itemsize + 32
    blocks = up(n, c0)
    held = rng.integers(-4, 5, blocks * pitch // out.itemsize + 1).astype(np.float32).astype(out)
    bench.memory.gm[1] = np.zeros(64 + held.nbytes, np.uint8)  # type: ignore[index]
    target = gm_operand(1, 32)
    bench.put("GM", target, held)
    bench.do(Fixpipe(m, n, rows, dtype, c0, pitch, atomic), target, 1024)
    got = bench.get("GM", target, out, len(held))
    wanted = held.copy()
    for block in range(blocks):
        for i in range(m):
            for c in range(c0):
                j = block * c0 + c
                value = tile[(j // 16) * rows * 16 + i * 16 + j % 16].astype(out)
                place = (block * pitch) // out.itemsize + i * c0 + c
                wanted[place] = held[place] + value if atomic else value
    np.testing.assert_array_equal(got.view(np.uint8), wanted.view(np.uint8))


@settings(max_examples=60)
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from(["float16", "bfloat16", "float32"]), st.integers(0, 9))
def test_fixpipe_nd_writes_rows(m: int, n: int, dtype: str, gap: int) -> None:
    """Each element to its place in its row; what lies between the rows stays."""
    bench, out = Workbench(), np.dtype(DTYPES[dtype])
    rng = np.random.default_rng(m * 41 + n)
    rows = up(m, 16) * 16
    tile = rng.integers(-64, 65, up(n, 16) * rows * 16).astype(np.float32)
    bench.memory.buffers["L0C"] = np.zeros(2 * 1024 + tile.nbytes, np.uint8)
    bench.put("L0C", 1024, tile)
    pitch = (n + gap) * out.itemsize
    held = rng.integers(-4, 5, m * (n + gap)).astype(np.float32).astype(out)
    bench.memory.gm[1] = np.zeros(64 + held.nbytes, np.uint8)  # type: ignore[index]
    target = gm_operand(1, 32)
    bench.put("GM", target, held)
    bench.do(FixpipeNd(m, n, rows, dtype, pitch), target, 1024)
    wanted = held.copy()
    for i in range(m):
        for j in range(n):
            wanted[i * (n + gap) + j] = tile[(j // 16) * rows * 16 + i * 16 + j % 16].astype(out)
    got = bench.get("GM", target, out, len(held))
    np.testing.assert_array_equal(got.view(np.uint8), wanted.view(np.uint8))


def test_fixpipe_rounds_to_even_and_overflows_to_infinity() -> None:
    bench = Workbench()
    values = np.zeros(256, np.float32)
    values[:5] = [1 + 2.0**-11, 1 + 3 * 2.0**-11, 65519.0, 65520.0, -1e9]
    bench.put("L0C", 0, values)
    bench.do(Fixpipe(16, 16, 16, "float16", 16, 512), gm_operand(1, 0), 0)
    got = bench.get("GM", gm_operand(1, 0), np.float16, 5).tolist()
    assert got == [1.0, 1 + 2.0**-9, 65504.0, np.inf, -np.inf]


def test_fixpipe_rates_on_paper() -> None:
    """The slower of conversion and port: 64 16-bit elements a cycle, the chip file's rates with the channel split."""
    assert CHIP.fixpipe is not None
    port = CHIP.path("L0C", "GM").bytes_per_cycle
    rates = [
        Fixpipe(16, 16, 16, dtype, c0, 512, atomic).gm_access(CHIP)
        for dtype, c0, atomic in (("float16", 16, False), ("float32", 16, False), ("float32", 8, False), ("float32", 8, True))
    ]
    split = [CHIP.fixpipe.channel_split_bytes_per_cycle] * 2
    assert [access.rate for access in rates if access] == [min(128, port), min(128, port), *split]
    assert [access.direction for access in rates if access] == ["write", "write", "write", "atomic"]


@pytest.mark.parametrize(("chip", "dtype", "has"), [
    ("ascend910b3", "int4", True), ("ascend310p3", "int4", True), ("ascend950pr_9589", "mxfp8", True),
    ("ascend910a", "int4", False), ("ascend910b3", "uint8", False), ("ascend950pr_9589", "int4", False),
])  # fmt: skip
def test_the_formats_that_a_refusal_lists_are_simulated(chip: str, dtype: str, has: bool) -> None:
    spec = load_chip(chip)
    with pytest.raises(SimError) as caught:
        Mmad(16, 64, 16, dtype, False).pipe(spec)
    said = str(caught.value)
    assert ("is not simulated; simulated are" if has else f"multiplies no {dtype}") in said
    listed = re.split("it has |simulated are ", said)[1].split(" (")[0].split(", ")
    assert dtype not in listed and "float16" in listed and "int8" in listed
    for one in listed:
        bits = int(spec.cube.hf32_mantissa_bits or 0) if one == "hf32" else 0
        assert Mmad(16, 64, 16, one, False, bits).pipe(spec) == "M"
