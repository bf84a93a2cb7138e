"""Promises of a cast beyond the values: modes, sources, shapes, saturation, refusals."""

import ml_dtypes
import numpy as np
import pytest

from ascend_sim.errors import SimError
from ascend_sim.numerics import FORMATS, cast, decode, encode, numpy_dtype, reference, round_to

pytestmark = pytest.mark.fast

STEP = 2.0**-10  # of float16 at 1


@pytest.mark.parametrize(
    ("mode", "expected"),
    # 1 + STEP/4, 1 + STEP/2, 1 + 3 STEP/2, -1 - STEP/4, -1 - STEP/2 in steps from +-1
    [
        ("rint", [0, 0, 2, 0, 0]),
        ("floor", [0, 0, 1, -1, -1]),
        ("ceil", [1, 1, 2, 0, 0]),
        ("round", [0, 1, 2, 0, -1]),
        ("trunc", [0, 0, 1, 0, 0]),
        ("odd", [1, 1, 1, -1, -1]),
        ("none", [0, 0, 2, 0, 0]),
        ("CAST_FLOOR", [0, 0, 1, -1, -1]),
    ],
)
def test_modes_on_float16(mode, expected):
    x = np.float32([1 + STEP / 4, 1 + STEP / 2, 1 + 1.5 * STEP, -1 - STEP / 4, -1 - STEP / 2])
    got = cast(x, "float16", mode)
    assert got.dtype == np.float16
    np.testing.assert_array_equal((got.astype(float) - [1, 1, 1, -1, -1]) / STEP, expected)


@pytest.mark.parametrize(
    ("mode", "positive", "negative"),
    [
        ("rint", np.inf, -np.inf),
        ("round", np.inf, -np.inf),
        ("floor", 65504, -np.inf),
        ("ceil", np.inf, -65504),
        ("trunc", 65504, -65504),
        ("odd", 65504, -65504),
    ],
)
def test_overflow_by_mode(mode, positive, negative):
    np.testing.assert_array_equal(cast(np.float32([1e6, -1e6]), "float16", mode), np.float16([positive, negative]))
    np.testing.assert_array_equal(cast(np.float32([np.inf, -np.inf]), "fp16", mode), np.float16([np.inf, -np.inf]))


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "float32"])
def test_saturation(name):
    x = np.float32([np.inf, -np.inf, np.nan, 1.0])
    largest = FORMATS[name].max_finite
    np.testing.assert_array_equal(round_to(x, name, saturate=True), np.float32([largest, -largest, 0, 1]))
    assert not np.isfinite(round_to(x, name)[:3]).any()


@pytest.mark.parametrize(
    ("target", "mode"),
    [("bfloat16", "odd"), ("bfloat16", "none"), ("e4m3", "floor"), ("e5m2", "round"), ("hif8", "rint"),
     ("hif8", "none"), ("float16", "hybrid"), ("hf32", "floor"), ("float32", "trunc"), ("float16", "nearest"),
     ("float16", 3)],
)  # fmt: skip
def test_modes_a_format_lacks_are_refused(target, mode):
    with pytest.raises(SimError, match=r"it has .*"):
        cast(np.float32([1]), target, mode)
    with pytest.raises(SimError, match=r"it has .*"):
        reference.round_value(1.0, target, mode)


@pytest.mark.parametrize("option", ["hybrid_exact", "hybrid_overflow", "e4m3_overflow"])
def test_unknown_options_are_refused(option):
    with pytest.raises(SimError, match=option):
        encode(np.float32([1]), "hifloat8", **{option: "maybe"})


def test_hybrid_caveat_of_exact_values():
    """The text's >= moves exact values with a zero tail up; the option keeps them. 8 and below round half away."""
    x = np.float32([16.0, 20.0, 256.0, 2.0**-22, 32768.0, 8.0])
    np.testing.assert_array_equal(round_to(x, "hif8", rounding="hybrid"), [20, 24, 384, 2.0**-21, np.inf, 8])
    np.testing.assert_array_equal(round_to(x, "hif8", rounding="hybrid", hybrid_exact="keep"), x)


def test_hybrid_from_float16_has_its_own_threshold():
    """thr is 1 or 3 of 4 by the last bit of the half: a quarter of a step goes up only from an even pattern."""
    even = np.float16(16 + 1)  # a quarter of the step 4 above 16, last bit 0
    odd = np.nextafter(even, np.float16(32))  # last bit 1: thr is 3
    got = round_to(np.array([even, odd, np.float16(16), np.float16(19)]), "hif8", rounding="hybrid")
    np.testing.assert_array_equal(got, [20, 16, 16, 20])


def test_hifloat8_has_one_zero_and_one_nan():
    np.testing.assert_array_equal(encode(np.float32([-0.0, -1e-9, -np.nan, np.nan]), "hif8"), [0, 0, 0x80, 0x80])


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (2, 3)])
def test_shapes_are_kept(name, shape):
    x = np.full(shape, 1.5, np.float32)
    for rounding in FORMATS[name].roundings:
        got = cast(x, name, rounding, saturate=True)
        assert got.shape == shape and got.dtype == numpy_dtype(name)
        np.testing.assert_array_equal(decode(encode(x, name, rounding), name), x)


def test_strided_and_big_arrays():
    x = np.random.default_rng(5).standard_normal((300, 700)).astype(np.float32)
    x[7, 7] = np.nan
    for name in ("hifloat8", "hf32", "bfloat16", "float16"):
        for view in (x[::2, ::3], x.T):
            np.testing.assert_array_equal(round_to(view, name), round_to(np.ascontiguousarray(view), name))
        mode = FORMATS[name].roundings[1]
        whole = round_to(x, name, rounding=mode)
        rows = np.stack([round_to(row, name, rounding=mode) for row in x])
        np.testing.assert_array_equal(whole, rows)


def test_sources():
    codes = np.uint8([0x08, 0x10])
    np.testing.assert_array_equal(cast(codes, "float16", source="hifloat8"), np.float16([1, 2]))
    np.testing.assert_array_equal(cast(codes, "float16"), np.float16([8, 16]))
    x = np.array([1.0, 3.140625], dtype=ml_dtypes.bfloat16)
    np.testing.assert_array_equal(cast(x, "hif8"), cast(x.astype(np.float32), "hif8"))
    assert cast(3.0, "bf16").dtype == ml_dtypes.bfloat16
    with pytest.raises(SimError, match="complex64"):
        cast(np.complex64([1]), "float16")


def test_the_input_is_left_alone():
    for dtype in (np.float32, np.float64, np.float16):
        x = np.array([1.1, np.nan, np.inf], dtype=dtype)
        before = x.copy()
        for name in FORMATS:
            cast(x, name, saturate=True)
            result = cast(x, name)
            assert not np.shares_memory(result, x)
        np.testing.assert_array_equal(x, before)


def test_a_float64_is_rounded_once():
    """A tie of bfloat16 and a little more: by way of float32 the little would be lost before it decides."""
    little = 2.0**-40
    values = np.float64([1 + 2.0**-8 + little, 1 + 2.0**-8, 1 + 3 * 2.0**-8 - little, -1 - 2.0**-8 - little])
    assert cast(values, "bfloat16").astype(np.float64).tolist() == [1 + 2.0**-7, 1, 1 + 2.0**-7, -1 - 2.0**-7]


def test_the_largest_value_does_not_overflow_by_either_reading():
    for reading in ("rounded", "given"):
        assert cast([448.0, -448.0], "float8_e4m3fn", e4m3_overflow=reading).astype(np.float32).tolist() == [448, -448]
    values = [np.nextafter(448.0, 449), 464.0, -464.0, 480.0]
    assert cast(values, "float8_e4m3fn").astype(np.float32).tolist()[:3] == [448, 448, -448]
    assert np.isnan(cast(values, "float8_e4m3fn", e4m3_overflow="given").astype(np.float32)).all()
