"""Verdicts on outputs of a kernel of one's own."""

from __future__ import annotations

import numpy as np

import ascend_sim as asim
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
    wrong = asim.launch(
        product, 1, *given, chip=CHIP, expected=asim.Expected(values, dropped.magnitude, dropped.products)
    )
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


def test_precision_widens_the_bound_by_its_unit() -> None:
    real = np.full((2, 33), 1.0, np.float32)
    given = (real, asim.empty(real.shape, "float32"))
    for off, precision, passes in (
        (2.0**-10, "float16", True),
        (2.0**-8, "float16", False),
        (2.0**-10, "float32", False),
    ):
        expected = asim.Expected(real.astype(np.float64) * (1 + off), precision=precision)
        assert asim.launch(move, 1, *given, chip=CHIP, expected=expected).passed == passes
