"""Scales and ReLU of the Fixpipe against exact arithmetic in fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim import Quantisation, SimError
from ascend_sim.chip import load_chip
from ascend_sim.isa.cube import Fixpipe, FixpipeNd
from ascend_sim.memory.gm import gm_operand
from tests.support.isa.refusals import refusal
from tests.support.isa.workbench import Workbench
from tests.support.sampling import sampled

GM0 = gm_operand(0, 64)
SCALES = [1.0, 0.5, 3.0, -2.0, 2.0**-20, 1 + 2.0**-10, 1 + 2.0**-10 + 2.0**-20, 0.1, 777.7]


def kept(scale: float) -> Fraction:
    """The scale with 10 bits of mantissa, cut off."""
    mantissa, exponent = np.frexp(np.float32(scale))
    return Fraction(int(np.trunc(float(mantissa) * 2**11))) / 2**11 * Fraction(2) ** int(exponent)


def to_half(exact: Fraction) -> float:
    """The nearest float16, ties to even, infinite beyond the range."""
    size = abs(exact)
    if size == 0:
        return 0.0
    exponent = -14
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - 10)
    rounded = round(size / unit) * unit
    value = float(rounded) if rounded <= 65504 else np.inf
    return -value if exact < 0 else value


def expected(value: int | float, scale: float, relu: bool, target: str) -> float:
    exact = Fraction(value)
    if relu and exact < 0:
        exact = Fraction(0)
    exact *= kept(scale)
    if target == "float16":
        return to_half(exact)
    low, high = (-128, 127) if target == "int8" else (0, 255)
    return float(min(max(round(exact), low), high))


@sampled(40, 200)
@given(
    st.sampled_from([("int32", "float16"), ("int32", "int8"), ("int32", "uint8"), ("float32", "int8"), ("float32", "uint8")]),
    st.booleans(), st.booleans(), st.integers(1, 18), st.integers(1, 40), st.integers(0, 1000),
)  # fmt: skip
def test_scaled_numbers_are_rounded_once(
    formats: tuple[str, str], relu: bool, by_column: bool, m: int, n: int, seed: int
) -> None:
    source, target = formats
    rng = np.random.default_rng(seed)
    bench, columns, padded = Workbench(seed), -(-n // 16), -(-m // 16) * 16
    tile = (rng.integers(-(2**31), 2**31, (columns, padded, 16)) >> rng.integers(0, 31, (columns, padded, 16))).astype(source)
    if source == "float32":
        tile = (tile * np.float32(2.0**-22)).astype(np.float32)
    bench.put("L0C", 1024, tile)
    scales = rng.choice(SCALES, columns * 16).astype(np.float32)
    bench.put("FB", 128, np.stack((scales.view(np.uint32), rng.integers(0, 2**31, len(scales))), 1).astype(np.uint32))
    one = float(scales[0])
    pre = Quantisation(source, 0.0 if by_column else one, by_column, relu)
    item = np.dtype(target).itemsize
    bench.do(FixpipeNd(m, n, padded, target, n * item, False, pre), GM0, 1024, 128)
    found = bench.get("GM", GM0, target, m * n).reshape(m, n)
    for i in range(m):
        for j in range(n):
            scale = float(scales[j]) if by_column else one
            assert float(found[i, j]) == expected(tile[j // 16, i, j % 16].item(), scale, relu, target)


def test_blocks_of_columns_have_their_scales() -> None:
    bench, tile = Workbench(), np.arange(3 * 16 * 16, dtype=np.int32).reshape(3, 16, 16)
    bench.put("L0C", 1024, tile)
    scales = np.arange(1, 49, dtype=np.float32)
    bench.put("FB", 0, np.stack((scales, np.zeros(48, np.float32)), 1))
    bench.do(Fixpipe(5, 48, 16, "float16", 16, 512, False, Quantisation("int32", by_column=True)), GM0, 1024, 0)
    for block in range(3):
        found = bench.get("GM", GM0 + block * 512, np.float16, 80).reshape(5, 16)
        assert found.tolist() == (tile[block, :5] * scales[block * 16 : block * 16 + 16]).astype(np.float16).tolist()


@pytest.mark.parametrize("n", [7, 16, 32, 40, 48, 64, 80])
@pytest.mark.parametrize("more", [0, 64])
def test_two_fractals_of_bytes_lie_side_by_side_and_an_odd_one_alone(n: int, more: int) -> None:
    """Channel merge: rows of 32 bytes for two fractals, of 16 for the last of an odd number."""
    m, fractals = 5, -(-n // 16)
    bench, tile = Workbench(), np.arange(fractals * 256, dtype=np.int32).reshape(fractals, 16, 16) * 3 - 200
    bench.put("L0C", 1024, tile)
    before = bench.get("GM", GM0, np.int8, 2048).copy()
    stride = m * 32 + more
    bench.do(Fixpipe(m, n, 16, "int8", 32, stride, False, Quantisation("int32", 1.0)), GM0, 1024, 0)
    for fractal in range(fractals):
        width = 16 if fractals % 2 and fractal == fractals - 1 else 32
        for row in range(m):
            place = fractal // 2 * stride + row * width + fractal % 2 * 16
            before[place : place + 16] = np.clip(tile[fractal, row], -128, 127)
    assert bench.get("GM", GM0, np.int8, 2048).tolist() == before.tolist()


@pytest.mark.parametrize(("n", "total"), [(16, 80), (48, 240), (64, 320)])
def test_a_merged_drain_takes_the_time_of_its_bytes(n: int, total: int) -> None:
    access = Fixpipe(5, n, 16, "int8", 32, 192, False, Quantisation("int32", 1.0)).gm_access(load_chip("ascend910b3"))
    assert access is not None and access.region.total == total


def test_relu_alone() -> None:
    bench, tile = Workbench(), np.linspace(-3, 3, 256, dtype=np.float32).reshape(1, 16, 16)
    bench.put("L0C", 1024, tile)
    bench.do(FixpipeNd(16, 16, 16, "float16", 32, False, Quantisation(relu=True)), GM0, 1024)
    found = bench.get("GM", GM0, np.float16, 256)
    assert found.tolist() == np.maximum(tile, 0).astype(np.float16).ravel().tolist()


@pytest.mark.parametrize(
    ("dtype", "pre", "text"),
    [
        ("int8", None, "float32 of L0C to int8 without a scale; float32, float16, bfloat16 is possible"),
        ("float16", Quantisation("int32"), "int32 of L0C to float16 without a scale; int32 is possible"),
        ("bfloat16", Quantisation("int32", 1.0), "int32 of L0C to bfloat16 with a scale; float16, int8, uint8 is possible"),
        ("float16", Quantisation("float32", 1.0), "float32 of L0C to float16 with a scale; int8, uint8 is possible"),
    ],
)
def test_what_no_mode_says_is_refused(dtype: str, pre: Quantisation | None, text: str) -> None:
    said = refusal("ascend910b3", lambda k: k.fixpipe_nd(0, 0, 16, 16, 16, dtype, 64, pre=pre))
    assert text in said


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (("bogus",), "source 'bogus'; L0C holds float32 or int32"),
        (("int32", np.inf), "not infinity, NaN or subnormal"),
        (("int32", 1e-40), "not infinity, NaN or subnormal"),
        (("int32", np.nan), "not infinity, NaN or subnormal"),
        (("int32", 1e39), "not infinity, NaN or subnormal"),
        (("int32", "x"), "scale 'x'; a number is allowed"),
        (("int32", 1.0, True), "give one of them"),
        (("int32", 1.0, 3.0), "by_column 3.0; True or False"),
        (("float32", 0.0, False, "yes"), "relu 'yes'; True or False"),
    ],
)
def test_what_no_word_holds_is_refused_where_it_is_made(fields: tuple[Any, ...], text: str) -> None:
    with pytest.raises(SimError, match=text) as caught:
        Quantisation(*fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", ["fixpipe", "fixpipe_nd"])
def test_arithmetic_that_is_no_quantisation_is_refused(method: str) -> None:
    given = (0, 0, 16, 16, 16, "float16", 16, 512) if method == "fixpipe" else (0, 0, 16, 16, 16, "float16", 64)
    said = refusal("ascend910b3", lambda k: getattr(k, method)(*given, pre="int32"))
    assert f"{method}: pre is 'int32'; a Quantisation or None is allowed" in said
    for pre in (None, Quantisation("float32", 0.5)):
        said = refusal("ascend910b3", lambda k, pre=pre: getattr(k, method)(*given, pre=pre, scales=128))  # type: ignore[misc]
        assert f"{method}: scales=128 without pre=Quantisation(by_column=True)" in said


def test_the_950_scales_more() -> None:
    with pytest.raises(pytest.fail.Exception):  # nothing is refused
        refusal("ascend950pr_9589", lambda k: k.fixpipe_nd(0, 0, 16, 16, 16, "bfloat16", 64, pre=Quantisation("int32", 1.0)))
