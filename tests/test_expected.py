"""Verdicts on outputs of a kernel of one's own."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from rich.console import Console

import ascend_sim as asim
from ascend_sim.errors import SimError
from ascend_sim.expected import read_expectations
from ascend_sim.report.text import render
from tests.support.launched import CHIP, move, product


def test_a_product_is_judged_as_gradients_are_and_one_wrong_term_fails() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((32, 32)).astype(np.float16) for _ in range(2))
    given = (a, b, asim.empty((32, 32), "float16"))
    right = asim.launch(product, 1, *given, chip=CHIP, expected=lambda a, b: asim.Expected.product(a, b))
    (figures,) = right.report.outputs.values()
    assert right.passed and 0 < figures["worst_error_over_bound"] <= 1
    dropped = asim.Expected.product(a, b)
    values = np.array(dropped.values)
    values[3, 5] -= float(a[3, 7]) * float(b[7, 5])
    wrong = asim.launch(product, 1, *given, chip=CHIP, expected=asim.Expected(values, dropped.magnitude, dropped.products))
    assert not wrong.passed and wrong.report.outputs["c"]["first_wrong"] == [3, 5]


def test_integers_must_be_equal_and_moved_numbers_within_a_rounding() -> None:
    x = np.arange(66, dtype=np.int32).reshape(2, 33)
    off = x.copy()
    off[1, 2] += 1
    given = (x, asim.empty(x.shape, "int32"))
    assert asim.launch(move, 1, *given, chip=CHIP, expected={"y": x}).passed
    verdict = asim.launch(move, 1, *given, chip=CHIP, expected=off).report.outputs["y"]
    assert (verdict["correct"], verdict["wrong"], verdict["first_wrong"]) == (False, 1, [1, 2])
    real = np.full((2, 33), 1.0, np.float32)
    given = (real, asim.empty(real.shape, "float32"))
    assert asim.launch(move, 1, *given, chip=CHIP, expected=real * (1 + 2.0**-24)).passed
    assert not asim.launch(move, 1, *given, chip=CHIP, expected=real * (1 + 2.0**-20)).passed


def test_a_tolerance_of_the_users_own() -> None:
    """The tolerance is that of numpy.allclose: atol + rtol |expected|, in place of the bound."""
    real = np.array([[1.0, -4.0, 0.0]], np.float32)
    given = (real, asim.empty(real.shape, "float32"))
    off = real + np.float32([[0.01, 0.04, 0.0]])
    for tolerance in ({"rtol": 0.011}, {"atol": 0.041}, {"rtol": 0.005, "atol": 0.025}):
        run = asim.launch(move, 1, *given, chip=CHIP, expected=asim.Expected(off, **tolerance))
        near = np.allclose(real, off, rtol=tolerance.get("rtol", 0), atol=tolerance.get("atol", 0))
        assert run.passed == near is True, tolerance
    for tolerance in ({"rtol": 0.009}, {"atol": 0.03}, {"rtol": 0.0}):
        run = asim.launch(move, 1, *given, chip=CHIP, expected=asim.Expected(off, **tolerance))
        assert not run.passed and not np.allclose(real, off, rtol=tolerance.get("rtol", 0), atol=tolerance.get("atol", 0))
    whole = np.arange(6, dtype=np.int32).reshape(1, 6)
    given = (whole, asim.empty(whole.shape, "int32"))
    assert asim.launch(move, 1, *given, chip=CHIP, expected=asim.Expected(whole + 1, atol=1)).passed
    assert not asim.launch(move, 1, *given, chip=CHIP, expected=asim.Expected(whole + 2, atol=1)).passed
    long = np.full((1, 8), 2**60, np.int64)  # which float64 does not tell from the next one
    given = (long, asim.empty(long.shape, "int64"))
    assert not asim.launch(move, 1, *given, chip=CHIP, expected=long + 1).passed


def test_a_tolerance_and_what_is_not_finite() -> None:
    real = np.array([[np.inf, np.nan, -np.inf, 1.0]], np.float32)
    given = (real, asim.empty(real.shape, "float32"))
    assert asim.launch(move, 1, *given, chip=CHIP, expected=asim.Expected(real, rtol=0.1)).passed
    for place, value in ((0, np.nan), (1, 1.0), (2, np.inf), (3, np.nan), (3, np.inf)):
        other = real.copy()
        other[0, place] = value
        verdict = asim.launch(move, 1, *given, chip=CHIP, expected=asim.Expected(other, atol=1e9)).report.outputs["y"]
        assert (verdict["wrong"], verdict["first_wrong"]) == (1, [0, place])


def test_tolerances_that_cannot_be() -> None:
    for given, said in (
        ({"rtol": -1}, "rtol is -1; allowed is a finite number from 0"),
        ({"atol": np.nan}, "atol is nan"),
        ({"rtol": "1"}, "rtol is '1'"),
        ({"rtol": 0.1, "products": 5}, "rtol replaces the bound of magnitude, products and precision"),
    ):
        with pytest.raises(asim.SimError, match=said):
            asim.Expected([1.0], **given)


def test_the_first_wrong_element_is_told_with_its_values() -> None:
    real = np.full((40, 1024), 1.25, np.float32)
    off = real.astype(np.float64)
    off[9, 806:816] = 1.24
    run = asim.launch(move, 1, real, asim.empty(real.shape, "float32"), chip=CHIP, expected=asim.Expected(off, atol=0.008))
    assert run.report.outputs["y"]["first"] == pytest.approx({"got": 1.25, "expected": 1.24, "error_over_bound": 1.25})
    text = "y: 10 of 40,960 wrong; first [9, 806]: got 1.25, expected 1.24, 1.25 x the bound"
    screen = Console(file=io.StringIO(), width=120)
    render(run.report, screen)
    assert text in screen.file.getvalue() and text in run._repr_html_()  # type: ignore[attr-defined]
    json.dumps(run.report.to_dict(statements=False), allow_nan=False)
    off[0, 0] = np.nan
    run = asim.launch(move, 1, real, asim.empty(real.shape, "float32"), chip=CHIP, expected=off)
    assert "first [0, 0]: got 1.25, expected nan" in run._repr_html_()
    json.dumps(run.report.to_dict(statements=False), allow_nan=False)


def test_precision_widens_the_bound_by_its_unit() -> None:
    real = np.full((2, 33), 1.0, np.float32)
    given = (real, asim.empty(real.shape, "float32"))
    for off, precision, passes in ((2.0**-10, "float16", True), (2.0**-8, "float16", False), (2.0**-10, "float32", False)):
        expected = asim.Expected(real.astype(np.float64) * (1 + off), precision=precision)
        assert asim.launch(move, 1, *given, chip=CHIP, expected=expected).passed == passes


def test_a_plain_array_of_a_sum_is_told_how_sums_are_bounded() -> None:
    """A sum of 64 products is right within its bound, and beyond a rounding of values near 0."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((32, 64)).astype(np.float16), rng.standard_normal((64, 32)).astype(np.float16)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    hint = "the bound of a rounding or two; Expected.product bounds sums"
    for wanted, right, hinted in ((exact, False, True), (asim.Expected.product(a, b), True, False)):
        run = asim.launch(product, 1, a, b, asim.empty((32, 32), "float32"), chip=CHIP, expected=wanted)
        assert (run.passed, hint in run._repr_html_()) == (right, hinted)
    for wanted in (asim.Expected.product(a, b + 1), exact + 1):  # no rounding
        run = asim.launch(product, 1, a, b, asim.empty((32, 32), "float32"), chip=CHIP, expected=wanted)
        assert not run.passed and hint not in run._repr_html_()


def test_a_function_takes_the_inputs_that_it_names() -> None:
    inputs, outputs = {"x": np.ones(2), "scale": 3}, {"y": np.zeros(2, np.float32)}
    for function in (lambda scale, x: scale * x, lambda **given: given["x"] * given["scale"], lambda x, n=3, **_: n * x):
        assert np.array_equal(read_expectations(function, inputs, outputs)["y"].values, [3, 3])
    for function in (lambda z: z, lambda z, **_: z):
        with pytest.raises(SimError, match="asks for z; inputs of the kernel are x, scale"):
            read_expectations(function, inputs, outputs)
    with pytest.raises(SimError, match="does not show its parameters; give a Python function"):
        read_expectations(max, inputs, outputs)


@pytest.mark.parametrize("one", [None, 3.0, asim.Expected(np.zeros(2)), np.float32(1)])
def test_a_list_of_outputs_takes_a_list_of_values(one: object) -> None:
    outputs = {f"x[{number}]": np.zeros(2, np.float32) for number in range(2)}
    wanted = read_expectations({"x": [np.ones(2), asim.Expected(np.zeros(2))]}, {}, outputs)
    assert [*wanted] == ["x[0]", "x[1]"] and np.array_equal(wanted["x[0]"].values, np.ones(2))
    with pytest.raises(SimError, match="for x, a list of outputs; give a list with one for each"):
        read_expectations({"x": one}, {}, outputs)
