"""The verdict: honest float32 sums pass at every K, and the ways a kernel goes wrong are found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.errors import SimError
from ascend_sim.numerics import (
    accumulation_bound,
    cast,
    check_correct,
    decode,
    encode,
    half_ulp,
    reference,
    rigorous_bound,
    rounded_bound,
)
from ascend_sim.numerics.formats import format_of
from tests.support.sampling import sampled


def products(n, k, seed=0, dtype="float16"):
    """Operands in `dtype`, their float64 sum of products, sum of squares, and the sequential float32 sum."""
    rng = np.random.default_rng(seed)
    a, b = (cast(rng.standard_normal((n, k)), dtype).astype(np.float64) for _ in range(2))
    terms = a * b
    sequential = np.zeros(n, np.float32)
    for column in terms.T:
        sequential = np.float32(sequential + np.float32(column))
    return terms, terms.sum(axis=1), (terms**2).sum(axis=1), sequential


@pytest.mark.parametrize("k", [1, 7, 64, 1000, 10_000])
@pytest.mark.parametrize("roundings", [["float32"], ["float16"], ["bfloat16"], ["float16", "float32"], ["hifloat8"]])
def test_sequential_float32_sums_pass(k, roundings):
    _, exact, squares, result = products(200, k, seed=k)
    for name in roundings:
        result = cast(result, name)
    verdict = check_correct(result, exact, squares, k, roundings)
    assert verdict.correct and verdict.wrong == 0 and verdict.first_wrong is None
    assert verdict.worst_error_over_bound <= 1
    assert verdict.worst_error_over_bound > 0 or (k, roundings) == (1, ["float32"])  # there the product is exact
    values = decode(result, "hifloat8") if roundings == ["hifloat8"] else result.astype(float)
    assert verdict.max_abs_error == np.abs(values - exact).max()


@pytest.mark.parametrize("k", [64, 10_000, 100_352])
def test_zeros_fail_at_any_k(k):
    """A bound in sum |ab| would let zeros pass: K 2^-24 sum |ab| is above the sums themselves here from K = 10^5 on."""
    _, exact, squares, _ = products(50, k)
    verdict = check_correct(np.zeros(50, np.float32), exact, squares, k, ["float32"])
    assert verdict.wrong == 50 and verdict.first_wrong == (0,)


@pytest.mark.parametrize("k", [9, 576, 20_000])
@pytest.mark.parametrize("roundings", [["float32"], ["float16"]])
def test_a_dropped_product_is_found(k, roundings):
    """A product of usual size missing from every sum: nearly all elements are wrong in float32, some in float16."""
    terms, exact, squares, _ = products(400, k)
    verdict = check_correct(cast(exact - terms[:, k // 2], roundings[0]), exact, squares, k, roundings)
    assert not verdict.correct
    assert verdict.wrong > (360 if roundings == ["float32"] else 100)


def test_one_wrong_element_one_nan_one_inf():
    _, exact, squares, good = products(60, 32)
    shape = (3, 4, 5)
    exact, squares = exact.reshape(shape), squares.reshape(shape)
    for poison in (np.nan, np.inf, -np.inf, float(exact[1, 2, 3]) * 1.001 + 1e-3):
        result = good.reshape(shape).copy()
        result[1, 2, 3] = poison
        verdict = check_correct(result, exact, squares, 32, ["float32"])
        assert (verdict.correct, verdict.wrong, verdict.first_wrong) == (False, 1, (1, 2, 3))
        assert verdict.worst_error_over_bound > 1
        assert np.isfinite(poison) == np.isfinite(verdict.max_abs_error)
        assert verdict.to_dict()["first_wrong"] == [1, 2, 3]


@pytest.mark.parametrize("name", ["float32", "float16", "hifloat8"])
def test_shifted_by_one_is_found(name):
    _, exact, squares, _ = products(500, 64)
    verdict = check_correct(np.roll(cast(exact, name), 1), exact, squares, 64, [name])
    assert verdict.wrong > 400


@sampled(50, 200)
@given(st.floats(-7e4, 7e4), st.sampled_from(["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "hifloat8"]))
def test_one_rounding_to_nearest_passes_and_two_steps_away_fails(value, name):
    """K = 1: the product is exact up to float32, so only the rounding counts."""
    exact = np.array([value])
    result = cast(exact, name)
    assert check_correct(result, exact, exact**2, 1, [name]).correct
    moved = decode(encode(exact, name), name).astype(float)
    step = 2 * half_ulp(np.abs(exact) * 1.0001 + 1e-30, name)
    if np.isfinite(moved).all() and value != 0:
        assert not check_correct(moved + 1.01 * step, exact, exact**2, 1, [name]).correct


def test_ties_are_free_and_a_little_more_is_not():
    exact = np.array([1 + 2.0**-11])  # between two halves, either is right
    for right in (1.0, 1 + 2.0**-10):
        assert check_correct(np.float16([right]), exact, exact**2, 1, ["float16"]).correct
    off = np.array([1 + 2.0**-11 + 2.0**-18])
    assert not check_correct(np.float16([1.0]), off, off**2, 1, ["float16"]).correct


def test_overflow():
    """Infinity is right only where reference and bound reach the threshold (65520 for float16), and with its sign."""
    exact = np.array([65521.0, 70000.0, -1e6, 65519.999, 65500.0, 70000.0, -1e6])
    result = np.float16([np.inf, np.inf, -np.inf, np.inf, np.inf, 65504, np.inf])
    verdicts = [
        check_correct(result[i : i + 1], exact[i : i + 1], exact[i : i + 1] ** 2, 1, ["float16"]).correct for i in range(7)
    ]
    assert verdicts == [True, True, True, True, False, False, False]
    wide = np.array([3e38, 3.5e38])
    assert check_correct(np.float32([np.inf, np.inf]), wide, wide**2 * 1.0, 1, ["float32"]).wrong == 1


def test_overflow_of_e4m3_is_nan():
    exact = np.array([470.0, 460.0, 1.0, 1000.0])
    result = cast(np.array([np.nan, np.nan, np.nan, 448.0]), "float8_e4m3fn")
    verdict = check_correct(result, exact, exact**2, 1, ["float8_e4m3fn"])
    assert verdict.wrong == 3 and verdict.first_wrong == (1,)


@pytest.mark.parametrize(("name", "overflowed"), [("float8_e4m3fn", np.nan), ("float8_e5m2", np.inf), ("float16", np.inf)])
def test_a_tie_at_the_threshold_overflows_where_rounding_to_even_takes_it_out(name, overflowed):
    """464 is a tie of e4m3fn between 448, which is even, and what would be 480; without products a sum has lost nothing."""
    threshold = format_of(name).overflow_threshold
    for exact in (threshold, np.nextafter(threshold, np.inf)):
        rounded = reference.round_value(float(exact), name)
        result = cast(np.array([overflowed]), name)
        verdict = check_correct(
            result, np.array([exact]), np.array([0.0]), 1, [name], sum_abs=np.array([0.0]), exact_terms=True
        )
        assert verdict.correct == (not np.isfinite(rounded))


def test_not_finite_references():
    exact = np.array([np.nan, np.inf, -np.inf])
    assert check_correct(np.float16([np.nan, np.inf, -np.inf]), exact, exact**2, 4, ["float16"]).correct
    for result in ([0, np.inf, -np.inf], [np.nan, np.nan, -np.inf], [np.nan, 65504, -np.inf], [np.nan, np.inf, np.inf]):
        assert check_correct(np.float16(result), exact, exact**2, 4, ["float16"]).wrong == 1


def test_infinite_sums_bound_nothing():
    for squares in (np.inf, np.nan):
        assert not check_correct(np.float32([5.0]), np.array([1.0]), np.array([squares]), 4, ["float32"]).correct
        assert not check_correct(np.float32([np.inf]), np.array([1.0]), np.array([squares]), 4, ["float32"]).correct


def test_saturating_machines():
    exact = np.array([1e6, -1e6, np.nan, np.inf, 5.0, 65510.0])
    squares = np.where(np.isfinite(exact), exact**2, np.inf)
    good = np.float16([65504, -65504, 0, 65504, 5, 65504])
    assert check_correct(good, exact, squares, 1, ["float16"], saturate=True).correct
    for i, wrong in enumerate([np.inf, -65472, np.nan, np.inf, np.nan, np.inf]):
        bad = good.copy()
        bad[i] = wrong
        assert check_correct(bad, exact, squares, 1, ["float16"], saturate=True).first_wrong == (i,)


def test_nothing_to_add_must_be_zero():
    zeros = np.zeros((2, 3))
    assert check_correct(zeros.astype(np.float16), zeros, zeros, 0, ["float16"]).correct
    tiny = zeros.astype(np.float32)
    tiny[1, 1] = 1e-30
    assert check_correct(tiny, zeros, zeros, 0, ["float16"]).first_wrong == (1, 1)
    assert check_correct(tiny, zeros, zeros, 5, ["float16"]).first_wrong == (1, 1)
    assert not check_correct(tiny + 1, zeros + 1, zeros, 0, ["float16"]).correct


def test_empty_arrays_are_correct():
    empty = np.zeros((0, 4))
    verdict = check_correct(empty.astype(np.float16), empty, empty, 0, ["float16"])
    assert (verdict.correct, verdict.worst_error_over_bound, verdict.max_abs_error) == (True, 0.0, 0.0)


def test_subnormal_results():
    exact = np.array([3 * 2.0**-26])  # rounds to 2^-24; 0 and 2^-23 are more than half a step away
    for result, right in ((2.0**-24, True), (0.0, False), (2.0**-23, False)):
        assert check_correct(np.float16([result]), exact, exact**2, 1, ["float16"]).correct is right


@pytest.mark.parametrize("scale", [1e-19, 1e-20, 1e-21, 1e-22])
@pytest.mark.parametrize("k", [1, 9, 144, 4000])
@pytest.mark.parametrize("constant", [False, True])
def test_products_below_the_normal_range(k, scale, constant):
    """Every product loses up to half of 2^-149, equal ones all to one side."""
    draw = np.ones if constant else np.random.default_rng(k).standard_normal
    a, b = ((draw((200, k)) * scale).astype(np.float32) for _ in range(2))
    terms = a.astype(np.float64) * b
    exact, squares = terms.sum(axis=1), (terms**2).sum(axis=1)
    result = (a * b).sum(axis=1)  # pairwise: sequential sums of equal numbers lean
    rigorous = {"sum_abs": np.abs(terms).sum(axis=1)}
    for more in ({}, rigorous):
        assert check_correct(result, exact, squares, k, ["float32"], **more).correct
        relative = 9 * np.sqrt(k) * (np.abs(exact) + np.sqrt(squares)) + k * more.get("sum_abs", 0.0)
        wrong = exact + (k / 2 + 1) * 2.0**-149 + relative * 2.0**-23
        assert check_correct(wrong, exact, squares, k, ["float32"], **more).wrong == 200


def test_a_product_loses_no_more_than_itself():
    """Zeros stay exact at any K, sums of a tensor have no such loss, and other formats have their own smallest value."""
    assert accumulation_bound(0.0, 0.0, 10**6) == rigorous_bound(0.0, 10**6) == 0
    assert accumulation_bound(0.0, 2.0**-340, 16) == pytest.approx(4 * 2.0**-170, rel=1e-6)
    assert accumulation_bound(0.0, 2.0**-280, 16) == pytest.approx(16 * 2.0**-150 + 2.0**-158, rel=1e-6)
    assert accumulation_bound(0.0, 2.0**-280, 16, exact_terms=True) == 2.0**-160
    assert accumulation_bound(0.0, 1.0, 4, precision="float16") == 4 * 2.0**-11 * 2 + 4 * 2.0**-25
    assert rigorous_bound(2.0**-140, 3) == pytest.approx(3 * 2.0**-150, rel=1e-4)
    assert rigorous_bound(2.0**-140, 3, exact_terms=True) == 3 * 2.0**-164
    one = np.full(1, 2.0**-149)
    assert not check_correct(2 * one, one, one**2, 1000, ["float32"], exact_terms=True).correct


def test_k_per_element():
    """A wider bound where more products were added: the same error is right at k = 10^6 and wrong at k = 1."""
    exact = np.ones((2, 2))
    result = (exact + 1e-5).astype(np.float32)
    k = np.array([[1, 10**6]])
    verdict = check_correct(result, exact, exact, k, ["float32"])
    assert verdict.wrong == 2 and verdict.first_wrong == (0, 0)


def test_the_rigorous_bound_for_cancelling_sums():
    a = np.float32([[1e8, 1.0, -1e8]])
    result, exact = np.zeros(1, np.float32), np.ones(1)  # (1e8 + 1) - 1e8 is 0 in float32
    assert check_correct(result, exact, np.zeros(1), 3, ["float32"], sum_abs=np.abs(a).sum(axis=1)).correct
    assert rigorous_bound([2e8 + 1], 3)[0] == 3 * 2.0**-24 * (2e8 + 1)
    assert accumulation_bound(-2.0, 9.0, 16) == 4 * 2.0**-24 * 4 * (2 + 3)


def test_pieces_do_not_matter():
    """The array is judged in pieces; a late wrong element is still found, at its own index."""
    exact = np.ones((3, 200_000))
    result = exact.astype(np.float16)
    result[2, 199_998] = 1.01
    verdict = check_correct(result, exact, exact, 1, ["float16"])
    assert (verdict.wrong, verdict.first_wrong) == (1, (2, 199_998))


def test_shapes_must_agree():
    with pytest.raises(SimError, match="equal shapes"):
        check_correct(np.zeros(3, np.float16), np.zeros((3, 1)), np.zeros(3), 1, ["float16"])


def test_a_sum_that_was_rounded_before_something_cancelled_it():
    """A bias that takes the sum back to almost nothing leaves the rounding of the sum: allowed where it is told, not else."""
    k = 64
    _, exact, squares, result = products(200, k)
    narrow = cast(result, "float16").astype(np.float64)
    bias = -cast(exact * (1 + 2.0**-9), "float16").astype(np.float64)
    total, got = exact + bias, cast((narrow + bias).astype(np.float32), "float16")
    zeros = np.zeros_like(exact)
    carried = rounded_bound(exact, accumulation_bound(exact, squares, k), ["float16"])
    assert check_correct(got, total, zeros, 1, ["float16"], carried=carried).correct
    assert not check_correct(got, total, squares, k, ["float16"]).correct
    off = got.astype(np.float64) + 3 * half_ulp(exact, "float16")
    assert check_correct(cast(off, "float16"), total, zeros, 1, ["float16"], carried=carried).wrong > 150


def test_zeros_that_may_have_met_an_infinity():
    """A doubtful element has its own value or is NaN; on a machine that clamps it is a part of its sum or the largest."""
    exact = np.array([1.0, 1.0, 1.0, np.inf, np.inf, np.nan])
    doubtful, squares = np.array([True, True, False, True, True, True]), np.ones(6)
    good = np.float16([1, np.nan, 1, np.inf, np.nan, np.nan])
    assert check_correct(good, exact, squares, 4, ["float16"], doubtful=doubtful).correct
    for i, wrong in enumerate([2, np.inf, np.nan, -np.inf, 65504, 0]):
        bad = good.copy()
        bad[i] = wrong
        assert check_correct(bad, exact, squares, 4, ["float16"], doubtful=doubtful).first_wrong == (i,)
    clamped = np.float16([1, 0, 1, 65504, 2, 0])  # four products whose squares add to 1: 2 at most
    assert check_correct(clamped, exact, squares, 4, ["float16"], doubtful=doubtful, saturate=True).correct
    either = np.float16([1, -2, 1, 65504, 65504, -65504])
    assert check_correct(either, exact, squares, 4, ["float16"], doubtful=doubtful, saturate=True).correct
    faults = [*enumerate([np.nan, np.inf, 2, np.inf, np.nan, -np.inf]), *enumerate([-3, 3, 1.5, -65504, -65504, 3])]
    for i, wrong in faults:
        bad = clamped.copy()
        bad[i] = wrong
        verdict = check_correct(bad, exact, squares, 4, ["float16"], doubtful=doubtful, saturate=True)
        assert verdict.first_wrong == (i,)


def test_parts_of_a_sum_that_overflow():
    """1e39 - 1e39 + 1 is 1, and in float32 inf - inf: NaN, or an infinity where it was added last."""
    exact, squares = np.ones(1), np.array([2e78])
    for result in (1.0, np.nan, np.inf, -np.inf):
        assert check_correct(np.float32([result]), exact, squares, 3, ["float32"]).correct
        assert not check_correct(np.float32([result]), exact, np.array([2e60]), 3, ["float32"]).correct or result == 1.0
    assert check_correct(np.float32([5]), exact, squares, 3, ["float32"], saturate=True).correct
    assert not check_correct(np.float32([np.nan]), exact, squares, 3, ["float32"], saturate=True).correct
