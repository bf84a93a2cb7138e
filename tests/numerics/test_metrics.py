"""Error metrics against a plain computation of each, and the vendor's verdicts on both sides of their limits."""

import json

import ml_dtypes
import numpy as np
import pytest

from ascend_sim.errors import SimError
from ascend_sim.numerics import cast, compare, encode, vendor_matched_ratio

pytestmark = pytest.mark.fast

RNG = np.random.default_rng(7)
REFERENCE = RNG.standard_normal((3, 70_000)) * np.exp2(RNG.integers(-20, 5, (3, 70_000)))


@pytest.mark.parametrize(("dtype", "rtol", "atol"), [("float16", 2.0**-9, 2.0**-9), ("bfloat16", 2.0**-6, 2.0**-6)])
def test_against_a_plain_computation(dtype, rtol, atol):
    result = cast(REFERENCE * (1 + 1e-3 * RNG.standard_normal(REFERENCE.shape)), dtype)
    got = compare(result, REFERENCE)
    a, g = result.astype(float).ravel(), REFERENCE.ravel()
    error = abs(a - g)
    assert got.dtype == got.standard == dtype and got.elements == a.size
    assert got.vendor_matched_ratio == np.mean(error <= atol + rtol * abs(g))
    assert got.max_abs_error == error.max()
    relative = error / (abs(g) + 1e-7)
    assert got.mere == pytest.approx(relative.mean(), rel=1e-12) and got.mare == relative.max()
    assert got.rmse == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-12)
    assert got.cosine == pytest.approx(a @ g / np.linalg.norm(a) / np.linalg.norm(g), rel=1e-12)
    assert got.effective_bits == pytest.approx(-np.log2(error.mean() / abs(g).mean()), rel=1e-12)
    rounded = g.astype(result.dtype)
    assert got.bit_equal_share == np.mean(rounded == result.ravel()) > 0.001
    assert got.share_over_1e_3 == np.mean((error > 1e-3 * abs(g)) & (error > 1e-8))
    assert got.share_over_1e_4 == np.mean((error > 1e-4 * abs(g)) & (error > 1e-8))
    assert got.nonfinite == got.nonfinite_mismatch == 0


def test_a_perfect_result():
    result = np.float32(REFERENCE)
    got = compare(result, result.astype(float))
    assert (got.vendor_matched_ratio, got.vendor_pass, got.relative_pass) == (1.0, True, True)
    assert got.bit_equal_share == 1.0 and got.effective_bits == np.inf
    assert got.cosine == pytest.approx(1.0)
    assert (got.max_abs_error, got.mere, got.mare, got.rmse, got.share_over_1e_4) == (0, 0, 0, 0, 0)


def test_a_comparison_prints_as_a_sentence():
    reference = np.ones(40, np.float32)
    result = np.where(np.arange(40) == 3, np.float32(1.5), reference)
    said = "equal bits 97.5 %, effective bits 6.3, largest error 0.5, inf or NaN 0, vendor's threshold failed"
    assert str(compare(result, reference)) == f"40 elements of float32: {said}"


@pytest.mark.parametrize(("wrong", "passes"), [(10, True), (11, False)])
def test_99_percent_must_match(wrong, passes):
    reference = np.ones(1000)
    result = np.ones(1000, np.float16)
    result[:wrong] += np.float16(2.0**-7)  # above 2^-9 + 2^-9, below the limit on single errors
    assert compare(result, reference).vendor_pass is passes


@pytest.mark.parametrize(("error", "passes"), [(0.09, True), (0.2, False)])
def test_no_single_error_above_the_limit(error, passes):
    result = np.ones(1000, np.float32)
    result[5] += np.float32(error)
    assert compare(result, np.ones(1000), compute_dtype="hf32").vendor_pass is passes


@pytest.mark.parametrize(
    ("name", "rtol", "atol", "most", "mean"),
    [
        ("float16", -9, -9, 0.1, -10), ("bfloat16", -6, -6, 1, -7), ("float32", -10, -16, 0.01, -13),
        ("hf32", -9, -10, 0.1, -11), ("float8_e4m3fn", -2, -4, 1, -3), ("float8_e5m2", -1, -3, 0.1, -2),
    ],
)  # fmt: skip
def test_each_column_of_the_standards(name, rtol, atol, most, mean):
    """Powers of two, but `most`, as the page of the vendor has them: a hair below each limit and a hair above."""

    def judged(reference, error):
        result = np.full(4, reference + error)
        return compare(result, np.full(4, reference), dtype="float32", compute_dtype=name)

    hair = 2.0**-30
    for reference in (0.0, 4096.0):
        limit = 2.0**atol + reference * 2.0**rtol
        assert [judged(reference, limit + x).vendor_matched_ratio for x in (0, hair)] == [1, 0]
    small = compare(np.eye(1, 100)[0] * (most - hair), np.zeros(100), dtype="float32", compute_dtype=name)
    large = compare(np.eye(1, 100)[0] * (most + hair), np.zeros(100), dtype="float32", compute_dtype=name)
    assert (small.vendor_pass, large.vendor_pass) == (True, False)
    relative = (1 + 1e-7) * 2.0**mean
    assert [judged(1.0, relative + x).relative_pass for x in (-hair, hair)] == [True, False]


def test_the_limit_grows_to_32_ulp():
    """At 1024 a float16 step is 1, so 32 is still within the limit of 0.1 "or 32 ULP"; 33 is not."""
    reference = np.full(1000, 1024.0)
    for error, passes in ((32, True), (33, False)):
        result = np.full(1000, 1024, np.float16)
        result[0] += error
        assert compare(result, reference).vendor_pass is passes


def test_the_coarser_dtype_sets_the_standard():
    x = np.ones(3, np.float32)
    assert compare(x, x, compute_dtype="hf32").standard == "hf32"
    assert compare(x, x, compute_dtype="float16").standard == "float16"
    assert compare(x.astype(ml_dtypes.bfloat16), x, compute_dtype="float32").standard == "bfloat16"
    assert compare(np.ones(3), np.ones(3)).standard == "float32"


def test_relative_error_standard():
    result, reference = np.ones(1000, np.float32), np.ones(1000)
    result[0] = 1 + 9 * 2.0**-13
    assert compare(result, reference).relative_pass
    result[0] = 1 + 11 * 2.0**-13
    assert not compare(result, reference).relative_pass


def test_hifloat8_codes_have_no_vendor_standard():
    reference = np.array([1.0, 3.3, -7.0])
    got = compare(encode(reference, "hifloat8"), reference, dtype="hifloat8")
    assert got.vendor_matched_ratio is None and got.vendor_pass is None and got.relative_pass is None
    assert got.bit_equal_share == 1.0 and got.max_abs_error == pytest.approx(0.05)  # 3.3 -> 3.25


def test_nonfinite_elements():
    reference = np.array([1.0, np.inf, np.nan, 2.0])
    same = compare(np.float16([1, np.inf, np.nan, 2]), reference)
    assert (same.nonfinite, same.nonfinite_mismatch, same.vendor_pass, same.bit_equal_share) == (2, 0, True, 1.0)
    for bad in ([np.nan, np.inf, np.nan, 2], [1, -np.inf, np.nan, 2], [1, np.inf, 0, 2], [1, np.inf, np.nan, np.inf]):
        got = compare(np.float16(bad), reference)
        assert got.nonfinite_mismatch == 1 and got.vendor_pass is False and got.max_abs_error == np.inf
        assert got.bit_equal_share == 0.75 and got.rmse == 0
        assert json.loads(json.dumps(got.to_dict(), allow_nan=False))["max_abs_error"] is None


@pytest.mark.parametrize(("dtype", "rtol", "atol"), [("float16", 2.0**-9, 2.0**-9), ("float32", 2.0**-10, 2.0**-16)])
def test_the_matched_ratio_alone(dtype, rtol, atol):
    """Against a count element by element; `compare` has the same."""
    special = [np.inf, -np.inf, np.nan, 0.0, 1.0]
    pairs = [(a, b) for a in special for b in special] + [(1.0, x) for x in np.linspace(0.99, 1.01, 70_000)]
    result, reference = np.array(pairs, dtype).T[0], np.array(pairs).T[1]

    def matches(a, g):
        return a == g or (a != a and g != g) or (np.isfinite(g) and abs(a - g) <= atol + rtol * abs(g))

    share = sum(matches(float(a), float(g)) for a, g in zip(result, reference, strict=True)) / len(pairs)
    assert 0.05 < share < 0.95
    assert vendor_matched_ratio(result, reference, dtype) == compare(result, reference).vendor_matched_ratio == share


def test_the_matched_ratio_of_nothing_and_without_a_standard():
    assert vendor_matched_ratio(np.zeros((0, 3), np.float16), np.zeros((0, 3)), "float16") == 1.0
    assert vendor_matched_ratio(np.ones(3), np.ones(3), "hifloat8") is None


def test_zeros_for_everything_have_no_effective_bits():
    got = compare(np.zeros(100, np.float32), np.ones(100))
    assert got.effective_bits == 0 and got.cosine == 0 and got.vendor_matched_ratio == 0


def test_empty_and_mismatched():
    got = compare(np.zeros((0, 3), np.float16), np.zeros((0, 3)))
    assert got.elements == 0 and got.vendor_pass and got.max_abs_error == 0
    with pytest.raises(SimError, match="shape"):
        compare(np.zeros(3, np.float16), np.zeros((3, 1)))


def test_any_nan_pattern_is_bit_equal_to_nan():
    result = np.array([0xFE01, 0x3C00, 0x8000], np.uint16).view(np.float16)  # a NaN with payload, 1, -0
    assert compare(result, np.array([np.nan, 1.0, -0.0])).bit_equal_share == 1.0
    assert compare(result, np.array([np.nan, 1.0, 0.0])).bit_equal_share == pytest.approx(2 / 3)


def test_names_are_no_arrays():
    with pytest.raises(SimError, match=r"^compare: 'by_hand' is no array of numbers; compare_runs lays cases"):
        compare("by_hand", "strided")
    for reference in (["a", "b"], [1j, 2], [None, 1]):
        with pytest.raises(SimError, match="real numbers are needed"):
            compare(np.zeros(2), reference)


def test_rows_of_different_lengths_are_refused() -> None:
    with pytest.raises(SimError, match=r"^compare: rows of different lengths make no array of numbers$"):
        compare([[1.0, 2.0], [3.0]], np.ones((2, 2)))
