"""The scalar truth and the array functions agree: all 8- and 16-bit codes, boundaries, ties, specials, random bits."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.numerics import FORMATS, decode, encode, reference, round_to
from tests.support.sampling import sampled

MODES = [(name, mode) for name, fmt in FORMATS.items() if name != "hf32" for mode in fmt.roundings]
HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def scalar(x):
    return math.nan if np.isnan(x) else float(x)


def assert_agree(x, name, mode, saturate=False, **options):
    codes = encode(x, name, mode, saturate, **options)
    if name == "hifloat8":
        options["source"] = x.dtype.name if x.dtype == np.float16 else "float32"
    for value, code in zip(x, codes, strict=True):
        truth = reference.encode(scalar(value), name, mode, saturate, **options)
        same_nan = np.isnan(value) or math.isnan(reference.decode(truth, name))
        if same_nan and name != "hifloat8":
            assert math.isnan(reference.decode(truth, name)) == math.isnan(reference.decode(int(code), name))
        else:
            assert code == truth, (value, hex(code), hex(truth))


def edges(name):
    """Rungs, ties and their float32 neighbours at the powers of two of a format; zero, inf, NaN, overflow."""
    fmt = FORMATS[name]
    values = [0.0, fmt.max_finite, fmt.overflow_threshold, 3.4e38, math.inf, math.nan, 2.0**-149]
    span = range(max(fmt.min_exponent, -133) - fmt.mantissa_bits - 2, min(fmt.max_exponent + 2, 127))
    for exponent in span if fmt.bits <= 8 or fmt.exponent_bits < 8 else [*span[:14], -1, 0, 1, *span[-4:]]:
        step = 2.0 ** fmt.quantum_exponent(exponent)
        values += [n * step + 2.0**exponent for n in (-1, -0.5, 0, 0.5, 1, 1.5)]
    with np.errstate(all="ignore"):
        x = np.array(values, dtype=np.float64).astype(np.float32)
        x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(0))])
    return np.concatenate([x, -x])


@pytest.mark.parametrize("name", FORMATS)
def test_decode_every_short_code(name):
    bits = FORMATS[name].bits
    codes = np.arange(1 << bits) if bits <= 16 else np.random.default_rng(4).integers(0, 1 << 32, 20_000)
    truth = np.array([reference.decode(int(code), name) for code in codes])
    np.testing.assert_array_equal(decode(codes, name), truth)


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize(("name", "mode"), MODES)
def test_edges(name, mode, saturate):
    assert_agree(edges(name), name, mode, saturate)


@pytest.mark.parametrize("mode", ["round", "hybrid"])
@pytest.mark.parametrize("saturate", [False, True])
def test_float16_sources_to_hifloat8(mode, saturate):
    """Every 7th half and all subnormals; the exhaustive test is marked slow."""
    assert_agree(np.concatenate([HALVES[::7], HALVES[:1024:3]]), "hifloat8", mode, saturate)


@pytest.mark.parametrize("options", [{"hybrid_exact": "keep"}, {"hybrid_overflow": "inf"}], ids=str)
def test_hybrid_options(options):
    x = np.concatenate([edges("hifloat8"), np.float32([32768, 40000, 40960, 41587.445, 49152, 65535, 16, 20.5])])
    assert_agree(x, "hifloat8", "hybrid", **options)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode"), [pair for pair in MODES if FORMATS[pair[0]].bits <= 16])
def test_every_float16(name, mode):
    assert_agree(HALVES, name, mode)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode"), [pair for pair in MODES if FORMATS[pair[0]].bits <= 16])
def test_every_bfloat16(name, mode):
    patterns = np.arange(1 << 16, dtype=np.uint32) << 16
    assert_agree(patterns.view(np.float32), name, mode)


@sampled(75, 300)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=8), st.sampled_from(MODES), st.booleans(), st.booleans())
def test_random_float32_patterns(patterns, pair, saturate, near_one):
    bits = np.array(patterns, dtype=np.uint32)
    if near_one:  # exponents within the range of the small formats
        bits = bits & 0x8FFFFFFF | 0x38000000
    assert_agree(bits.view(np.float32), *pair, saturate)


@sampled(50, 200)
@given(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([pair for pair in MODES if pair[1] != "hybrid"]))
def test_any_float64_rounds_once(x, pair):
    assert_agree(np.array([x]), *pair)


@sampled(75, 300)
@given(st.integers(0, 2**32 - 1), st.sampled_from(FORMATS["hf32"].roundings), st.sampled_from([11, 10]))
def test_hf32_random_patterns(pattern, mode, mantissa_bits):
    x = np.array([pattern], dtype=np.uint32).view(np.float32)
    got = round_to(x, "hf32", mantissa_bits, mode)
    truth = reference.round_value(scalar(x[0]), "hf32", mode, mantissa_bits=mantissa_bits)
    np.testing.assert_array_equal(got, np.float32(truth))
    assert np.isnan(got[0]) or np.signbit(got[0]) == np.signbit(x[0])
