"""The teaching page of a format: golden steps of a few values, and agreement with the casts on many."""

import re

import numpy as np
import pytest

from ascend_sim.errors import SimError
from ascend_sim.numerics import FORMATS, round_to
from ascend_sim.studies.lookup.formats import explain_format

pytestmark = pytest.mark.fast

STEPS = """Rounding 0.1 to hifloat8 (round: nearest, a tie goes away from zero)
  1. The machine holds it as float32 first:
     0 01111011 10011001100110011001101 (0x3DCCCCCD) = 0.10000000149011612 (inexact)
  2. |x| = 1.xxx * 2^-4: here hifloat8 keeps 2 bits after the point, its values are 2^-6 apart.
  3. In units of 2^-6, kept | dropped: 110 | 011001100110011001101
     between 0.09375 and 0.109375, 0.4 of the way up
  4. round: the magnitude stays below
  5. Result 0 10 100 10 (0x52) = 0.09375, error -0.00625 = -0.4 ULP
"""


def test_steps_in_bits():
    assert explain_format("hifloat8", "0.1").startswith(STEPS)


@pytest.mark.parametrize("name", FORMATS)
def test_page_of_every_format(name):
    page, fmt = explain_format(name), FORMATS[name]
    assert page.startswith(name)
    for text in (repr(fmt.max_finite), repr(fmt.smallest), repr(fmt.smallest_normal), *fmt.specials, fmt.source):
        assert text in page
    assert "Rounding " not in page


def test_464_is_no_overflow_in_e4m3():
    """It is a tie, which goes to the even 448; in float16 the tie goes to infinity."""
    assert "overflows above   464.0 " in explain_format("float8_e4m3fn")
    assert "overflows from    65520.0 " in explain_format("float16")


def test_hifloat8_prefixes_and_spacing():
    page = explain_format("hif8")
    assert "S 10    E 3 bits  M 2 bits  exponent +-4 .. +-7" in page
    assert "2^-3 .. 2^4: 2^(e-3), relative 0.125" in page


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("value", ["0.1", "-3.14159", "1e-7", "65520", "-1e6", "0", "-0.0", "1e400", "inf", "nan", "448"])
def test_the_result_is_that_of_the_cast(name, value):
    for mode in FORMATS[name].roundings:
        page = explain_format(name, value, rounding=mode)
        shown = float(re.search(r"Result .* = (\S+?),? ?(error|\(|$)", page.partition("\n\n")[0].splitlines()[-1]).group(1))
        with np.errstate(over="ignore"):
            expected = round_to(np.float32(float(value)), name, rounding=mode)
        np.testing.assert_array_equal(np.float32(shown), expected)
        assert np.signbit(np.float32(shown)) == np.signbit(expected) or np.isnan(shown)


def test_ties_overflow_and_hybrid_are_told():
    assert "a tie between 65504.0 and 65536.0" in explain_format("half", "65520")
    assert "inf (overflow; 65504.0 when saturating)" in explain_format("half", "65520")
    assert "frac 00100000000000 >= thr 00000000000000: the magnitude goes up" in explain_format("hif8", 16.5, rounding="hybrid")
    assert "nothing is dropped" in explain_format("hf32", 0.5, mantissa_bits=10)


@pytest.mark.parametrize("value", ["one", "", "0x10", "1_000", "\u0661"])
def test_not_a_number(value):
    with pytest.raises(SimError, match="is not a number"):
        explain_format("half", value)
